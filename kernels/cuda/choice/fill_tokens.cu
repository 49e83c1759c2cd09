// FillTokens: copies tokens that the device chose, before the host has read them.
#include "base/math.h"
#include "kernels/cuda/choice/choice_ops.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/launch_values.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;

// Bound by its launch: a step has at most some hundreds of fills.
__global__ void FillTokensKernel(const int32_t* words, const __grid_constant__ LaunchValues fills,
                                 int num_fills, int32_t* token_ids) {
  WaitForEarlierKernels();
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= num_fills) return;
  const auto fill = fills.Get<TokenFill>(0, index);
  token_ids[fill.target] = words[fill.source];
}

}  // namespace

void Compute(Device& device, const FillTokensParams& params) {
  const std::span<const TokenFill> fills = params.fills;
  if (fills.empty()) return;
  LaunchValuesBuilder values;
  values.Add(fills);
  LaunchValues sent = {};
  values.Send(device, sent);
  if (!device.ok()) return;
  const int count = static_cast<int>(fills.size());
  LaunchOverlapped(device, "FillTokens", FillTokensKernel, int64_t{CeilDiv(count, kThreads)},
                   kThreads, /*shared_bytes=*/0, params.words, sent, count, params.token_ids);
}

}  // namespace beamline::cuda
