#include "kernels/cuda/epilogues/lt_product.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline::cuda {
namespace {

constexpr int64_t kMaskRowBytes = 16;    // cuBLASLt requires 128 bits
constexpr int64_t kGeluRowElements = 8;  // cuBLASLt requires 8 elements
constexpr int64_t kFp8Multiple = 16;
constexpr uint64_t kMostAlignment = 16;  // more makes no difference to cuBLASLt

constexpr const char* kNames[kNumLtEpilogues] = {
    "none",     "bias",          "relu",     "relu_bias",     "gelu",  "gelu_bias",
    "relu_aux", "relu_aux_bias", "gelu_aux", "gelu_aux_bias", "drelu", "drelu_bgrad",
    "dgelu",    "dgelu_bgrad",   "bgrada",   "bgradb"};

absl::Status Invalid(const char* field, const Tensor& tensor, const std::string& expected) {
  return absl::InvalidArgumentError(
      fmt::format("{} is {}; expected: {}", field, tensor.DebugString(), expected));
}

// `rows` x `cols`, with or without the product's batch in front.
absl::Status CheckShape(const char* field, const Tensor& tensor, int64_t rows, int64_t cols,
                        int64_t batch) {
  const bool shaped = (tensor.rank == 2 || (tensor.rank == 3 && tensor.dim(0) == batch)) &&
                      tensor.dim(-2) == rows && tensor.dim(-1) == cols;
  if (shaped && !tensor.empty() && tensor.row_stride >= cols) return absl::OkStatus();
  return Invalid(field, tensor,
                 fmt::format("[{}, {}], or that for each of {} in the batch", rows, cols, batch));
}

absl::Status CheckTypes(const LtProduct& p) {
  const DType type = p.a.dtype;
  const bool fp8 = type == DType::kFloat8E4M3;
  const bool known =
      fp8 || type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBFloat16;
  if (!known) return Invalid("a", p.a, "float32, float16, bfloat16 or float8_e4m3");
  if (p.b.dtype != type) return Invalid("b", p.b, fmt::format("a's type, {}", Name(type)));
  const DType d = p.d.dtype;
  const bool d_known =
      d == type || d == DType::kFloat32 || (fp8 && (d == DType::kFloat16 || d == DType::kBFloat16));
  if (!d_known) return Invalid("d", p.d, fmt::format("float32 or {}", Name(type)));
  if (!p.c.empty()) {
    const DType c = d == DType::kFloat8E4M3 ? DType::kBFloat16 : d;
    if (p.c.dtype != c) return Invalid("c", p.c, Name(c));
  }
  if (p.tf32 && type != DType::kFloat32) {
    return absl::InvalidArgumentError("tf32 is set; it is for float32 operands");
  }
  if (!fp8 && (p.a_scale != nullptr || p.b_scale != nullptr || p.d_scale != nullptr)) {
    return absl::InvalidArgumentError("a scale is set; scales are for float8_e4m3 operands");
  }
  for (const float* scale : {p.a_scale, p.b_scale, p.d_scale}) {
    if (reinterpret_cast<uintptr_t>(scale) % kMostAlignment != 0) {
      return absl::InvalidArgumentError("a scale is not 16-byte aligned");
    }
  }
  if (fp8 && (p.transpose_a || !p.transpose_b)) {
    return absl::InvalidArgumentError(
        "float8_e4m3 operands: a is to be [m, k] and b [n, k], transposed");
  }
  if (fp8 && (p.epilogue == LtEpilogue::kDRelu || p.epilogue == LtEpilogue::kDGelu ||
              WritesBias(p.epilogue))) {
    return absl::InvalidArgumentError(
        fmt::format("the epilogue {} is not for float8_e4m3 operands", Name(p.epilogue)));
  }
  if (fp8 && (p.n() % kFp8Multiple != 0 || p.k() % kFp8Multiple != 0)) {
    return Invalid("b", p.b, "n and k that are multiples of 16, of float8_e4m3");
  }
  return absl::OkStatus();
}

absl::Status CheckBias(const LtProduct& p) {
  if (!ReadsBias(p.epilogue) && !WritesBias(p.epilogue)) {
    if (p.bias.empty()) return absl::OkStatus();
    return Invalid("bias", p.bias, fmt::format("none for the epilogue {}", Name(p.epilogue)));
  }
  if (p.epilogue == LtEpilogue::kBgradA && !p.transpose_a) {
    return Invalid("a", p.a, "transpose_a, for the epilogue bgrada");
  }
  if (p.epilogue == LtEpilogue::kBgradB && p.transpose_b) {
    return Invalid("b", p.b, "no transpose_b, for the epilogue bgradb");
  }
  if (WritesBias(p.epilogue) && p.d.rank == 3) {
    return Invalid("d", p.d, "no batch, for an epilogue that sums");
  }
  const int64_t size = p.epilogue == LtEpilogue::kBgradA ? p.m() : p.n();
  const bool shaped = !p.bias.empty() && p.bias.dim(-1) == size &&
                      (p.bias.rank == 1 || (p.bias.rank == 2 && p.bias.dim(0) == p.batch()));
  if (!shaped) return Invalid("bias", p.bias, fmt::format("[{}]", size));
  const bool fp8 = p.a.dtype == DType::kFloat8E4M3;
  const DType type = fp8 && p.d.dtype != DType::kFloat16 ? DType::kBFloat16 : p.d.dtype;
  return p.bias.dtype == type ? absl::OkStatus() : Invalid("bias", p.bias, Name(type));
}

absl::Status CheckAux(const LtProduct& p) {
  if (UsesReluMask(p.epilogue)) {
    BEAMLINE_RETURN_IF_ERROR(CheckShape("aux", p.aux, p.m(), p.aux.dim(-1), p.batch()));
    const bool fits = p.aux.dtype == DType::kInt8 && p.aux.dim(-1) >= CeilDiv(p.n(), 8) &&
                      p.aux.row_stride % kMaskRowBytes == 0;
    return fits ? absl::OkStatus()
                : Invalid("aux", p.aux, "int8, a bit for each column, rows of 16-byte multiples");
  }
  if (UsesGeluInput(p.epilogue)) {
    BEAMLINE_RETURN_IF_ERROR(CheckShape("aux", p.aux, p.m(), p.n(), p.batch()));
    const bool fits = p.aux.dtype == p.d.dtype && p.aux.row_stride % kGeluRowElements == 0;
    return fits ? absl::OkStatus() : Invalid("aux", p.aux, "d's type, rows of 8-element multiples");
  }
  if (p.aux.empty()) return absl::OkStatus();
  return Invalid("aux", p.aux, fmt::format("none for the epilogue {}", Name(p.epilogue)));
}

// The largest power of two, up to kMostAlignment, that divides every address.
int64_t CommonAlignment(const LtProduct& p) {
  uint64_t bits = kMostAlignment;
  for (const Tensor* tensor : {&p.a, &p.b, &p.c, &p.d, &p.bias, &p.aux}) {
    bits |= reinterpret_cast<uintptr_t>(tensor->data);
  }
  return static_cast<int64_t>(bits & (~bits + 1));
}

int64_t BatchStride(const Tensor& tensor) {
  return tensor.rank == 3 ? tensor.dim(1) * tensor.row_stride : 0;
}

}  // namespace

