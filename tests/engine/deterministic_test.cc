// The setting deterministic: answers have the same bits alone and in whatever company, log
// probabilities and scores too, on a GPU as on the CPU.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/request_catalogue.h"
#include "tests/test_seed.h"

namespace beamline::deterministic_test {
namespace {

void ExpectSameBits(const GenerateResult& actual, const GenerateResult& expected) {
  ASSERT_EQ(actual.sequences.size(), expected.sequences.size());
  for (size_t i = 0; i < actual.sequences.size(); ++i) {
    const GeneratedSequence& one = actual.sequences[i];
    const GeneratedSequence& other = expected.sequences[i];
    ASSERT_EQ(one.ids, other.ids);
    EXPECT_EQ(one.score, other.score);
    EXPECT_EQ(one.cumulative_logprob, other.cumulative_logprob);
    ASSERT_EQ(one.logprobs.size(), other.logprobs.size());
    for (size_t p = 0; p < one.logprobs.size(); ++p) {
      EXPECT_EQ(one.logprobs[p].chosen.logprob, other.logprobs[p].chosen.logprob);
      ASSERT_EQ(one.logprobs[p].top.size(), other.logprobs[p].top.size());
      for (size_t t = 0; t < one.logprobs[p].top.size(); ++t) {
        EXPECT_EQ(one.logprobs[p].top[t].logprob, other.logprobs[p].top[t].logprob);
      }
    }
  }
}

// Log probabilities of everything, so that a bit shows that changes no choice.
std::vector<GenerateRequest> Requests() {
  std::vector<GenerateRequest> requests = RequestsOfEveryKind();
  for (GenerateRequest& request : requests) request.output.return_logprobs = true;
  return requests;
}

class DeterministicTest : public testing::TestWithParam<DType> {
 protected:
  absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(bool tight) {
    EngineOptions options = TestEngineOptions();
    options.models = {Demo("write-en", GetParam()), Demo("translate-en-de", GetParam()),
                      Demo("embed-en", GetParam())};
    for (ModelOptions& model : options.models) {
      model.deterministic = true;
      model.max_queued_tokens = 1 << 20;       // all of a test's requests may wait
      if (tight) model.max_batch_tokens = 16;  // prompts are computed in pieces
      if (tight) model.prefix_cache = false;
    }
    return Engine::Create(options);
  }
  // Whether the device computes in the type.
  bool IsSupported() {
    if (GetParam() == DType::kFloat32 || TestDevice() == "cuda") return true;
    return !absl::IsUnimplemented(MakeEngine(/*tight=*/false).status());
  }

  static std::vector<GenerateResult> Together(Engine& engine,
                                              const std::vector<GenerateRequest>& requests) {
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const GenerateRequest& request : requests) {
      sinks.push_back(std::make_shared<RecordingSink>(/*stream=*/false));
      const auto handle = engine.Generate(request, sinks.back());
      EXPECT_TRUE(handle.ok()) << handle.status();
      if (!handle.ok()) sinks.back() = nullptr;  // nothing arrives there
    }
    std::vector<GenerateResult> results;
    for (const auto& sink : sinks) {
      const auto result = sink != nullptr ? sink->Wait() : absl::CancelledError("it was refused");
      EXPECT_TRUE(result.ok()) << result.status();
      results.push_back(result.ok() ? *result : GenerateResult());
    }
    return results;
  }
};

INSTANTIATE_TEST_SUITE_P(Types, DeterministicTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

TEST_P(DeterministicTest, CompanyChangesNoBit) {
  if (!IsSupported()) return;
  const auto engine = MakeEngine(/*tight=*/false);
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::vector<GenerateResult> alone;
  for (const GenerateRequest& request : Requests()) {
    alone.push_back(Together(**engine, {request}).front());
  }
  const unsigned seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto compare = [&](Engine& of) {
    std::vector<size_t> indices;
    std::vector<GenerateRequest> requests;
    for (int copy = 0; copy < (kSanitized ? 1 : 3); ++copy) {
      for (size_t i = 0; i < alone.size(); ++i) {
        indices.push_back(i);
        requests.push_back(Requests()[i]);
      }
    }
    for (size_t i = 8 + random() % 24; i > 0; --i) {
      requests.push_back(Write("", 1 + static_cast<int32_t>(random() % 40)));
      TokenIds prompt(1 + random() % 300);
      for (int32_t& id : prompt) id = static_cast<int32_t>(random() % 5000);
      requests.back().prompt = prompt;
    }
    const std::vector<GenerateResult> together = Together(of, requests);
    for (size_t i = 0; i < indices.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(indices[i]));
      ExpectSameBits(together[i], alone[indices[i]]);
    }
  };
  for (int round = 0; round < (kSanitized ? 1 : 3); ++round) compare(**engine);
  // Prompts in other pieces, and nothing cached.
  const auto tight = MakeEngine(/*tight=*/true);
  ASSERT_TRUE(tight.ok()) << tight.status();
  compare(**tight);
}

TEST_P(DeterministicTest, EmbeddingsToo) {
  if (!IsSupported()) return;
  const auto engine = MakeEngine(/*tight=*/false);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const std::vector<std::string> texts = {"a", "The file could not be opened.",
                                          "A graphical tool that shows which packages are "
                                          "installed and why, and what depends on them.",
                                          "Press any key to continue."};
  EncodeRequest all;
  all.model = "embed-en";
  for (int copy = 0; copy < 40; ++copy) {
    for (const std::string& text : texts) all.inputs.emplace_back(text);
  }
  const auto together = (*engine)->EncodeAndWait(all);
  ASSERT_TRUE(together.ok()) << together.status();
  for (size_t i = 0; i < texts.size(); ++i) {
    EncodeRequest one;
    one.model = "embed-en";
    one.inputs.emplace_back(texts[i]);
    const auto alone = (*engine)->EncodeAndWait(one);
    ASSERT_TRUE(alone.ok()) << alone.status();
    for (size_t at = i; at < all.inputs.size(); at += texts.size()) {
      EXPECT_EQ(together->embeddings[at].values, alone->embeddings[0].values) << texts[i];
    }
  }
}

TEST(DeterministicSettingTest, RanksOnGpusAreRefused) {
  if (!RanksAreGpus(2)) {
    EngineOptions options = TestEngineOptions();
    options.models = {OnRanks(Demo("translate-en-de"), 2)};
    options.models[0].deterministic = true;
    EXPECT_TRUE(Engine::Create(options).ok());  // threads of the CPU compute so anyway
    return;
  }
  EngineOptions options = TestEngineOptions();
  options.models = {OnRanks(Demo("translate-en-de"), 2)};
  options.models[0].deterministic = true;
  const absl::Status status = Engine::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("deterministic is true"), std::string::npos) << status;
}

}  // namespace
}  // namespace beamline::deterministic_test
