#include <map>

#include "tests/gpu/cuda_fixture.h"

namespace beamline {
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
  for (const char* name : {"weights", "cache", "activations", "workspaces", "unused"}) {
    EXPECT_TRUE(before.contains(name)) << name;
  }
  EXPECT_EQ(before.size(), 5u);
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

// What the driver gave is what the names add up to, and goes back.
TEST_F(MemoryUsageTest, AddsUpToWhatTheDriverGave) {
  size_t free_before = 0, free_after = 0, total = 0;
  ASSERT_TRUE(backend().Synchronize().ok());
  cudaMemGetInfo(&free_before, &total);
  size_t sum = 0;
  // What the slabs have left over counts as free.
  EXPECT_EQ(backend().FreeMemory(), free_before + Read(backend())["unused"]);
  {
    auto other = cuda::CudaBackend::Create(0);
    ASSERT_TRUE(other.ok()) << other.status();
    const auto buffer = (*other)->Allocate(size_t{700} << 20, MemoryKind::kCache);
    ASSERT_TRUE(buffer.ok());
    for (const auto& [name, bytes] : Read(**other)) sum += bytes;
    cudaMemGetInfo(&free_after, &total);
    const auto taken = static_cast<int64_t>(free_before - free_after);
    // cuBLASLt and the driver take some of their own.
    EXPECT_GE(taken, static_cast<int64_t>(sum));
    EXPECT_LE(taken, static_cast<int64_t>(sum) + (int64_t{128} << 20));
  }
  cudaMemGetInfo(&free_after, &total);
  EXPECT_LE(free_before - free_after, size_t{128} << 20);
}

TEST_F(MemoryUsageTest, RefusesWhatTheGpuDoesNotHave) {
  const Usage before = Read(backend());
  const auto buffer = backend().Allocate(size_t{1} << 50, MemoryKind::kCache);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Read(backend()), before);
  EXPECT_TRUE(backend().Synchronize().ok());
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

}  // namespace
}  // namespace beamline
