// Where tests of the engine compute.
#pragma once

#include <cstdlib>
#include <string>

namespace beamline {

// The environment variable BEAMLINE_TEST_DEVICE ("cpu", "cuda", ...), without it "auto".
inline std::string TestDevice() {
  const char* device = std::getenv("BEAMLINE_TEST_DEVICE");
  return device != nullptr ? device : "auto";
}

}  // namespace beamline