const char* Name(LtEpilogue epilogue) { return kNames[static_cast<int>(epilogue)]; }

bool ReadsBias(LtEpilogue e) {
  return e == LtEpilogue::kBias || e == LtEpilogue::kReluBias || e == LtEpilogue::kGeluBias ||
         e == LtEpilogue::kReluAuxBias || e == LtEpilogue::kGeluAuxBias;
}

bool WritesBias(LtEpilogue e) {
  return e == LtEpilogue::kDReluBgrad || e == LtEpilogue::kDGeluBgrad || e == LtEpilogue::kBgradA ||
         e == LtEpilogue::kBgradB;
}

bool UsesReluMask(LtEpilogue e) {
  return e == LtEpilogue::kReluAux || e == LtEpilogue::kReluAuxBias || e == LtEpilogue::kDRelu ||
         e == LtEpilogue::kDReluBgrad;
}

bool UsesGeluInput(LtEpilogue e) {
  return e == LtEpilogue::kGeluAux || e == LtEpilogue::kGeluAuxBias || e == LtEpilogue::kDGelu ||
         e == LtEpilogue::kDGeluBgrad;
}

absl::Status Validate(const LtProduct& p) {
  if (p.d.rank != 2 && p.d.rank != 3) return Invalid("d", p.d, "[m, n] or [batch, m, n]");
  if (p.a.rank < 2) return Invalid("a", p.a, "[m, k]");
  const int64_t m = p.m(), n = p.n(), k = p.k(), batch = p.batch();
  if (m < 1 || n < 1 || k < 1 || batch < 1) return Invalid("d", p.d, "no empty dimension");
  BEAMLINE_RETURN_IF_ERROR(CheckShape("d", p.d, m, n, batch));
  BEAMLINE_RETURN_IF_ERROR(
      CheckShape("a", p.a, p.transpose_a ? k : m, p.transpose_a ? m : k, batch));
  BEAMLINE_RETURN_IF_ERROR(
      CheckShape("b", p.b, p.transpose_b ? n : k, p.transpose_b ? k : n, batch));
  if (!p.c.empty()) BEAMLINE_RETURN_IF_ERROR(CheckShape("c", p.c, m, n, batch));
  BEAMLINE_RETURN_IF_ERROR(CheckTypes(p));
  BEAMLINE_RETURN_IF_ERROR(CheckBias(p));
  BEAMLINE_RETURN_IF_ERROR(CheckAux(p));
  if (p.bucket_rows && (p.d.rank == 3 || p.transpose_a || !p.aux.empty() || p.tf32)) {
    return absl::InvalidArgumentError(
        "bucket_rows is set; it is for products without batch, transpose_a, aux and tf32");
  }
  if (p.batch_invariant && (!p.bucket_rows || WritesBias(p.epilogue))) {
    return absl::InvalidArgumentError(
        "batch_invariant is set; it is for products with bucket_rows that write no sums");
  }
  return absl::OkStatus();
}

