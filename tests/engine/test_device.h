// Where tests of the engine compute.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda_loader.h"
#include "kernels/tensor.h"

namespace beamline {

// The environment variable BEAMLINE_TEST_DEVICE ("cpu", "cuda", ...), without it "auto".
inline std::string TestDevice() {
  const char* device = std::getenv("BEAMLINE_TEST_DEVICE");
  return device != nullptr ? device : "auto";
}

// What models compute in whose answers are compared with transformers': float32 on a GPU, which
// would take the checkpoint's own type, and on a CPU the default, which is as exact.
inline std::optional<DType> ExactType() {
  if (TestDevice() == "cpu") return std::nullopt;
  const auto gpus = CountCudaDevices();
  return gpus.ok() && *gpus > 0 ? std::optional(DType::kFloat32) : std::nullopt;
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
