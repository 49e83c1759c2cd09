// How an algorithm of cuBLASLt is found: its candidates, memory to run them on, and their ranking
// by time.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/algorithm_file.h"
#include "kernels/cuda/epilogues/lt_product.h"

// As cublasLt.h declares it, which users of this header need not have.
struct cublasLtContext;

namespace beamline::cuda {

// What cuBLASLt offers for a product, its own favourite first; empty when it has none. Of a
// batch_invariant one, what does not cut a sum over k into parts.
std::vector<AlgorithmBits> Candidates(cublasLtContext* handle, const LtProduct& product);

// A product of an equal key that may run many times: with operands of its bucket's full size, and a
// d of its own where it would add to d. Takes scratch memory; a fault is the device's.
LtProduct OnScratch(Device& device, LtProduct product);

// Orders the contenders by their mean time over `num_rounds`, the fastest first, and leaves out
// those that `launch`, which returns whether it could, does not run. Where the device's arena has
// room for it, each run finds an L2 cache without its operands, as a layer's weights are when their
// turn comes. Synchronises.
void Rank(Device& device, int num_rounds, const std::function<bool(const AlgorithmBits&)>& launch,
          std::vector<AlgorithmBits>& contenders);

}  // namespace beamline::cuda
