// Where tests of the engine compute.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda_loader.h"

namespace beamline {

// The environment variable BEAMLINE_TEST_DEVICE ("cpu", "cuda", ...), without it "auto".
inline std::string TestDevice() {
  const char* device = std::getenv("BEAMLINE_TEST_DEVICE");
  return device != nullptr ? device : "auto";
}

// Whether so many ranks compute on a GPU each: with BEAMLINE_TEST_DEVICE=cuda, where there are as
// many. Else they are threads of the CPU.
inline bool RanksAreGpus(int num_ranks) {
  if (TestDevice() != "cuda") return false;
  const auto gpus = CountCudaDevices();
  return gpus.ok() && *gpus >= num_ranks;
}
inline std::vector<std::string> RankDevices(int num_ranks) {
  const bool gpus = RanksAreGpus(num_ranks);
  std::vector<std::string> devices;
  for (int rank = 0; rank < num_ranks; ++rank) {
    devices.push_back(gpus ? "cuda:" + std::to_string(rank) : "cpu");
  }
  return devices;
}

// How much a value may depend on the batch that it is computed in: not at all on the CPU, by
// `otherwise` where cuBLASLt computes the products. `device`: Backend::Name().
inline float BatchTolerance(std::string_view device, float otherwise) {
  return device == "cpu" ? 0.0f : otherwise;
}

}  // namespace beamline
