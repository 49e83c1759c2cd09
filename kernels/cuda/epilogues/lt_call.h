// An LtProduct in cuBLASLt's terms.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/epilogues/algorithm_file.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

// Workspace of every call: the limit of candidates, and the size of a lane's (lt_matmul.h).
inline constexpr size_t kLtWorkspaceBytes = size_t{64} << 20;

// cuBLASLt is column-major. So a row-major matrix is read as its transpose and the product as d^T =
// b^T a^T: cuBLASLt's A is our b and its B is our a.
struct LtCall {
  explicit LtCall(const LtProduct& product);

  // `algorithm` null: cuBLASLt picks one itself. `product` is the constructor's.
  cublasStatus_t Launch(cublasLtHandle_t handle, const LtProduct& product,
                        const AlgorithmBits* algorithm, void* workspace, cudaStream_t stream);
  // Whether this version of cuBLASLt can run the product with `algorithm` on this GPU.
  bool Accepts(cublasLtHandle_t handle, const AlgorithmBits& algorithm);

  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
};

}  // namespace beamline::cuda
