// Models that are loaded and unloaded while others serve, through the engine. Long because each
// test is a life of a model from its load to its end.
#include "engine/serving/lifecycle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/text/tokenizer.h"
#include "kernels/cpu/memory_counts.h"
#include "tests/engine/random_model.h"
#include "tests/sanitized.h"

namespace beamline::lifecycle_test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::HasSubstr;

// Entries of a folder of /proc/self: "fd", "task".
int64_t CountOfProcess(const char* folder) {
  return std::distance(fs::directory_iterator(std::string("/proc/self/") + folder),
                       fs::directory_iterator());
}

bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  return condition();
}

class LifecycleTest : public testing::Test {
 protected:
  void SetUp() override {
    auto engine = Serve({Stack("base", stack_)});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  static ModelOptions Stack(const std::string& name, const LinkedModel& folder) {
    ModelOptions options = folder.Options(name);
    options.device = "cpu";
    options.max_sequences = 8;
    options.cache_bytes = 1 << 20;
    return options;
  }
  static ModelOptions Writer(const std::string& name) {
    ModelOptions options = Demo("write-en");
    options.name = name;
    options.device = "cpu";
    return options;
  }
  absl::StatusOr<EncodeResult> Embed(const std::string& model) {
    EncodeRequest request;
    request.model = model;
    request.inputs = {std::string("abc"), std::string("hello")};
    return engine_->EncodeAndWait(request);
  }
  // A request that runs for a while.
  std::shared_ptr<RecordingSink> StartLong(const std::string& model) {
    GenerateRequest request = Write("Package: a", kSanitized ? 100 : 400);
    request.model = model;
    request.limits.ignore_eos = true;
    request.decoding = SamplingOptions{.seed = 3, .num_sequences = 32};
    auto sink = std::make_shared<RecordingSink>(/*stream=*/true);
    const auto handle = engine_->Generate(request, sink);
    EXPECT_TRUE(handle.ok()) << handle.status();
    sink->WaitForFirstDelta();
    return sink;
  }
  // Nothing has changed: one model, which answers.
  void ExpectBaseAlone() {
    for (const ModelInfo& info : engine_->Models()) {
      EXPECT_TRUE(info.name == "base" || info.state == ModelState::kFailed) << info.name;
    }
    EXPECT_TRUE(Embed("base").ok());
  }

  const RandomStack stack_{"bert-3x40", 100, /*with_template=*/true};
  std::unique_ptr<Engine> engine_;
};

TEST_F(LifecycleTest, LoadsServesAndUnloads) {
  const int64_t bytes = cpu::MemoryCounts::ProcessBytes();
  const auto info = engine_->Load(Stack("second", stack_));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->state, ModelState::kReady);
  EXPECT_EQ(info->versioned_name, "second@1");
  EXPECT_EQ(info->architecture, "BertModel");
  EXPECT_GT(cpu::MemoryCounts::ProcessBytes(), bytes);
  const auto base = Embed("base");
  const auto second = Embed("second");
  ASSERT_TRUE(base.ok() && second.ok()) << second.status();
  EXPECT_EQ(base->embeddings[1].values, second->embeddings[1].values);
  // Again: the same.
  const auto again = engine_->Load(Stack("second", stack_));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(engine_->Models().size(), 2u);
  const auto tokenizer = engine_->FindTokenizer("second");
  ASSERT_TRUE(tokenizer.ok());