int64_t BucketRows(int64_t num_rows) {
  return num_rows <= 16 ? num_rows : RoundUpInDoubling(num_rows, int64_t{4});
}

AlgorithmKey KeyOf(const LtProduct& p) {
  AlgorithmKey key;
  size_t next = 0;
  const auto add = [&](auto value) { key.fields[next++] = static_cast<int64_t>(value); };
  add(p.bucket_rows && !WritesBias(p.epilogue) ? BucketRows(p.m()) : p.m());
  add(p.n());
  add(p.k());
  add(p.batch());
  for (const Tensor* tensor : {&p.a, &p.b, &p.c, &p.d, &p.aux}) {
    add(tensor->empty() ? 0 : tensor->row_stride);
  }
  for (const Tensor* tensor : {&p.a, &p.b, &p.c, &p.d, &p.aux}) add(BatchStride(*tensor));
  add(p.a.dtype);
  add(p.d.dtype);
  add((p.transpose_a ? 1 : 0) + (p.transpose_b ? 2 : 0));
  add(p.epilogue);
  add((p.tf32 ? 1 : 0) + (p.batch_invariant ? 2 : 0));
  add(!p.c.empty());
  add(p.bias.empty() ? 0 : p.bias.rank);
  add((p.a_scale != nullptr ? 1 : 0) + (p.b_scale != nullptr ? 2 : 0) +
      (p.d_scale != nullptr ? 4 : 0));
  add(CommonAlignment(p));
  BEAMLINE_CHECK(next == AlgorithmKey::kNumFields);
  return key;
}

bool HasBackwardEpilogue(const LtProduct& p) {
  const bool backward = WritesBias(p.epilogue) || p.epilogue == LtEpilogue::kDRelu ||
                        p.epilogue == LtEpilogue::kDGelu;
  const bool same_type = !WritesBias(p.epilogue) || p.bias.dtype == p.d.dtype;
  return backward && p.d.rank == 2 && p.d.dtype != DType::kFloat8E4M3 && same_type;
}

}  // namespace beamline::cuda
