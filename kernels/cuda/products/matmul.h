// Matmuls by the kernel that product_picker.h chose: cuBLASLt for many rows, our own kernels for a
// few, and a finishing pass for what cuBLASLt's epilogues do not cover.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_matmul.h"
#include "kernels/cuda/products/product_picker.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// Computes the whole operator in one kernel, which reads the weight once and computes everything
// after the product too. REQUIRES: PickProduct chose kSkinny.
void SkinnyProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
void SkinnyProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight);

// The same on tensor cores, in 16 bits. REQUIRES: PickProduct chose kSkinnyTensorCore, or x has at
// most kMostTensorCoreSkinnyRows rows, which start at multiples of 16 bytes, and no input_norm.
void SkinnyTensorCoreProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
void SkinnyTensorCoreProduct(Device& device, const ProjectHeadsParams& params,
                             const CudaWeight& weight);

// y = act(product + bias) [* (up + up bias)], capped, [+ residual]: the parts that the product's
// epilogue left out.
struct FinishParams {
  Tensor product;  // [num_rows, out_features]; its rows may be longer; may be y itself
  Tensor bias;     // [out_features]; may be empty
  Activation activation = Activation::kNone;
  bool gated = false;    // as MatMulParams
  Tensor residual;       // as y; may be empty
  float softcap = 0.0f;  // as MatMulParams
  Tensor y;
};
void Finish(Device& device, const FinishParams& params);

// x with the row stride of the weight and zeros in the columns from in_features on, in scratch
// memory.
Tensor PadColumns(Device& device, const Tensor& x, int64_t row_stride);

// The end of ProjectHeads after a product in params.workspace: moves each head to its destination.
// REQUIRES: norms are over single heads.
void MoveHeads(Device& device, const ProjectHeadsParams& params);

// PickProduct for `device` and the weight of `params`.
ProductChoice ChooseProduct(const Device& device, const MatMulParams& params);
ProductChoice ChooseProduct(const Device& device, const ProjectHeadsParams& params);

// `choice` is ChooseProduct's for the same operands.
void Compute(Device& device, LtMatMul& lt, const MatMulParams& params, const ProductChoice& choice);
void Compute(Device& device, LtMatMul& lt, const ProjectHeadsParams& params,
             const ProductChoice& choice);

}  // namespace beamline::cuda
