// A libcuda.so.1 that answers how many GPUs there are, as the environment says, and has no other
// function of the driver (install_test.cc, gpu_lane_test.py).
#include <cstdlib>

namespace {

int Number(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::atoi(value) : 0;
}

}  // namespace

extern "C" int cuInit(unsigned /*flags*/) { return Number("BEAMLINE_STAND_IN_ERROR"); }

extern "C" int cuDeviceGetCount(int* count) {
  *count = Number("BEAMLINE_STAND_IN_GPUS");
  return 0;
}