  const auto gone = engine_->Unload("second", 1, milliseconds(0));
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(gone->name, "second");
  EXPECT_EQ(cpu::MemoryCounts::ProcessBytes(), bytes);
  EXPECT_EQ(Embed("second").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(engine_->Unload("second", 1, milliseconds(0)).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE((*tokenizer)->Encode("abc", {}).ok());  // outlives its model
  ExpectBaseAlone();
}

TEST_F(LifecycleTest, ConfiguredModelsCanGoToo) {
  ASSERT_TRUE(engine_->Unload("base", 0, milliseconds(0)).ok());
  EXPECT_TRUE(engine_->Models().empty());
  EXPECT_EQ(cpu::MemoryCounts::ProcessBytes(), 0);
  ASSERT_TRUE(engine_->Load(Stack("base", stack_)).ok());
  ExpectBaseAlone();
}

// A folder that is no model, in one way each, and what loading it says.
TEST_F(LifecycleTest, AFailedLoadChangesNothingAndSaysWhy) {
  const int64_t bytes = cpu::MemoryCounts::ProcessBytes();
  const RandomStack torn{"bert-3x40", 100, true};
  torn.Write("config.json", nlohmann::json::array({1}));
  const RandomStack wide{"bert-3x40", 100, true};
  wide.Change("config.json", {{"intermediate_size", 4096}});
  ModelOptions missing = Stack("m", stack_);
  missing.folder = "/nonexistent/model";
  ModelOptions half = Stack("m", stack_);
  half.dtype = DType::kFloat16;
  ModelOptions gpu = Stack("m", stack_);
  gpu.device = "cuda:4000";
  ModelOptions huge = Writer("m");
  huge.cache_bytes = int64_t{1} << 50;
  const struct {
    ModelOptions options;
    absl::StatusCode code;
    std::string text;
  } cases[] = {
      {Stack("m", torn), absl::StatusCode::kFailedPrecondition, "config.json: "},
      {Stack("m", wide), absl::StatusCode::kFailedPrecondition, "shape [4096, "},
      {missing, absl::StatusCode::kNotFound, "/nonexistent/model: no such folder"},
      {half, absl::StatusCode::kFailedPrecondition, "not in float16"},
      {gpu, absl::StatusCode::kFailedPrecondition, "device is 'cuda:4000', which does not work"},
      {huge, absl::StatusCode::kResourceExhausted, "bytes of memory of the host (weights "},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.text);
    const absl::Status status = engine_->Load(one.options).status();
    EXPECT_EQ(status.code(), one.code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(one.text));
    EXPECT_THAT(std::string(status.message()), HasSubstr("model 'm': "));
    EXPECT_EQ(cpu::MemoryCounts::ProcessBytes(), bytes);
    ExpectBaseAlone();
    const auto failed = engine_->FindModel("m");
    ASSERT_TRUE(failed.ok());
    EXPECT_EQ(failed->state, ModelState::kFailed);
    EXPECT_EQ(failed->error, std::string(status.message()));
  }
  ASSERT_TRUE(engine_->Load(Stack("m", stack_)).ok());  // tried again
  EXPECT_EQ(engine_->FindModel("m")->error, "");
}

TEST_F(LifecycleTest, WrongOptionsAreNotEvenTried) {
  ModelOptions wrong = Stack("m", stack_);
  wrong.max_sequences = 0;
  EXPECT_EQ(std::string(engine_->Load(wrong).status().message()),
            "max_sequences is 0; accepted: 1 to 65535");
  EXPECT_EQ(std::string(engine_->Load(Stack("m@2", stack_)).status().message()),
            "name is 'm@2'; accepted: a name without @");
  wrong = Stack("m", stack_);
  wrong.device = "tpu";
  EXPECT_EQ(std::string(engine_->Load(wrong).status().message()),
            "device is 'tpu'; accepted: auto, cpu, cuda, cuda:N");
  EXPECT_EQ(engine_->Models().size(), 1u);
}

// What is planned before a load is what it takes, to a few percent that packing pads.
TEST_F(LifecycleTest, MemoryIsPlannedAsItIsTaken) {
  for (const char* name : {"write-en", "embed-en", "translate-en-de"}) {
    SCOPED_TRACE(name);
    ModelOptions options = Demo(name);
    options.device = "cpu";
    const int64_t before = cpu::MemoryCounts::ProcessBytes();
    const auto model = LoadedModel::Load(options, {});
    ASSERT_TRUE(model.ok()) << model.status();
    const auto taken = static_cast<double>(cpu::MemoryCounts::ProcessBytes() - before);
    EXPECT_NEAR(static_cast<double>((*model)->memory.total()) / taken, 1, 0.03);
    EXPECT_NEAR(static_cast<double>((*model)->memory.weights),
                static_cast<double>((*model)->info.weight_bytes),
                static_cast<double>((*model)->info.weight_bytes) * 0.02);
    EXPECT_EQ((*model)->memory.cache, (*model)->info.cache_bytes);
  }
}

TEST_F(LifecycleTest, TwoLoadsAtOnceAreOne) {
  std::vector<std::future<absl::StatusOr<ModelInfo>>> loads;
  for (int i = 0; i < 4; ++i) {
    loads.push_back(std::async(std::launch::async, [&] { return engine_->Load(Writer("w")); }));
  }
  for (auto& load : loads) {
    const auto info = load.get();
    EXPECT_TRUE(info.ok()) << info.status();
  }
  EXPECT_EQ(engine_->Models().size(), 2u);
}

TEST_F(LifecycleTest, ReplicasComeAndGoTogether) {
  const int64_t bytes = cpu::MemoryCounts::ProcessBytes();
  ASSERT_TRUE(engine_->Load(Stack("one", stack_)).ok());
  const int64_t of_one = cpu::MemoryCounts::ProcessBytes() - bytes;
  const int64_t threads = CountOfProcess("task");
  ModelOptions two = Stack("two", stack_);
  two.replicas = "2";
  const auto info = engine_->Load(two);
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_EQ(info->replicas.size(), 2u);
  EXPECT_EQ(cpu::MemoryCounts::ProcessBytes() - bytes, 3 * of_one);
  const auto expected = Embed("one");
  ASSERT_TRUE(expected.ok());
  std::vector<std::future<absl::StatusOr<EncodeResult>>> answers;
  for (int i = 0; i < 40; ++i) {
    answers.push_back(std::async(std::launch::async, [&] { return Embed("two"); }));
  }
  for (auto& answer : answers) {
    const auto got = answer.get();
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->embeddings[1].values, expected->embeddings[1].values);
  }
  const auto restarted = engine_->RestartReplica("two", 0, 1, std::chrono::seconds(20));
  ASSERT_TRUE(restarted.ok()) << restarted.status();
  EXPECT_EQ(restarted->replicas[1].restarts, 1);
  EXPECT_EQ(cpu::MemoryCounts::ProcessBytes() - bytes, 3 * of_one);
  const auto stats = engine_->Stats("two");
  ASSERT_TRUE(stats.ok());
  for (const ReplicaState& replica : stats->replicas) {
    EXPECT_TRUE(replica.can_answer) << replica.replica;
    EXPECT_GE(replica.expected_wait_seconds, 0) << replica.replica;
  }
  for (const char* name : {"one", "two"}) {
    ASSERT_TRUE(engine_->Unload(name, 0, milliseconds(0)).ok());
  }
  EXPECT_EQ(cpu::MemoryCounts::ProcessBytes(), bytes);
  EXPECT_TRUE(Eventually([&] { return CountOfProcess("task") <= threads; }));
}

