#include "kernels/cpu/cpu_backend.h"

#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_count.h"

namespace beamline {
namespace {

TEST(CpuBackendTest, DescribesItself) {
  const auto backend = MakeCpuBackend({.num_threads = 2});
  EXPECT_EQ(backend->Name(), "cpu");
  EXPECT_NE(backend->Description().find("2 threads"), std::string::npos) << backend->Description();
}

TEST(CpuBackendTest, ComputesInFloat32AndSaysWhyNotInOthers) {
  const auto backend = MakeCpuBackend({});
  EXPECT_TRUE(backend->SupportsDType(DType::kFloat32).ok());
  const absl::Status half = backend->SupportsDType(DType::kFloat16);
  EXPECT_EQ(half.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(half.message().find("float16"), std::string::npos) << half;
  EXPECT_EQ(backend->ActivationDType(DType::kBFloat16), DType::kFloat32);
}

TEST(CpuBackendTest, AllocatesAlignedMemoryOfTheSizeAskedFor) {
  const auto backend = MakeCpuBackend({});
  for (size_t bytes : {0, 1, 1000}) {
    const auto buffer = backend->Allocate(bytes);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ((*buffer)->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data()) % 64, 0);
  }
}

std::vector<float> RandomFloats(size_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Several models' threads use the cores at the same time, each through a backend of its own.
TEST(CpuBackendTest, BackendsShareTheCores) {
  const int num_rows = 60;
  const int features = 200;
  const std::vector<float> weight_values = RandomFloats(features * features);
  std::vector<float> x = RandomFloats(num_rows * features);
  const auto run = [&](DType dtype) {
    const auto backend = MakeCpuBackend({.num_threads = 3});
    const HostMatrix matrix = {.data = weight_values.data(), .rows = features, .cols = features};
    const auto weight = backend->PackWeight({&matrix, 1}, dtype);
    EXPECT_TRUE(weight.ok()) << weight.status();
    std::vector<float> y(num_rows * features);
    MatMulParams params;
    params.x = Tensor(x.data(), DType::kFloat32, {num_rows, features});
    params.weight = weight->get();
    params.y = Tensor(y.data(), DType::kFloat32, {num_rows, features});
    for (int i = 0; i < 50; ++i) backend->MatMul(params);
    return y;
  };
  std::vector<DType> dtypes = {DType::kFloat32};
  if (MakeCpuBackend({})->SupportsDType(DType::kBFloat16).ok()) dtypes.push_back(DType::kBFloat16);
  for (DType dtype : dtypes) {
    const std::vector<float> expected = run(dtype);
    std::vector<std::vector<float>> actual(3);
    std::vector<std::thread> replicas;
    for (std::vector<float>& y : actual) replicas.emplace_back([&] { y = run(dtype); });
    for (std::thread& replica : replicas) replica.join();
    for (const std::vector<float>& y : actual) EXPECT_EQ(y, expected) << Name(dtype);
  }
}

TEST(CpuBackendDeathTest, WrongShapesStopTheProcess) {
  const auto backend = MakeCpuBackend({.num_threads = 1});
  const std::vector<float> values(12);
  const HostMatrix matrix = {.data = values.data(), .rows = 3, .cols = 4};
  const auto weight = backend->PackWeight({&matrix, 1}, DType::kFloat32);
  std::vector<float> memory(64);
  MatMulParams params;
  params.x = Tensor(memory.data(), DType::kFloat32, {2, 5});  // the weight reads 4 features
  params.weight = weight->get();
  params.y = Tensor(memory.data() + 32, DType::kFloat32, {2, 3});
  EXPECT_DEATH(backend->MatMul(params), "CHECK failed");
}

TEST(CpuBackendDeathTest, AMisalignedCacheStopsTheProcess) {
  const auto backend = MakeCpuBackend({.num_threads = 1});
  alignas(16) float memory[64] = {};
  const BlockCopy copy = {.source = 0, .target = 1};
  KvLayer layer;
  layer.keys = layer.values = Tensor(memory, DType::kFloat32, {2, 1, 4, 4});
  backend->CopyBlocks(layer, {&copy, 1});
  layer.values = Tensor(memory + 1, DType::kFloat32, {2, 1, 4, 4});
  EXPECT_DEATH(backend->CopyBlocks(layer, {&copy, 1}), "kCacheAlignment");
}

TEST(CpuCountTest, IsAtLeastOneAndAtMostTheMachine) {
  EXPECT_GE(cpu::AvailableCpus(), 1);
  EXPECT_LE(cpu::AvailableCpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace beamline
