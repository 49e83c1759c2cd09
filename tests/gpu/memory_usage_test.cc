#include <algorithm>
#include <map>
#include <numeric>

#include "tests/gpu/cuda_fixture.h"

namespace beamline::memory_usage_test {
namespace {

using Usage = std::map<std::string, size_t>;

class MemoryUsageTest : public CudaTest {
 protected:
  static Usage Read(const Backend& from) {
    Usage usage;
    for (const MemoryUse& use : from.MemoryUsage()) usage[use.name] = use.bytes;
    return usage;
  }
  std::unique_ptr<PackedWeight> Weight(int64_t out_features, int64_t in_features, DType dtype) {
    const std::vector<float> values = Normal(out_features * in_features);
    const HostMatrix part = {.data = values.data(), .rows = out_features, .cols = in_features};
    auto weight = backend().PackWeight({&part, 1}, dtype);
    BEAMLINE_CHECK(weight.ok());
    return *std::move(weight);
  }
};

TEST_F(MemoryUsageTest, CountsEveryByteUnderItsName) {
  const Usage before = Read(backend());
  const auto grown = [&](const char* name) { return Read(backend())[name] - before.at(name); };
  for (const char* name : {"weights", "cache", "activations", "workspaces"}) {
    EXPECT_TRUE(before.contains(name)) << name;
  }
  EXPECT_EQ(before.size(), 4u);
  constexpr size_t kMiB = size_t{1} << 20;
  const auto table = *backend().Allocate(3 * kMiB, MemoryKind::kWeights);
  const auto cache = *backend().Allocate(5 * kMiB, MemoryKind::kCache);
  const auto hidden = *backend().Allocate(7 * kMiB, MemoryKind::kActivations);
  EXPECT_EQ(grown("weights"), 3 * kMiB);
  EXPECT_EQ(grown("cache"), 5 * kMiB);
  EXPECT_EQ(grown("activations"), 7 * kMiB);
  EXPECT_EQ(grown("workspaces"), 0u);
  {
    const auto weight = Weight(1024, 512, DType::kBFloat16);
    EXPECT_EQ(grown("weights"), 4 * kMiB);
    EXPECT_EQ(grown("workspaces"), 0u);  // packing leaves nothing behind
  }
  EXPECT_EQ(grown("weights"), 3 * kMiB);
}

// A second backend lives in what the first took from the driver.
TEST_F(MemoryUsageTest, BackendsShareTheMemoryOfTheirGpu) {
  const auto driver_free = [] {
    size_t free_bytes = 0, total_bytes = 0;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return static_cast<int64_t>(free_bytes);
  };
  constexpr int64_t kOutside = int64_t{128} << 20;  // of cuBLASLt and the driver
  constexpr size_t kBytes = size_t{700} << 20;
  ASSERT_TRUE(backend().Synchronize().ok());
  const Usage before = Read(backend());
  const size_t unused_before = *backend().FreeMemory();
  const int64_t free_before = driver_free();
  {
    // Its own limit has no say.
    auto other = cuda::CudaBackend::Create(0, {.bytes = 1});
    ASSERT_TRUE(other.ok()) << other.status();
    const auto buffer = (*other)->Allocate(kBytes, MemoryKind::kCache);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ(Read(**other)["cache"], kBytes);
    EXPECT_EQ(Read(backend()), before);
    size_t held = 0;
    for (const auto& [name, bytes] : Read(**other)) held += bytes;
    EXPECT_EQ(*backend().FreeMemory(), unused_before - held);
    EXPECT_EQ((*other)->FreeMemory(), backend().FreeMemory());
    EXPECT_LE(free_before - driver_free(), kOutside);
  }
  EXPECT_EQ(*backend().FreeMemory(), unused_before);
}

// What one backend frees may still be written by its stream.
TEST_F(MemoryUsageTest, FreedMemoryIsTheStreamsUntilItIsWaitedFor) {
  auto other = cuda::CudaBackend::Create(0);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(backend().Synchronize().ok());
  // So much that there is no other place.
  const size_t most = *backend().FreeMemory() / 4 * 3;
  auto first = backend().Allocate(most, MemoryKind::kCache);
  ASSERT_TRUE(first.ok()) << first.status();
  void* const place = (*first)->data();
  first->reset();
  EXPECT_EQ((*other)->Allocate(most, MemoryKind::kCache).status().code(),
            absl::StatusCode::kResourceExhausted);
  {
    const auto again = backend().Allocate(most, MemoryKind::kCache);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ((*again)->data(), place);
  }
  ASSERT_TRUE(backend().Synchronize().ok());
  const auto taken_over = (*other)->Allocate(most, MemoryKind::kCache);
  ASSERT_TRUE(taken_over.ok()) << taken_over.status();
  EXPECT_EQ((*taken_over)->data(), place);
}

// A read-back that has arrived is such a wait too.
TEST_F(MemoryUsageTest, ReadingAStepLetsOthersHaveWhatItFreed) {
  auto other = cuda::CudaBackend::Create(0);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(backend().Synchronize().ok());
  const size_t most = *backend().FreeMemory() / 4 * 3;
  auto read_back = backend().AllocateReadBack(64);
  ASSERT_TRUE(read_back.ok()) << read_back.status();
  auto buffer = backend().Allocate(most, MemoryKind::kCache);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  buffer->reset();
  EXPECT_FALSE((*other)->Allocate(most, MemoryKind::kCache).ok());
  (*read_back)->Start(64);
  ASSERT_TRUE((*read_back)->Wait().ok());
  const auto taken_over = (*other)->Allocate(most, MemoryKind::kCache);
  EXPECT_TRUE(taken_over.ok()) << taken_over.status();
}

TEST_F(MemoryUsageTest, RefusesWhatIsPastTheLimit) {
  const Usage before = Read(backend());
  const size_t unused = *backend().FreeMemory();
  const auto buffer = backend().Allocate(unused + 1, MemoryKind::kCache);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(buffer.status().message().find("gpu_memory_fraction 0.2"), std::string::npos)
      << buffer.status();
  EXPECT_EQ(Read(backend()), before);
  EXPECT_EQ(*backend().FreeMemory(), unused);
  EXPECT_TRUE(backend().Synchronize().ok());
}

// Without a backend that is open already: these take the GPU's memory themselves.
class GpuMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaMemGetInfo(&free_, &total_), cudaSuccess);
  }
  size_t free_ = 0, total_ = 0;
};

