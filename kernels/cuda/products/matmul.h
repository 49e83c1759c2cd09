// Products, by the kernel that product_picker.h chose: cuBLASLt for many rows, kernels of our own
// for a few, and a finishing pass for what cuBLASLt's epilogues do not cover.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_matmul.h"
#include "kernels/cuda/products/product_picker.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// The whole operator in one kernel: the weight is read once, and whatever follows the product is
// computed with it. REQUIRES: PickProduct chose kSkinny.
void SkinnyProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
void SkinnyProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight);

// The same on tensor cores, in 16 bits. REQUIRES: PickProduct chose kSkinnyTensorCore, or so many
// rows, which begin at multiples of 16 bytes and have no input_norm.
void SkinnyTensorCoreProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
void SkinnyTensorCoreProduct(Device& device, const ProjectHeadsParams& params,
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

// PickProduct for `device` and the weight of `params`.
ProductChoice ChooseProduct(const Device& device, const MatMulParams& params);
ProductChoice ChooseProduct(const Device& device, const ProjectHeadsParams& params);

// By the kernels that `choice` names, which is ChooseProduct's of the same operands.
void Compute(Device& device, LtMatMul& lt, const MatMulParams& params, const ProductChoice& choice);
void Compute(Device& device, LtMatMul& lt, const ProjectHeadsParams& params,
             const ProductChoice& choice);

}  // namespace beamline::cuda
