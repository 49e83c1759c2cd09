// How an algorithm of cuBLASLt is found: its candidates, memory to run them on, and their ranking
// by time.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/algorithm_file.h"
#include "kernels/cuda/epilogues/lt_product.h"

// As declared by cublasLt.h, which users of this header need not have.
struct cublasLtContext;

namespace beamline::cuda {

// cuBLASLt's candidates for a product, its own favourite first; empty if it has none. For a
// batch_invariant product, only those that do not split a sum over k into parts.
std::vector<AlgorithmBits> Candidates(cublasLtContext* handle, const LtProduct& product);

// A product of an equal key that may run many times: its operands have the full size of its bucket,
// and it has its own d if it would add to d. Takes scratch memory. A fault becomes the device's.
LtProduct OnScratch(Device& device, LtProduct product);

// Orders the contenders by their mean time over `num_rounds`, the fastest first. Leaves out those
// that `launch` cannot run; it returns whether it could. If the device's arena has room for it,
// each run finds an L2 cache without its operands, as a layer's weights are not in L2 when the
// layer starts. Synchronises.
void Rank(Device& device, int num_rounds, const std::function<bool(const AlgorithmBits&)>& launch,
          std::vector<AlgorithmBits>& contenders);

}  // namespace beamline::cuda