TEST_F(GpuMemoryTest, TakesTheLimitOnceAndGivesItBack) {
  constexpr size_t kBytes = size_t{1} << 30;
  constexpr size_t kOutside = size_t{512} << 20;  // of the driver, kernels and cuBLASLt
  for (int round = 0; round < 2; ++round) {
    auto backend = cuda::CudaBackend::Create(0, {.bytes = kBytes});
    ASSERT_TRUE(backend.ok()) << backend.status();
    size_t held = *(*backend)->FreeMemory();
    for (const MemoryUse& use : (*backend)->MemoryUsage()) held += use.bytes;
    EXPECT_EQ(held, kBytes);
    size_t free_now = 0, total = 0;
    cudaMemGetInfo(&free_now, &total);
    EXPECT_GE(free_ - free_now, kBytes);
    EXPECT_LE(free_ - free_now, kBytes + kOutside);
  }
  size_t free_now = 0, total = 0;
  cudaMemGetInfo(&free_now, &total);
  EXPECT_LE(free_ - std::min(free_, free_now), kOutside);
}

TEST_F(GpuMemoryTest, RefusesWhatTheGpuDoesNotHave) {
  const auto backend =
      cuda::CudaBackend::Create(0, {.bytes = static_cast<int64_t>(total_ + (size_t{1} << 30))});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(backend.status().message().find("gpu_memory_bytes asks for"), std::string::npos)
      << backend.status();
  // A limit that is too small for the backend itself.
  const auto small = cuda::CudaBackend::Create(0, {.bytes = 4096});
  EXPECT_EQ(small.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(small.status().message().find("workspaces"), std::string::npos) << small.status();
}

// A layer's operators at ragged sizes up to a largest.
TEST_F(MemoryUsageTest, StaysFlatOverSteps) {
  constexpr int64_t kHidden = 256, kInner = 1000, kVocabulary = 5003, kMostRows = 3000;
  const DType dtype = DType::kBFloat16;
  const auto up = Weight(kInner, kHidden, dtype), down = Weight(kHidden, kInner, dtype);
  const auto head = Weight(kVocabulary, kHidden, dtype);
  const TypedArray hidden = TypedArray::Random(backend(), dtype, kMostRows, kHidden, 1, random());
  const TypedArray inner = TypedArray::Random(backend(), dtype, kMostRows, kInner, 1, random());
  const TypedArray gain = TypedArray::Random(backend(), dtype, 1, kHidden, 1, random());
  const TypedArray logits =
      TypedArray::Random(backend(), DType::kFloat32, kMostRows, kVocabulary, 1, random());
  const TypedArray values =
      TypedArray::Random(backend(), DType::kFloat32, 4, kMostRows, 1, random());
  const IndexArray ids(backend(), std::vector<int32_t>(kMostRows));
  const auto step = [&](int64_t rows) {
    backend().MatMul({.x = hidden.device().First(rows),
                      .weight = up.get(),
                      .activation = Activation::kGelu,
                      .y = inner.device().First(rows)});
    backend().MatMul({.x = inner.device().First(rows),
                      .weight = down.get(),
                      .residual = hidden.device().First(rows),
                      .y = hidden.device().First(rows)});
    backend().Norm({.x = hidden.device().First(rows),
                    .gain = gain.device_vector(),
                    .y = hidden.device().First(rows)});
    backend().MatMul(
        {.x = hidden.device().First(rows), .weight = head.get(), .y = logits.device().First(rows)});
    const std::vector<uint8_t> normalize(rows, 1);
    const std::vector<int32_t> counts(rows, 1);
    TopCandidatesParams candidates;
    candidates.logits = logits.device().First(rows);
    candidates.normalize_first = normalize;
    candidates.counts = counts;
    candidates.max_count = 1;
    float* const floats = static_cast<float*>(values.device().data);
    candidates.values = floats;
    candidates.raw_values = floats + kMostRows;
    candidates.log_normalizers = floats + 2 * kMostRows;
    candidates.ids = const_cast<int32_t*>(ids.device());
    backend().TopCandidates(candidates);
  };
  // The largest step of every way to a product: one row, a few, many.
  for (const int64_t rows : {int64_t{1}, int64_t{16}, kMostRows}) step(rows);
  ASSERT_TRUE(backend().Synchronize().ok());
  const Usage before = Read(backend());
  for (int i = 0; i < 200; ++i) {
    step(std::uniform_int_distribution<int64_t>(1, kMostRows)(random()));
    ASSERT_EQ(Read(backend()), before) << "step " << i;
  }
  EXPECT_TRUE(backend().Synchronize().ok());
}

// The sums of splits of many long contexts come in turns.
TEST_F(MemoryUsageTest, DividedContextsTakeNoMoreThanTheFirstScratch) {
  constexpr int kSequences = 300, kHeads = 64, kKvHeads = 8, kHeadDim = 128, kBlockSize = 16;
  const DType dtype = DType::kBFloat16;
  const TypedArray query =
      TypedArray::Random(backend(), dtype, kSequences, kHeads * kHeadDim, 1, random());
  const TypedArray output = TypedArray::Poisoned(backend(), dtype, kSequences, kHeads * kHeadDim);
  const TypedArray keys =
      TypedArray::Random(backend(), dtype, kKvHeads * kBlockSize, kHeadDim, 1, random());
  KvLayer cache;
  cache.keys = Tensor(keys.device().data, dtype, {1, kKvHeads, kBlockSize, kHeadDim});
  cache.values = cache.keys;
  std::vector<int32_t> offsets(kSequences + 1);
  std::iota(offsets.begin(), offsets.end(), 0);
  const IndexArray query_offsets(backend(), offsets);
  const IndexArray tables(backend(), std::vector<int32_t>(kSequences, 0));
  const IndexArray contexts(backend(), std::vector<int32_t>(kSequences, kBlockSize));
  AttentionParams params;
  params.num_heads = kHeads, params.num_kv_heads = kKvHeads, params.head_dim = kHeadDim;
  params.max_query_length = 1;
  params.query_offsets = query_offsets.device();
  params.cache = &cache;
  params.block_tables = tables.device(), params.max_blocks = 1;
  params.context_lengths = contexts.device();
  params.max_context_length = 1 << 17;  // a bound
  const auto attend = [&](int num_sequences) {
    params.num_sequences = num_sequences;
    params.query = query.device().First(num_sequences);
    params.output = output.device().First(num_sequences);
    backend().Attention(params);
  };
  attend(1);
  const Usage before = Read(backend());
  attend(kSequences);
  EXPECT_EQ(Read(backend()), before);
  EXPECT_TRUE(backend().Synchronize().ok());
  for (float value : output.Read()) ASSERT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace beamline::memory_usage_test
