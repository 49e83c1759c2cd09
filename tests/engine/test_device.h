// Where tests of the engine compute.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

namespace beamline {

// The environment variable BEAMLINE_TEST_DEVICE ("cpu", "cuda", ...), without it "auto".
inline std::string TestDevice() {
  const char* device = std::getenv("BEAMLINE_TEST_DEVICE");
  return device != nullptr ? device : "auto";
}

// How much a value may depend on the batch that it is computed in: not at all on the CPU, by
// `otherwise` where cuBLASLt computes the products. `device`: Backend::Name().
inline float BatchTolerance(std::string_view device, float otherwise) {
  return device == "cpu" ? 0.0f : otherwise;
}

}  // namespace beamline
