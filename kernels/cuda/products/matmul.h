// The ways to a product: cuBLASLt for many rows, kernels of our own for a few, and a finishing pass
// for what cuBLASLt's epilogues do not cover.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_matmul.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// The whole operator in one kernel for num_rows <= kMostSkinnyRows: the weight is read once, and
// whatever follows the product is computed with it. In 16 bits it is for one row, and for what the
// tensor cores' kernel below refuses; in float32 for what FloatPartsProduct and FloatRowsProduct
// refuse. Returns false, having done nothing, when the operands cannot be read 16 bytes at a time,
// and for rotary embedding of an odd head_dim. Behind an input_norm also in 16 bits, and when the
// product has too many features, or its rows are too long, for each block to norm the rows.
inline constexpr int64_t kMostSkinnyRows = 8;
bool SkinnyProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
bool SkinnyProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight);

// The same on tensor cores: faster from two rows on, and for one row behind an input_norm, which it
// refuses where features are too many or rows too long. Returns false in float32 too.
inline constexpr int64_t kMostTensorCoreSkinnyRows = 16;
bool SkinnyTensorCoreProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
bool SkinnyTensorCoreProduct(Device& device, const ProjectHeadsParams& params,
                             const CudaWeight& weight);

// y = act(product + bias) [* (up + up bias)], capped, [+ residual], for what the product's epilogue
// left out.
struct FinishParams {
  Tensor product;  // [num_rows, out_features], its rows may be longer; may be y itself
  Tensor bias;     // [out_features]; may be empty
  Activation activation = Activation::kNone;
  bool gated = false;    // as MatMulParams
  Tensor residual;       // as y; may be empty
  float softcap = 0.0f;  // as MatMulParams
  Tensor y;
};
void Finish(Device& device, const FinishParams& params);

// x with the row stride of the weight, its columns past in_features zero; in scratch memory.
Tensor PadColumns(Device& device, const Tensor& x, int64_t row_stride);

// The end of ProjectHeads where the product is in params.workspace: brings each head to its place.
// REQUIRES: norms are of each head by itself.
void MoveHeads(Device& device, const ProjectHeadsParams& params);

void Compute(Device& device, LtMatMul& lt, const MatMulParams& params);
void Compute(Device& device, LtMatMul& lt, const ProjectHeadsParams& params);

}  // namespace beamline::cuda
