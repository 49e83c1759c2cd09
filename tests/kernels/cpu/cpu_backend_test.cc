#include "kernels/cpu/cpu_backend.h"

#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_count.h"

namespace beamline::cpu_backend_test {
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

TEST(CpuBackendTest, CountsItsMemoryByUse) {
  const auto backend = MakeCpuBackend({.num_threads = 1});
  const auto read = [&backend] {
    std::map<std::string, size_t> bytes;
    for (const MemoryUse& use : backend->MemoryUsage()) bytes[use.name] = use.bytes;
    return bytes;
  };
  const std::map<std::string, size_t> none = {{"weights", 0}, {"cache", 0}, {"activations", 0}};
  EXPECT_EQ(read(), none);
  EXPECT_FALSE(backend->FreeMemory().has_value());
  std::vector<DType> dtypes = {DType::kFloat32};
  if (backend->SupportsDType(DType::kBFloat16).ok()) dtypes.push_back(DType::kBFloat16);
  for (const DType dtype : dtypes) {
    const std::vector<float> values(64 * 100);
    const HostMatrix matrix = {.data = values.data(), .rows = 64, .cols = 100};
    const auto weight = backend->PackWeight({&matrix, 1}, dtype);
    const auto table = backend->Allocate(3, MemoryKind::kWeights);
    const auto cache = backend->Allocate(5, MemoryKind::kCache);
    const auto hidden = backend->Allocate(7);
    const auto results = backend->AllocateReadBack(11);
    // A packed weight may have padding.
    EXPECT_GE(read()["weights"], 64 * 100 * SizeOf(dtype) + 3) << Name(dtype);
    EXPECT_LT(read()["weights"], 4 * 64 * 100 * SizeOf(dtype)) << Name(dtype);
    EXPECT_EQ(read()["cache"], 5u);
    EXPECT_EQ(read()["activations"], 18u);
  }
  EXPECT_EQ(read(), none);
}

TEST(CpuBackendTest, CountsOnlyMemoryThatWasWritten) {
  const auto backend = MakeCpuBackend({.num_threads = 1});
  const auto cached = [&backend] {
    for (const MemoryUse& use : backend->MemoryUsage()) {
      if (use.name == "cache") return use.bytes;
    }
    return size_t{0};
  };
  constexpr size_t kPage = 64 << 10;  // as large as any system's
  constexpr size_t kBytes = 1000 * kPage;
  const auto cache = backend->Allocate(kBytes, MemoryKind::kCache);
  ASSERT_TRUE(cache.ok()) << cache.status();
  // A system with huge pages gives more than was written, up to 2 MiB for each of the three.
  constexpr size_t kHugePage = 2 << 20;
  EXPECT_LE(cached(), 2 * kPage);
  const std::vector<std::byte> bytes(100 * kPage, std::byte{1});
  backend->CopyToDevice(bytes.data(), static_cast<std::byte*>((*cache)->data()) + 500 * kPage,
                        bytes.size());
  EXPECT_GE(cached(), bytes.size());
  EXPECT_LE(cached(), bytes.size() + 2 * kPage + 2 * kHugePage);
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
  layer.key_layout = backend->key_layout();
  layer.keys = layer.values = Tensor(memory, DType::kFloat32, {2, 1, 4, 4});
  backend->CopyBlocks({layer, {&copy, 1}});
  layer.values = Tensor(memory + 1, DType::kFloat32, {2, 1, 4, 4});
  EXPECT_DEATH(backend->CopyBlocks({layer, {&copy, 1}}), "kCacheAlignment");
}

TEST(CpuCountTest, IsAtLeastOneAndAtMostTheMachine) {
  EXPECT_GE(cpu::AvailableCpus(), 1);
  EXPECT_LE(cpu::AvailableCpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(CpuBackendTest, EmbedNormalisesWithTheBitsOfNorm) {
  const auto backend = MakeCpuBackend({.num_threads = 2});
  constexpr int64_t kTokens = 23, kHidden = 93;
  std::vector<float> table = RandomFloats(50 * kHidden), gain = RandomFloats(kHidden);
  std::vector<float> fused(kTokens * kHidden), separate(kTokens * kHidden);
  std::vector<int32_t> ids(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) ids[i] = static_cast<int32_t>(i * 7 % 50);
  for (NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    EmbedParams embed;
    embed.token_ids = ids.data();
    embed.num_tokens = kTokens;
    embed.token_table = Tensor(table.data(), DType::kFloat32, {50, kHidden});
    embed.output = Tensor(separate.data(), DType::kFloat32, {kTokens, kHidden});
    backend->Embed(embed);
    NormParams norm;
    norm.kind = kind;
    norm.gain = Tensor(gain.data(), DType::kFloat32, {kHidden});
    norm.x = norm.y = embed.output;
    backend->Norm(norm);
    embed.norm.kind = kind;
    embed.norm.gain = norm.gain;
    embed.output.data = fused.data();
    backend->Embed(embed);
    EXPECT_EQ(fused, separate);
  }
}

}  // namespace
}  // namespace beamline::cpu_backend_test
