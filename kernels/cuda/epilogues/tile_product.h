// Products with their epilogue on Hopper's tensor cores, in float16 and bfloat16: of the gradient
// epilogues cuBLASLt's cost more than a pass behind the product, which reads and writes it once
// more.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

// Whether TileProduct computes this product on this GPU: a, b and d of one 16-bit type with rows at
// multiples of 16 bytes, n whole ones of these, without batch, transpose_a, c and scales; the
// epilogue none, a bias, ReLU, both, or ReLU's gradient with or without sums. `product` is valid.
bool HasTileProduct(const Device& device, const LtProduct& product);

// Whether it has tiles for every multiprocessor; with fewer, smaller tiles are faster.
bool FillsTiles(const Device& device, const LtProduct& product);

// Rows of partial sums that an epilogue that writes sums needs; 0 of another one.
int64_t NumTilePartials(const LtProduct& product);

// `partials`, [NumTilePartials(product), n], receives sums of some rows of d each, accumulated in
// float32 from elements that are not yet rounded, in an order that the shapes fix; product.bias is
// not written. REQUIRES: HasTileProduct(device, product).
void TileProduct(Device& device, const LtProduct& product, float* partials, cudaStream_t stream);

}  // namespace beamline::cuda