// The same model at the start and by Load: one text, but for what is free at that moment.
TEST_F(LifecycleTest, ASetCacheThatDoesNotFitIsRefusedAtTheStartToo) {
  const auto without_free = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    const std::string text(status.message());
    EXPECT_THAT(text, HasSubstr("bytes of memory of the host (weights "));
    const size_t begin = text.find(", and ");
    return text.substr(0, begin) + text.substr(text.find(" are free", begin));
  };
  ModelOptions huge = Writer("huge");
  huge.cache_bytes = int64_t{1} << 50;
  EXPECT_EQ(without_free(Serve({huge}).status()), without_free(engine_->Load(huge).status()));
  // Each alone would fit.
  ModelOptions one = Writer("one"), other = Writer("other");
  one.cache_bytes = other.cache_bytes = FreeHostBytes() / 10 * 6;
  EXPECT_TRUE(Serve({one}).ok());
  EXPECT_THAT(without_free(Serve({one, other}).status()), testing::StartsWith("model 'other': "));
}

// The first replica alone would have fitted.
TEST_F(LifecycleTest, ReplicasThatDoNotAllFitTakeNothing) {
  const int64_t bytes = cpu::MemoryCounts::ProcessBytes();
  ModelOptions many = Writer("many");
  many.replicas = "3";
  many.max_sequences = 8;
  many.cache_bytes = FreeHostBytes() / 2;
  const absl::Status status = engine_->Load(many).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes of memory of the host"));
  EXPECT_EQ(cpu::MemoryCounts::ProcessBytes(), bytes);
  ExpectBaseAlone();
}

TEST_F(LifecycleTest, UnloadingWaitsForWhatRuns) {
  ASSERT_TRUE(engine_->Load(Writer("w")).ok());
  const auto sink = StartLong("w");
  auto unloading = std::async(std::launch::async, [&] {
    return engine_->Unload("w", 1, std::chrono::seconds(60)).status();
  });
  ASSERT_TRUE(Eventually([&] { return engine_->FindModel("w")->state == ModelState::kDraining; }));
  const absl::Status refused = engine_->GenerateAndWait(Write("Package:", 2)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound);  // of another model's name
  GenerateRequest late = Write("Package:", 2);
  late.model = "w";
  EXPECT_EQ(engine_->GenerateAndWait(late).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Embed("base").ok());
  const auto answer = sink->Wait();
  EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(unloading.get().ok());
}

TEST_F(LifecycleTest, WhenItsGraceIsOverUnloadingCutsWhatRuns) {
  ASSERT_TRUE(engine_->Load(Writer("w")).ok());
  const auto sink = StartLong("w");
  const absl::Status status = engine_->Unload("w", 1, milliseconds(1)).status();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(sink->Wait().status(),
            absl::UnavailableError("model 'w' was unloaded before the answer was complete"));
  ExpectBaseAlone();
}

