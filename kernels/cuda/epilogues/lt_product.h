// A matrix product as cuBLASLt computes it, in row-major terms, its checks, and the key by which
// its algorithm is remembered. Pure: it builds and is tested without CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// How r = alpha * a b + c becomes d. The names are cuBLASLt's. GELU is the tanh form.
enum class LtEpilogue : uint8_t {
  kNone,         // r
  kBias,         // r + bias
  kRelu,         // max(r, 0)
  kReluBias,     // max(r + bias, 0)
  kGelu,         // gelu(r)
  kGeluBias,     // gelu(r + bias)
  kReluAux,      // kRelu, and aux receives the mask
  kReluAuxBias,  // kReluBias, and aux receives the mask
  kGeluAux,      // kGelu, and aux receives the input of gelu
  kGeluAuxBias,  // kGeluBias, and aux receives the input of gelu
  kDRelu,        // r where aux has its bit set, else 0: the gradient of relu's input
  kDReluBgrad,   // kDRelu, and bias receives the sum of d over its rows
  kDGelu,        // r * gelu'(aux): the gradient of gelu's input
  kDGeluBgrad,   // kDGelu, and bias receives the sum of d over its rows
  kBgradA,       // r, and bias [m] receives the sum of a over k; with transpose_a
  kBgradB,       // r, and bias [n] receives the sum of b over k; without transpose_b
};
inline constexpr int kNumLtEpilogues = 16;

const char* Name(LtEpilogue epilogue);
bool ReadsBias(LtEpilogue epilogue);
bool WritesBias(LtEpilogue epilogue);  // a gradient
bool UsesReluMask(LtEpilogue epilogue);
bool UsesGeluInput(LtEpilogue epilogue);

// d = epilogue(alpha * a b + c), accumulated in float32. Every tensor is in device memory.
//
// a and b have one type: float32, float16, bfloat16 or float8_e4m3. d has that type or float32;
// with float8_e4m3 operands it may have any of the four. A leading dimension [batch] on d makes a
// strided batch, for epilogues that do not sum. Operands without it are shared by all products of
// the batch.
struct LtProduct {
  Tensor a;  // [m, k]; [k, m] if transpose_a
  Tensor b;  // [k, n]; [n, k] if transpose_b. float8_e4m3: only transpose_b, n and k % 16 = 0
  Tensor c;  // as d, bfloat16 for a float8_e4m3 d; may be d itself; may be empty
  Tensor d;  // [m, n]; must not alias a or b
  bool transpose_a = false;
  bool transpose_b = false;
  float alpha = 1.0f;
  LtEpilogue epilogue = LtEpilogue::kNone;
  // [n] ([m] for kBgradA), or [batch, n]. It has d's type, or bfloat16 for a float32 or float8_e4m3
  // d of float8_e4m3 operands.
  Tensor bias;
  // ReLU's mask: [m, bytes] int8, column j is bit j % 8 of byte j / 8; rows are a multiple of 16
  // bytes apart. GELU's input: [m, n] of d's type; rows are a multiple of 8 elements apart.
  Tensor aux;
  // float32 operands may be rounded to TF32 (10 bits of mantissa), many times faster.
  bool tf32 = false;
  // float8_e4m3: device memory, one number each, 16-byte aligned; null is 1. a and b are multiplied
  // by theirs when they are read, d by its own before it is rounded.
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
  const float* d_scale = nullptr;
  // Shares its algorithm with products of up to a quarter more rows, so that not every row count of
  // a ragged batch is measured. Only without batch, transpose_a, aux and tf32. An epilogue that
  // writes sums shares nothing: its algorithm is checked at each size.
  bool bucket_rows = false;
  // A row of d has the same bits for any values and any number of the other rows. Only with
  // bucket_rows and an epilogue that writes no sums.
  bool batch_invariant = false;

  int64_t m() const { return d.dim(-2); }
  int64_t n() const { return d.dim(-1); }
  int64_t k() const { return transpose_a ? a.dim(-2) : a.dim(-1); }
  int64_t batch() const { return d.rank == 3 ? d.dim(0) : 1; }
};

// INVALID_ARGUMENT names the field that breaks the contract above.
absl::Status Validate(const LtProduct& product);

// Rows that share an algorithm: every count up to 16, then four steps to each doubling.
int64_t BucketRows(int64_t num_rows);

// The numbers by which an algorithm is chosen, in KeyOf's order. Equal keys mean equal work.
struct AlgorithmKey {
  static constexpr size_t kNumFields = 23;
  std::array<int64_t, kNumFields> fields = {};
  auto operator<=>(const AlgorithmKey&) const = default;
};
AlgorithmKey KeyOf(const LtProduct& product);

// Whether BackwardEpilogue (backward_epilogue.h) can compute this product's epilogue.
bool HasBackwardEpilogue(const LtProduct& product);

}  // namespace beamline::cuda
