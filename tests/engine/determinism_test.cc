// A request gets the same answer alone and in whatever company: greedy, samples, beams, with
// log-probabilities and shaping, in batches of changing composition.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/request_catalogue.h"
#include "tests/test_seed.h"

namespace beamline::determinism_test {
namespace {

const std::vector<GenerateResult>& AnswersAlone() {
  static const std::vector<GenerateResult> answers = [] {
    std::vector<GenerateResult> alone;
    for (const GenerateRequest& request : RequestsOfEveryKind()) {
      auto result = SharedEngine().GenerateAndWait(request);
      EXPECT_TRUE(result.ok()) << result.status();
      alone.push_back(result.ok() ? *std::move(result) : GenerateResult());
    }
    return alone;
  }();
  return answers;
}

// Runs requests of the catalogue, named by their index, and `noise` at once.
void ExpectAnswersOfAlone(Engine& engine, const std::vector<size_t>& indices,
                          const std::vector<GenerateRequest>& noise) {
  const std::vector<GenerateRequest> catalogue = RequestsOfEveryKind();
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const auto submit = [&](const GenerateRequest& request) {
    sinks.push_back(std::make_shared<RecordingSink>(/*stream=*/sinks.size() % 3 == 0));
    const auto handle = engine.Generate(request, sinks.back());
    ASSERT_TRUE(handle.ok()) << handle.status();
  };
  for (const size_t index : indices) submit(catalogue[index]);
  for (const GenerateRequest& request : noise) submit(request);
  for (size_t i = 0; i < sinks.size(); ++i) {
    const auto result = sinks[i]->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    if (i >= indices.size()) continue;
    SCOPED_TRACE("request " + std::to_string(indices[i]));
    ExpectSameAnswer(*result, AnswersAlone()[indices[i]]);
  }
}

std::vector<size_t> EveryIndex() {
  std::vector<size_t> indices(RequestsOfEveryKind().size());
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  return indices;
}

TEST(DeterminismTest, AllKindsTogether) {
  std::vector<size_t> indices = EveryIndex();
  ExpectAnswersOfAlone(SharedEngine(), indices, {});
  std::reverse(indices.begin(), indices.end());
  ExpectAnswersOfAlone(SharedEngine(), indices, {});
}

// A batch of one kind, so that every row count up to the copies' occurs as they end.
TEST(DeterminismTest, ManyOfTheSame) {
  for (const size_t index : EveryIndex()) {
    SCOPED_TRACE(index);
    ExpectAnswersOfAlone(SharedEngine(), std::vector<size_t>(kSanitized ? 3 : 5, index), {});
  }
}

TEST(DeterminismTest, RandomCompanyOfRandomLengths) {
  const unsigned seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < (kSanitized ? 2 : 6); ++round) {
    std::vector<size_t> indices;
    for (size_t i = 1 + random() % 20; i > 0; --i) {
      indices.push_back(random() % RequestsOfEveryKind().size());
    }
    std::vector<GenerateRequest> noise;
    for (size_t i = random() % 24; i > 0; --i) {
      noise.push_back(Write("", 1 + static_cast<int32_t>(random() % 40)));
      TokenIds prompt(1 + random() % 300);
      for (int32_t& id : prompt) id = static_cast<int32_t>(random() % 5000);
      noise.back().prompt = prompt;
      noise.back().limits.ignore_eos = true;
      noise.back().priority = static_cast<int32_t>(random() % 3) - 1;
    }
    ExpectAnswersOfAlone(SharedEngine(), indices, noise);
  }
}

// Prompts cut into chunks, few rows at a time, and rows that start again after a preemption.
TEST(DeterminismTest, ATightEngineAnswersAlike) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("write-en"), Demo("translate-en-de")};
  for (ModelOptions& model : options.models) {
    const auto info = SharedEngine().FindModel(model.name);
    ASSERT_TRUE(info.ok());
    model.max_batch_tokens = 96;  // prompts are computed in pieces
    model.max_sequences = 96;     // more than have room: some are preempted
    model.cache_bytes = 72 * info->cache_bytes / info->cache_blocks;
  }
  auto tight = Engine::Create(options);
  ASSERT_TRUE(tight.ok()) << tight.status();
  std::vector<size_t> indices;
  for (int copy = 0; copy < (kSanitized ? 4 : 6); ++copy) {
    for (const size_t index : EveryIndex()) indices.push_back(index);
  }
  std::vector<GenerateRequest> noise(4, Write("", 30));
  for (size_t i = 0; i < noise.size(); ++i) {
    noise[i].prompt = TokenIds(350, static_cast<int32_t>(100 + i));
    noise[i].limits.ignore_eos = true;
  }
  ExpectAnswersOfAlone(**tight, indices, noise);
  EXPECT_GT((*tight)->Stats("write-en")->preemptions, 0u);
}

TEST(DeterminismTest, SeedsAreWhatTellsSamplesApart) {
  GenerateRequest request = RequestsOfEveryKind()[3];
  const auto first = SharedEngine().GenerateAndWait(request);
  std::get<SamplingOptions>(request.decoding).seed = 8;
  const auto second = SharedEngine().GenerateAndWait(request);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->sequences[0].ids, second->sequences[0].ids);
  // A request without a seed reports the one that repeats it.
  std::get<SamplingOptions>(request.decoding).seed.reset();
  const auto drawn = SharedEngine().GenerateAndWait(request);
  ASSERT_TRUE(drawn.ok());
  std::get<SamplingOptions>(request.decoding).seed = drawn->seed;
  const auto repeated = SharedEngine().GenerateAndWait(request);
  ASSERT_TRUE(repeated.ok());
  ExpectSameAnswer(*repeated, *drawn);
}

}  // namespace
}  // namespace beamline::determinism_test