TEST_F(LifecycleTest, ANewVersionTakesOverWithoutAGap) {
  ASSERT_TRUE(engine_->Load(Stack("m", stack_)).ok());
  const auto expected = Embed("m");
  ASSERT_TRUE(expected.ok());
  std::atomic<bool> stop = false;
  std::atomic<int> answered = 0;
  std::thread client([&] {
    while (!stop) {
      const auto answer = Embed("m");
      EXPECT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->embeddings[1].values, expected->embeddings[1].values);
      ++answered;
    }
  });
  for (int32_t version = 2; version <= 5; ++version) {
    ModelOptions next = Stack("m", stack_);
    next.version = version;
    EXPECT_TRUE(engine_->Load(next).ok());
    EXPECT_TRUE(engine_->Unload("m", version - 1, std::chrono::seconds(20)).ok());
  }
  EXPECT_TRUE(Eventually([&] { return answered > 20; }));
  stop = true;
  client.join();
  EXPECT_EQ(engine_->FindModel("m")->version, 5);
}

// The end of a server does not wait for a load that takes long: some steps of a warm-up take
// seconds.
TEST_F(LifecycleTest, DrainingEndsALoad) {
  ModelOptions slow = Writer("slow");
  slow.warm_up = "true";
  auto load = std::async(std::launch::async, [&] { return engine_->Load(slow).status(); });
  ASSERT_TRUE(Eventually([&] { return engine_->FindModel("slow").ok(); }));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(engine_->Drain(milliseconds(0)));
  EXPECT_EQ(load.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(engine_->Load(Stack("late", stack_)).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(LifecycleTest, DrainingEndsTheWaitOfAnUnload) {
  ASSERT_TRUE(engine_->Load(Writer("w")).ok());
  const auto sink = StartLong("w");
  auto unload = std::async(std::launch::async,
                           [&] { return engine_->Unload("w", 1, std::chrono::hours(1)).status(); });
  ASSERT_TRUE(Eventually([&] { return engine_->FindModel("w")->state == ModelState::kDraining; }));
  EXPECT_FALSE(engine_->Drain(milliseconds(0)));
  EXPECT_TRUE(unload.get().ok());
  EXPECT_EQ(sink->Wait().status().code(), absl::StatusCode::kUnavailable);
}

// Loads, unloads, requests and whoever looks on, all at once; ThreadSanitizer runs it too.
TEST_F(LifecycleTest, ComesAndGoesWhileOthersAskAndLook) {
  constexpr int kCycles = kSanitized ? 6 : 60;
  const RandomStack other{"bert-3x40", 100, true};
  ASSERT_TRUE(engine_->Load(Stack("x", other)).ok());  // brings threads and pools to their size
  ASSERT_TRUE(engine_->Unload("x", 1, milliseconds(0)).ok());
  const auto expected = Embed("base");
  ASSERT_TRUE(expected.ok());
  const int64_t bytes = cpu::MemoryCounts::ProcessBytes();
  const int64_t threads = CountOfProcess("task"), files = CountOfProcess("fd");

  std::atomic<bool> stop = false;
  std::atomic<int> served = 0;
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      while (!stop) {
        const auto answer = Embed("base");
        ASSERT_TRUE(answer.ok()) << answer.status();
        ASSERT_EQ(answer->embeddings[1].values, expected->embeddings[1].values);
        if (Embed("x").ok()) ++served;  // refused while it is not there
      }
    });
  }
  others.emplace_back([&] {
    while (!stop) {
      for (const ModelInfo& info : engine_->Models()) {
        static_cast<void>(engine_->Stats(info.name));
        static_cast<void>(engine_->FindTokenizer(info.versioned_name));
      }
      engine_->OnModelChange([](const ModelInfo&) {});
      engine_->OnFault([](const ModelInfo&, const absl::Status&) {});
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  for (int i = 0; i < kCycles; ++i) {
    auto load = std::async(std::launch::async, [&] { return engine_->Load(Stack("x", other)); });
    ASSERT_TRUE(engine_->Load(Stack("x", other)).ok());
    ASSERT_TRUE(load.get().ok());
    if (i % 3 == 0) {
      ASSERT_TRUE(Embed("x").ok());
    }
    const absl::Status gone = engine_->Unload("x", 1, milliseconds(i % 2 * 20)).status();
    ASSERT_TRUE(gone.ok()) << gone;
  }
  stop = true;
  for (std::thread& thread : others) thread.join();
  EXPECT_GT(served, 0);
  EXPECT_EQ(cpu::MemoryCounts::ProcessBytes(), bytes);
  EXPECT_TRUE(Eventually([&] { return CountOfProcess("task") == threads; }));
  EXPECT_EQ(CountOfProcess("fd"), files);
}

}  // namespace
}  // namespace beamline::lifecycle_test
