// What one GPU says of itself, and what it reads back.
#include "kernels/cuda/device.h"

#include "kernels/cuda/code_architecture.h"
#include "tests/gpu/cuda_fixture.h"

namespace beamline {
namespace {

using DeviceTest = CudaTest;

TEST_F(DeviceTest, RunsCodeOfThisBuildThatItsArchitectureAllows) {
  const cudaDeviceProp& properties = device().properties();
  int architecture = 0;
  ASSERT_EQ(cuda::FindCodeArchitecture(&architecture), cudaSuccess);
  EXPECT_EQ(device().code_architecture(), architecture);
  EXPECT_GE(architecture, 80);
  EXPECT_LE(architecture, properties.major * 10 + properties.minor);
}

}  // namespace
}  // namespace beamline
