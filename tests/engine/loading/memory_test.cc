// How a model comes to its memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/api/gpu_need.h"
#include "engine/loading/cache_size.h"
#include "engine/loading/loaded_model.h"
#include "engine/loading/model_limits.h"
#include "engine/loading/rehearsal.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/random_model.h"
#include "tests/sanitized.h"

namespace beamline::memory_test {
namespace {

size_t Held(const LoadedModel& model, std::string_view name) {
  for (const MemoryUse& use : model.backend->MemoryUsage()) {
    if (use.name == name) return use.bytes;
  }
  return 0;
}

TEST(CacheSizeTest, ModelsLoadedInTurnGetEvenShares) {
  // 1000 bytes of which 100, 200 and 100 become weights: 600 left, a quarter of it for buffers.
  size_t free_bytes = 1000;
  const int64_t weights[] = {100, 200, 100};
  int64_t later_weights = 400;
  for (int i = 0; i < 3; ++i) {
    const int64_t cache =
        DefaultCacheBytes(free_bytes, {.weight_bytes = later_weights, .num_open_caches = 3 - i});
    EXPECT_EQ(cache, 150) << i;
    later_weights -= weights[i];
    free_bytes -= static_cast<size_t>(weights[i] + cache);
  }
  EXPECT_EQ(free_bytes, 150u);
  // A model alone: half of what its weights leave.
  EXPECT_EQ(DefaultCacheBytes(1000, {.weight_bytes = 200, .num_open_caches = 1}), 400);
  EXPECT_EQ(DefaultCacheBytes(
                1000, {.weight_bytes = 200, .fixed_cache_bytes = 300, .num_open_caches = 1}),
            250);
  EXPECT_EQ(DefaultCacheBytes(100, {.weight_bytes = 200, .num_open_caches = 1}), 0);
  const int64_t of_the_host = DefaultCacheBytes(std::nullopt, {.num_open_caches = 1});
  EXPECT_GT(of_the_host, 0);
  EXPECT_LE(of_the_host, int64_t{1} << 30);
}

TEST(CacheSizeTest, DemandIsOfTheDevicesOtherModels) {
  const auto checkpoint = Checkpoint::Open(Demo("write-en").folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const int64_t bytes = WeightBytes(**checkpoint, DType::kFloat32);
  EXPECT_GT(bytes, 1 << 20);
  EXPECT_EQ(WeightBytes(**checkpoint, DType::kBFloat16), bytes / 2);
  std::vector<ModelOptions> later(4, Demo("write-en"));
  later[0].cache_bytes = 1000;
  later[1].device = "elsewhere";
  later[2].folder = "/nonexistent";
  const MemoryDemand demand = MemoryDemandOf(Demo("write-en"), **checkpoint, later);
  EXPECT_EQ(demand.weight_bytes, 3 * bytes);
  EXPECT_EQ(demand.fixed_cache_bytes, 1000);
  EXPECT_EQ(demand.num_open_caches, 2);
}

// Ranks divide a model, so that of what two devices have together one of a single device takes
// twice its size.
TEST(CacheSizeTest, DemandOfRanksIsOfAllTheirDevices) {
  const auto checkpoint = Checkpoint::Open(Demo("write-en").folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const int64_t bytes = WeightBytes(**checkpoint, DType::kFloat32);
  ModelOptions ranks = Demo("write-en");
  ranks.device.clear();
  ranks.devices = "cuda:0, cuda:1";
  ranks.tensor_parallel = 2;
  ranks.cache_bytes = 4000;
  std::vector<ModelOptions> later(3, Demo("write-en"));
  later[0].device = "cuda:1";
  later[0].cache_bytes = 1000;
  later[1].device = "cuda:2";
  later[2] = ranks;
  const MemoryDemand demand = MemoryDemandOf(ranks, **checkpoint, later);
  EXPECT_EQ(demand.weight_bytes, (1 + 2 + 1) * bytes);
  EXPECT_EQ(demand.fixed_cache_bytes, 4000 + 2 * 1000 + 4000);
  EXPECT_EQ(demand.num_open_caches, 0);
  // Seen from the single device, each of the others takes half of itself there.
  EXPECT_EQ(MemoryDemandOf(later[0], **checkpoint, {&ranks, 1}).weight_bytes, bytes + bytes / 2);
}

// The plan of a model on several ranks has what they have of it more than one: norms, buffers.
TEST(MemoryPlanTest, RanksAreCountedTogether) {
  const auto load = [](int32_t num_ranks) {
    ModelOptions options = OnRanks(Demo("write-en"), num_ranks);
    options.device = "cpu";
    options.cache_bytes = 4 << 20;
    auto model = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  };
  const auto one = load(1), three = load(3);
  EXPECT_EQ(three->memory.cache, one->memory.cache);
  EXPECT_EQ(three->memory.weights - one->memory.weights,
            three->info.weight_bytes - one->info.weight_bytes);
  EXPECT_GT(three->info.weight_bytes, one->info.weight_bytes);
  EXPECT_GT(three->memory.activations, one->memory.activations);
  EXPECT_LT(three->memory.activations, 3 * one->memory.activations);
  EXPECT_GE(Held(*three, "weights"), static_cast<size_t>(three->info.weight_bytes));
  EXPECT_LT(Held(*three, "weights"), Held(*one, "weights") * 5 / 4);  // packing pads each part
}

// Stages hold layers of their own, and besides these a norm, and a table that a second one reads.
TEST(MemoryPlanTest, StagesAreCountedTogether) {
  for (const std::string name : {"write-en", "translate-en-de", "embed-en"}) {
    const auto load = [&](int32_t num_stages, int32_t num_ranks) {
      ModelOptions options = OnStages(Demo(name), num_stages, num_ranks);
      options.device = "cpu";
      options.cache_bytes = 4 << 20;
      auto model = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
      EXPECT_TRUE(model.ok()) << model.status();
      return *std::move(model);
    };
    const auto one = load(1, 1);
    // The bias of divided logits is padded to tiles on each rank, which no plan counts.
    const int32_t most = name == "translate-en-de" ? 1 : MostRanks(name);
    for (const auto& [stages, ranks] : {std::pair(2, 1), {3, 1}, {4, 1}, {2, most}}) {
      SCOPED_TRACE(name + " in " + std::to_string(stages));
      const auto staged = load(stages, ranks);
      EXPECT_EQ(staged->memory.cache, one->memory.cache);
      EXPECT_EQ(staged->limits.num_blocks, one->limits.num_blocks);
      EXPECT_EQ(staged->memory.weights - one->memory.weights,
                staged->info.weight_bytes - one->info.weight_bytes);
      EXPECT_EQ(staged->info.num_parameters, one->info.num_parameters);
      EXPECT_LT(staged->info.weight_bytes, one->info.weight_bytes * 5 / 4);
    }
  }
}

// The plan of a model in parts has what these take more than one.
void ExpectPartsCounted(const LinkedModel& model,
                        const std::vector<std::pair<int32_t, int32_t>>& stages_and_ranks) {
  const auto load = [&](int32_t num_stages, int32_t num_ranks) {
    ModelOptions options = OnStages(model.Options("model"), num_stages, num_ranks);
    options.device = "cpu";
    options.cache_bytes = 4 << 20;
    auto loaded = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  };
  const auto one = load(1, 1);
  for (const auto& [stages, ranks] : stages_and_ranks) {
    SCOPED_TRACE(testing::Message() << stages << " stages of " << ranks);
    const auto parts = load(stages, ranks);
    EXPECT_GT(parts->memory.weights, one->memory.weights);
    EXPECT_EQ(parts->memory.weights - one->memory.weights,
              parts->info.weight_bytes - one->info.weight_bytes);
  }
}

// Every rank and every stage has the rotary table and the norms of heads whole.
TEST(MemoryPlanTest, WhatRotatesAndNormsHeadsIsCounted) {
  ExpectPartsCounted(RandomStack("qwen3-6of3x10-yarn", 93, /*with_template=*/false),
                     {{2, 1}, {1, 3}, {2, 3}});
  ExpectPartsCounted(RandomStack("qwen3_moe-4of2x6", 89, /*with_template=*/false),
                     {{2, 1}, {1, 2}, {3, 2}});
  ExpectPartsCounted(RandomStack("qwen3-6of2x6-embed", 283, /*with_template=*/true),
                     {{2, 1}, {1, 2}, {2, 2}});
  ExpectPartsCounted(RandomStack("modernbert-3x8", 79, /*with_template=*/true),
                     {{2, 1}, {1, 3}, {5, 3}});
}

// Layers that share weights are in memory once.
TEST(MemoryPlanTest, SharedLayersAreCountedOnce) {
  const RandomStack albert("albert-2x12-groups", 67, /*with_template=*/true);
  ExpectPartsCounted(albert, {{1, 2}});
  ModelOptions options = albert.Options("albert");
  options.dtype = DType::kFloat32;
  auto model = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
  ASSERT_TRUE(model.ok()) << model.status();
  // 10 layers of 24 x 36 and more, of which 4 are stored; tables of 30 columns.
  EXPECT_EQ((*model)->info.weight_bytes / 4, (*model)->info.num_parameters);
  EXPECT_LT((*model)->info.num_parameters, 4 * (4 * 25 * 24 + 2 * 37 * 36 + 200) + 140 * 30 + 900);
}

// Every stage has the biases by distance of its ranks' heads.
TEST(MemoryPlanTest, BiasesByDistanceAreCounted) {
  ExpectPartsCounted(RandomTranslator("t5-5x6-gated", 83, 83), {{2, 1}, {4, 1}, {1, 5}, {3, 5}});
  ExpectPartsCounted(RandomStack("mpnet-3x8", 73, /*with_template=*/true),
                     {{2, 1}, {1, 3}, {2, 3}});
  ExpectPartsCounted(RandomStack("deberta-v2-3x8-buckets", 73, /*with_template=*/true),
                     {{3, 1}, {1, 3}, {2, 3}});
}

// Every rank has the convolution behind the first layer whole.
TEST(MemoryPlanTest, ConvolutionsAreCounted) {
  ExpectPartsCounted(RandomStack("deberta-v2-5x6-conv", 73, /*with_template=*/true), {{2, 1}});
  ExpectPartsCounted(RandomStack("deberta-v2-3x10-c2p", 73, /*with_template=*/true),
                     {{2, 1}, {1, 3}, {2, 3}});
}

void ExpectStepsTakeWhatIsPlanned(ModelOptions options, int32_t max_batch_tokens) {
  SCOPED_TRACE(options.folder + ", " + std::to_string(max_batch_tokens) + " tokens a step");
  options.max_batch_tokens = max_batch_tokens;
  options.max_sequences = std::min(max_batch_tokens, 64);
  const auto loaded = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const LoadedModel& model = **loaded;
  // A CPU's memory is taken when it is written.
  ASSERT_TRUE(RehearseLargest(model.limits, *model.transformer, *model.backend).ok());
  const auto planned = static_cast<size_t>(model.memory.activations);
  const bool is_gpu = model.memory.workspaces > 0;
  // The largest step of these models is shorter than that, and not all pages are written.
  if (is_gpu || max_batch_tokens <= 1024) {
    EXPECT_GE(Held(model, "activations"), is_gpu ? planned : planned * 4 / 5);
  }
  // Every buffer begins at a multiple of some hundred bytes.
  EXPECT_LE(Held(model, "activations"), planned + planned / 50 + (64 << 10));
  if (!is_gpu) return;
  EXPECT_LE(Held(model, "workspaces"), static_cast<size_t>(model.memory.workspaces));
  EXPECT_GE(Held(model, "workspaces"), static_cast<size_t>(model.memory.workspaces) / 4);
}

// BEAMLINE_TEST_FOLDER: another checkpoint besides, of a size that users have.
TEST(MemoryPlanTest, StepsTakeWhatIsPlanned) {
  // A sanitizer makes the largest steps long.
  const std::vector<int32_t> sizes =
      kSanitized ? std::vector{16, 100} : std::vector{16, 100, 1024, 8192};
  for (const int32_t tokens : sizes) {
    for (const char* const name : {"write-en", "translate-en-de", "embed-en"}) {
      ModelOptions options = Demo(name);
      options.cache_bytes = 16 << 20;
      ExpectStepsTakeWhatIsPlanned(options, tokens);
    }
    ExpectStepsTakeWhatIsPlanned(
        RandomStack("qwen3_moe-4of2x6", 89, /*with_template=*/false).Options("experts"), tokens);
    ExpectStepsTakeWhatIsPlanned(
        RandomStack("phi3-3x40-longrope", 71, /*with_template=*/false).Options("long"), tokens);
    if (const char* const folder = std::getenv("BEAMLINE_TEST_FOLDER")) {
      ModelOptions options;
      options.name = "given";
      options.folder = folder;
      options.device = TestDevice();
      options.dtype = TestDevice() == "cuda" ? DType::kBFloat16 : DType::kFloat32;
      options.cache_bytes = int64_t{2} << 30;
      ExpectStepsTakeWhatIsPlanned(options, tokens);
    }
  }
}

ModelOptions OnGpu(const std::string& name, int64_t cache_bytes, const std::string& device) {
  ModelOptions options = Demo(name);
  options.device = device;
  options.cache_bytes = cache_bytes;
  return options;
}

// Before there is a device, the plan for a GPU has what the model takes when it is loaded.
TEST(GpuNeedTest, PlanIsThatOfTheLoadedModel) {
  for (const char* const name : {"write-en", "translate-en-de", "embed-en"}) {
    for (const int64_t cache_bytes : {int64_t{1} << 20, int64_t{48} << 20}) {
      SCOPED_TRACE(testing::Message() << name << ", " << cache_bytes << " bytes of cache");
      ModelOptions options = OnGpu(name, cache_bytes, "cpu");
      options.max_batch_tokens = 1024;
      const auto loaded = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      LoadedModel unloaded;
      unloaded.options = options;
      const auto checkpoint = ReadFolder(unloaded);
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      const auto plan = PlanOnGpu(**checkpoint, unloaded);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->weights, (*loaded)->memory.weights);
      EXPECT_EQ(plan->cache, (*loaded)->memory.cache);
      EXPECT_EQ(plan->activations, (*loaded)->memory.activations);
      EXPECT_GT(plan->workspaces, 0);
    }
  }
}

TEST(GpuNeedTest, IsOfTheGpuThatNeedsTheMost) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const auto need = [](std::vector<ModelOptions> models) {
    EngineOptions options;
    options.models = std::move(models);
    return NeededGpuBytes(options);
  };
  const auto writer = need({OnGpu("write-en", 100 * kMiB, "cuda")});
  const auto larger = need({OnGpu("write-en", 500 * kMiB, "cuda")});
  const auto embedder = need({OnGpu("embed-en", 0, "cuda:1")});
  ASSERT_TRUE(writer.has_value() && larger.has_value() && embedder.has_value());
  // Cache, weights, activations, workspaces, and room for what no plan counts.
  EXPECT_GT(*writer, (100 + 17 + 40 + 84 + 256) * kMiB);
  EXPECT_LT(*writer, 800 * kMiB);
  EXPECT_NEAR(static_cast<double>(*larger - *writer), 400 * kMiB * 17 / 16, kMiB);
  EXPECT_LT(*embedder, *writer);
  EXPECT_EQ(need({OnGpu("write-en", 100 * kMiB, "cuda:0"), OnGpu("embed-en", 0, "cuda:0")}),
            *writer + *embedder);
  EXPECT_EQ(need({OnGpu("write-en", 100 * kMiB, "cuda:0"), OnGpu("embed-en", 0, "cuda:1")}),
            *writer);
  EXPECT_EQ(need({OnGpu("write-en", 100 * kMiB, "cuda"), OnGpu("translate-en-de", 0, "cpu")}),
            *writer);
  ModelOptions replicas = OnGpu("write-en", 100 * kMiB, "");
  replicas.devices = "cuda:0, cuda:1";
  EXPECT_EQ(need({replicas}), *writer);
  EXPECT_EQ(need({replicas, OnGpu("embed-en", 0, "cuda:1")}), *writer + *embedder);
  ModelOptions half = OnGpu("write-en", 100 * kMiB, "cuda");
  half.dtype = DType::kFloat16;
  EXPECT_LT(need({half}).value_or(0), *writer);
}

TEST(GpuNeedTest, IsNotKnownOfOpenCachesAndRanks) {
  EngineOptions options;
  options.models = {OnGpu("write-en", 0, "cuda")};
  EXPECT_EQ(NeededGpuBytes(options), std::nullopt);
  options.models = {OnGpu("write-en", 1 << 20, "cuda"), OnGpu("translate-en-de", 0, "cuda")};
  EXPECT_EQ(NeededGpuBytes(options), std::nullopt);
  options.models = {OnGpu("write-en", 1 << 20, "cpu")};
  EXPECT_EQ(NeededGpuBytes(options), std::nullopt);
  options.models = {OnGpu("write-en", 1 << 20, "cuda")};
  options.models[0].folder = "/nonexistent";
  EXPECT_EQ(NeededGpuBytes(options), std::nullopt);
  options.models = {OnGpu("write-en", 1 << 20, "")};
  options.models[0].devices = "cuda:0, cuda:1";
  options.models[0].tensor_parallel = 2;
  EXPECT_EQ(NeededGpuBytes(options), std::nullopt);
  options.models = {OnGpu("write-en", 1 << 20, "cuda")};
  options.processes.port = 1;
  EXPECT_EQ(NeededGpuBytes(options), std::nullopt);
}

TEST(EngineMemoryTest, StatsSayWhatAModelHolds) {
  const auto stats = SharedEngine().Stats("write-en");
  const auto info = SharedEngine().FindModel("write-en");
  ASSERT_TRUE(stats.ok() && info.ok());
  std::map<std::string, size_t> bytes;
  for (const MemoryUse& use : stats->memory) bytes[use.name] = use.bytes;
  // Packing pads; a backend that records steps has a block of cache more.
  EXPECT_GE(bytes["weights"], static_cast<size_t>(info->weight_bytes));
  EXPECT_LT(bytes["weights"], static_cast<size_t>(info->weight_bytes) * 2);
  if (info->device == "cpu") {
    EXPECT_LT(bytes["cache"], static_cast<size_t>(info->cache_bytes));  // what requests needed
  } else {
    EXPECT_GE(bytes["cache"], static_cast<size_t>(info->cache_bytes));
  }
  EXPECT_GT(bytes["activations"], 0u);
  EXPECT_EQ(stats->unused_device_bytes.has_value(), info->device != "cpu");
}

TEST(EngineMemoryTest, AWarmCacheHasItsPages) {
  EngineOptions options;
  options.models = {Demo("write-en")};
  options.models[0].cache_bytes = int64_t{64} << 20;
  options.models[0].warm_up = "true";
  const auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const auto info = (*engine)->FindModel("write-en");
  const auto stats = (*engine)->Stats("write-en");
  ASSERT_TRUE(info.ok() && stats.ok());
  std::map<std::string, size_t> bytes;
  for (const MemoryUse& use : stats->memory) bytes[use.name] = use.bytes;
  // Pages of a CPU that buffers share with others may not have been given yet.
  EXPECT_GE(bytes["cache"], static_cast<size_t>(info->cache_bytes) * 98 / 100);
}

TEST(EngineMemoryTest, LimitsOutOfRangeAreRefused) {
  EngineOptions options;
  options.models = {Demo("embed-en")};
  options.gpu_memory.fraction = 1.5;
  const auto engine = Engine::Create(options);
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(engine.status().message().find("gpu_memory_fraction is 1.5; accepted: 0.01 to 0.99"),
            std::string::npos)
      << engine.status();
}

}  // namespace
}  // namespace beamline::memory_test
