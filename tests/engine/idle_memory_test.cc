// What larger steps have touched is given back when nothing is computed, and answers stay the same.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/engine/demo_engine.h"

namespace beamline::idle_memory_test {
namespace {

// Bytes of activations that lie in memory.
size_t ActivationBytes(Engine& engine) {
  const auto stats = engine.Stats("embed-en");
  EXPECT_TRUE(stats.ok()) << stats.status();
  size_t bytes = 0;
  for (const MemoryUse& use : stats->memory) bytes += use.name == "activations" ? use.bytes : 0;
  return bytes;
}

TEST(IdleMemoryTest, ActivationsAreGivenBackAndAnswersStay) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("embed-en")};
  if (options.models[0].tensor_parallel * options.models[0].pipeline_parallel > 1) {
    GTEST_SKIP() << "ranks keep theirs";
  }
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  if ((*engine)->Models()[0].device != "cpu") GTEST_SKIP() << "a GPU keeps what it has";
  EncodeRequest small, large;
  small.model = large.model = "embed-en";
  small.inputs = {Prompt("a mail server")};
  large.inputs.assign(64, Prompt(TokenIds(60, 5)));
  const auto before = (*engine)->EncodeAndWait(small);
  ASSERT_TRUE(before.ok()) << before.status();
  const size_t of_small = ActivationBytes(**engine);
  ASSERT_TRUE((*engine)->EncodeAndWait(large).ok());
  const size_t of_large = ActivationBytes(**engine);
  ASSERT_GT(of_large, of_small + (size_t{4} << 20));
  (*engine)->ReturnIdleMemory();
  const auto until = Clock::now() + std::chrono::seconds(20);
  while (ActivationBytes(**engine) >= of_small && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_LT(ActivationBytes(**engine), of_small);
  const auto after = (*engine)->EncodeAndWait(small);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->embeddings[0].values, before->embeddings[0].values);
}

TEST(IdleMemoryTest, RequestsThatRunAreLeftAlone) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("write-en")};
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  GenerateRequest request = Write("Package: idle", 200);
  request.limits.ignore_eos = true;
  const auto alone = (*engine)->GenerateAndWait(request);
  ASSERT_TRUE(alone.ok()) << alone.status();
  auto sink = std::make_shared<RecordingSink>(/*stream=*/false);
  ASSERT_TRUE((*engine)->Generate(request, sink).ok());
  for (int i = 0; i < 50; ++i) {
    (*engine)->ReturnIdleMemory();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto beside = sink->Wait();
  ASSERT_TRUE(beside.ok()) << beside.status();
  EXPECT_EQ(beside->sequences[0].ids, alone->sequences[0].ids);
}

}  // namespace
}  // namespace beamline::idle_memory_test
