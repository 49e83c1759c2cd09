// An LtProduct in cuBLASLt's own terms.
#pragma once

#include <cublasLt.h>

#include "kernels/cuda/lt_product.h"

namespace beamline::cuda {

// cuBLASLt is column-major, so a row-major matrix is read as its own transpose and the product as
// d^T = b^T a^T: cuBLASLt's A is our b and its B is our a.
struct LtCall {
  explicit LtCall(const LtProduct& product);

  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
};

}  // namespace beamline::cuda
