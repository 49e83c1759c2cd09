// Products on cuBLASLt, with its algorithm chosen by measurement.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device.h"

namespace beamline::cuda {

// y = act(x W^T + residual + bias); the epilogue's order is cuBLASLt's.
// REQUIRES: every pointer and row is 16-byte aligned.
struct LtProduct {
  const void* x = nullptr;        // [num_rows, in_features]
  const void* weight = nullptr;   // [out_features, in_features]
  DType dtype = DType::kFloat32;  // of x and weight
  int64_t num_rows = 0, out_features = 0, in_features = 0;
  int64_t x_stride = 0, weight_stride = 0, y_stride = 0, residual_stride = 0;
  const void* bias = nullptr;                 // [out_features], y's type; null: none
  Activation activation = Activation::kNone;  // kNone, kRelu or kGeluTanh
  const void* residual = nullptr;             // as y; null: none
  void* y = nullptr;
  DType y_dtype = DType::kFloat32;
};

class LtMatMul {
 public:
  static absl::StatusOr<std::unique_ptr<LtMatMul>> Create(Device& device);
  ~LtMatMul();
  LtMatMul(const LtMatMul&) = delete;
  LtMatMul& operator=(const LtMatMul&) = delete;

  // The first product of a kind (a Key) measures cuBLASLt's candidates, which synchronises; later
  // ones only launch.
  void Run(const LtProduct& product);

 private:
  // What an algorithm is chosen by. Row counts share a choice with the others of their bucket.
  struct Key {
    int64_t bucket_rows, out_features, in_features;
    int64_t x_stride, weight_stride, y_stride;
    DType dtype, y_dtype;
    Activation activation;
    bool has_bias, has_residual;
    auto operator<=>(const Key&) const = default;
  };
  struct Call;

  explicit LtMatMul(Device& device) : device_(device) {}
  // Null when cuBLASLt has none.
  const cublasLtMatmulAlgo_t* Choose(const LtProduct& product);
  // The fastest candidate for `product` with its rows raised to the bucket's.
  bool Measure(LtProduct product, cublasLtMatmulAlgo_t& fastest);
  cublasStatus_t Launch(const LtProduct& product, Call& call,
                        const cublasLtMatmulAlgo_t* algorithm);

  Device& device_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<Key, cublasLtMatmulAlgo_t> chosen_;
};

}  // namespace beamline::cuda
