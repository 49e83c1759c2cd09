// Models that several ranks compute together answer as one rank does: every kind of decoding,
// embeddings and scores, with a device that is late too; and when a rank fails, everybody is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/late_ranks.h"
#include "tests/engine/late_replica.h"
#include "tests/engine/random_model.h"
#include "tests/engine/request_catalogue.h"

namespace beamline::tensor_parallel_test {
namespace {

using testing::HasSubstr;

constexpr double kScoreTolerance = 1e-4;
constexpr float kEmbeddingTolerance = 1e-5f;

std::unique_ptr<Engine> ServeOne(const ModelOptions& model) {
  auto engine = Serve({model});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

void ExpectScoresOf(const GenerateResult& actual, const GenerateResult& expected) {
  ASSERT_EQ(actual.sequences.size(), expected.sequences.size());
  for (size_t i = 0; i < actual.sequences.size(); ++i) {
    EXPECT_EQ(actual.sequences[i].ids, expected.sequences[i].ids);
    EXPECT_NEAR(actual.sequences[i].score, expected.sequences[i].score, kScoreTolerance);
  }
}

// All at once, on either engine.
void ExpectSameAnswers(const std::vector<GenerateRequest>& requests, Engine& ranked, Engine& one) {
  const auto actual = RunTogether(requests, ranked);
  const auto expected = RunTogether(requests, one);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    ASSERT_TRUE(actual[i].ok()) << actual[i].status();
    ASSERT_TRUE(expected[i].ok()) << expected[i].status();
    ExpectSameAnswer(*actual[i], *expected[i]);
    ExpectScoresOf(*actual[i], *expected[i]);
  }
}

// Shaping that reaches tokens of every rank, normalised before and after it.
std::vector<GenerateRequest> ShapedRequests(const std::string& model) {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 6; ++i) {
    GenerateRequest request = Write("Package: shaped" + std::to_string(i) + "\nSynopsis:", 14);
    request.model = model;
    if (i % 2 == 1) request.decoding = BeamOptions{.width = 2 + i};
    if (i >= 2) request.shaping.repetition_penalty = 1.3f;
    if (i >= 4) request.shaping.logit_bias = {{5, 2.0f}, {2500, 1.0f}, {4000, -3.0f}, {5999, 4.0f}};
    request.output = {.logprobs = 4, .return_logprobs = true};
    request.limits.ignore_eos = true;
    requests.push_back(std::move(request));
  }
  return requests;
}

TEST(TensorParallelTest, RequestsOfEveryKindAreAnsweredAsByOneRank) {
  for (const auto& [model, num_ranks] : std::vector<std::pair<std::string, int32_t>>{
           {"write-en", 3}, {"translate-en-de", 2}, {"translate-en-de", 4}}) {
    SCOPED_TRACE(model + " on " + std::to_string(num_ranks));
    std::vector<GenerateRequest> requests = RequestsOfEveryKind();
    std::erase_if(requests, [&](const auto& request) { return request.model != model; });
    if (model == "write-en") {
      for (GenerateRequest& request : ShapedRequests(model)) requests.push_back(std::move(request));
    }
    const auto ranked = ServeOne(OnRanks(Demo(model), num_ranks));
    ASSERT_NE(ranked, nullptr);
    ExpectSameAnswers(requests, *ranked, SharedEngine());
  }
}

TEST(TensorParallelTest, GuessedTokensAreAnsweredAsByOneRank) {
  ModelOptions options = OnRanks(Demo("write-en"), 3);
  options.speculative_tokens = 6;
  const auto ranked = ServeOne(options);
  ASSERT_NE(ranked, nullptr);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 4; ++i)
    requests.push_back(Write("a a a a a b b b b" + std::to_string(i), 40));
  ExpectSameAnswers(requests, *ranked, SharedEngine());
  EXPECT_GT(ranked->Stats("write-en")->speculative_proposed, 0u);
}

TEST(TensorParallelTest, EmbeddingsAreThoseOfOneRank) {
  EncodeRequest request;
  request.model = "embed-en";
  for (int i = 0; i < 20; ++i) {
    std::string text = "How do I install a package";
    for (int word = 0; word < i; ++word) text += " with version " + std::to_string(word * i);
    request.inputs.emplace_back(text);
  }
  for (const int32_t num_ranks : {2, 4}) {
    const auto ranked = ServeOne(OnRanks(Demo("embed-en"), num_ranks));
    ASSERT_NE(ranked, nullptr);
    for (const bool per_token : {false, true}) {
      request.per_token = per_token;
      const auto actual = ranked->EncodeAndWait(request);
      const auto expected = SharedEngine().EncodeAndWait(request);
      ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
      for (size_t i = 0; i < request.inputs.size(); ++i) {
        EXPECT_THAT(actual->embeddings[i].values,
                    testing::Pointwise(testing::FloatNear(kEmbeddingTolerance),
                                       expected->embeddings[i].values));
      }
    }
  }
}

TEST(TensorParallelTest, ScoresAreThoseOfOneRank) {
  ScoreRequest request;
  request.model = "write-en";
  request.prompt = "Package: editor\nSynopsis:";
  for (const char* text : {" small text editor", " library", " tools for the console"}) {
    request.continuations.emplace_back(text);
  }
  request.per_token = true;
  const auto ranked = ServeOne(OnRanks(Demo("write-en"), 3));
  ASSERT_NE(ranked, nullptr);
  const auto actual = ranked->ScoreAndWait(request);
  const auto expected = SharedEngine().ScoreAndWait(request);
  ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
  ASSERT_EQ(actual->scores.size(), expected->scores.size());
  for (size_t i = 0; i < actual->scores.size(); ++i) {
    EXPECT_NEAR(actual->scores[i].logprob, expected->scores[i].logprob, kScoreTolerance);
  }
}

// The weights of the random checkpoints, divided into eight heads.
TEST(TensorParallelTest, EightHeadsDivideAmongTwoFourAndEight) {
  const RandomTranslator translator("marian-2x16-target", 61, 97);
  translator.Change("config.json",
                    {{"encoder_attention_heads", 8}, {"decoder_attention_heads", 8}});
  const RandomStack writer("gpt2-5x8-deep", 97, /*with_template=*/false);
  writer.Change("config.json", {{"n_head", 8}});
  const RandomStack encoder("roberta-3x16", 89, /*with_template=*/true);
  encoder.Change("config.json", {{"num_attention_heads", 8}});

  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 9; ++i) {
    GenerateRequest request;
    request.model = "model";
    request.prompt = TokenIds{3 + i, 20, 7, 40 - i, 11};
    request.limits.max_new_tokens = 12;
    request.decoding = GreedyOptions();
    if (i % 3 == 1) request.decoding = BeamOptions{.width = 1 + i, .num_sequences = 2};
    if (i % 3 == 2) request.decoding = SamplingOptions{.seed = 5, .num_sequences = 3};
    requests.push_back(std::move(request));
  }
  EncodeRequest encode;
  encode.model = "model";
  encode.inputs = {TokenIds{1, 5, 9, 2}, TokenIds{1, 2}, TokenIds{1, 30, 31, 32, 33, 34, 35, 2}};

  for (const LinkedModel* model :
       {static_cast<const LinkedModel*>(&translator), static_cast<const LinkedModel*>(&writer)}) {
    const auto one = ServeOne(OnRanks(model->Options("model"), 1));
    for (const int32_t num_ranks : {2, 4, 8}) {
      SCOPED_TRACE(num_ranks);
      const auto ranked = ServeOne(OnRanks(model->Options("model"), num_ranks));
      ASSERT_TRUE(one != nullptr && ranked != nullptr);
      ExpectSameAnswers(requests, *ranked, *one);
    }
  }
  const auto one = ServeOne(OnRanks(encoder.Options("model"), 1));
  for (const int32_t num_ranks : {2, 4, 8}) {
    const auto ranked = ServeOne(OnRanks(encoder.Options("model"), num_ranks));
    ASSERT_TRUE(one != nullptr && ranked != nullptr);
    const auto actual = ranked->EncodeAndWait(encode);
    const auto expected = one->EncodeAndWait(encode);
    ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
    for (size_t i = 0; i < encode.inputs.size(); ++i) {
      EXPECT_THAT(actual->embeddings[i].values,
                  testing::Pointwise(testing::FloatNear(kEmbeddingTolerance),
                                     expected->embeddings[i].values));
    }
  }
}

TEST(TensorParallelTest, StepsAreRehearsedByAllRanks) {
  const RandomTranslator translator("marian-2x16-target", 61, 97);
  ModelOptions options = OnRanks(translator.Options("model"), 2);
  options.max_sequences = 4;
  options.max_batch_tokens = 64;
  options.warm_up = "true";
  const auto ranked = ServeOne(options);
  ASSERT_NE(ranked, nullptr);
  const auto info = ranked->FindModel("model");
  ASSERT_TRUE(info.ok());
  EXPECT_GT(info->warm_up.num_steps, 0);
  GenerateRequest request;
  request.model = "model";
  request.prompt = TokenIds{5, 9, 13};
  request.decoding = BeamOptions{.width = 3};
  request.limits.max_new_tokens = 8;
  ExpectSameAnswers({request}, *ranked, *ServeOne(OnRanks(translator.Options("model"), 1)));
}

TEST(TensorParallelTest, WhatDoesNotDivideIsRefused) {
  const auto refusal = [](const ModelOptions& options) { return Serve({options}).status(); };
  const absl::Status heads = refusal(OnRanks(Demo("write-en"), 2));
  EXPECT_EQ(heads.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(heads.message()),
              HasSubstr("tensor_parallel is 2, which does not divide the 3 attention heads of the "
                        "decoder; accepted: 1, 3"));
  const RandomStack encoder("bert-1x80-shards", 83, /*with_template=*/true);
  encoder.Change("config.json", {{"num_attention_heads", 4}});
  EXPECT_THAT(std::string(refusal(OnRanks(encoder.Options("model"), 4)).message()),
              HasSubstr("does not divide the 90 inner features of the feed-forward of the "
                        "encoder; accepted: 1, 2"));
  EXPECT_THAT(std::string(refusal(OnRanks(Demo("embed-en"), 9)).message()),
              HasSubstr("tensor_parallel is 9; accepted: 1 to 8"));
}

// The model's weights and cache lie on its ranks in parts; only norms are there several times.
TEST(TensorParallelTest, RanksHoldPartsOfTheModel) {
  const auto ranked = ServeOne(OnRanks(Demo("translate-en-de"), 4));
  ASSERT_NE(ranked, nullptr);
  const auto whole = SharedEngine().FindModel("translate-en-de");
  const auto parts = ranked->FindModel("translate-en-de");
  ASSERT_TRUE(whole.ok() && parts.ok());
  EXPECT_EQ(parts->num_parameters, whole->num_parameters);
  EXPECT_GE(parts->weight_bytes, whole->weight_bytes);
  EXPECT_LT(parts->weight_bytes, whole->weight_bytes + whole->weight_bytes / 50);
  EXPECT_EQ(parts->cache_bytes, whole->cache_bytes);
  EXPECT_THAT(parts->device_description, HasSubstr("4 ranks, each on "));
}

// Steps are launched before the last ones' results are read: each rank takes tokens and the order
// of beams out of its own results.
TEST(TensorParallelTest, RanksRunAheadOfTheHost) {
  for (const std::string model : {"write-en", "translate-en-de"}) {
    LateRanks ranks(model, MostRanks(model));
    std::vector<GenerateRequest> requests = RequestsOfEveryKind();
    // One whose edits depend on its tokens has every step read first.
    std::erase_if(requests, [&](const auto& request) {
      return request.model != model || request.shaping.no_repeat_ngram_size.value_or(0) > 0 ||
             request.shaping.repetition_penalty.value_or(1.0f) != 1.0f;
    });
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const GenerateRequest& request : requests) {
      sinks.push_back(std::make_shared<RecordingSink>());
      ranks.Submit(request, sinks.back());
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      const auto actual = sinks[i]->Wait();
      const auto expected = SharedEngine().GenerateAndWait(requests[i]);
      ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
      ExpectSameAnswer(*actual, *expected);
    }
    for (int rank = 0; rank < MostRanks(model); ++rank) {
      EXPECT_GT(ranks.backend(rank).num_filled(), 0);
      EXPECT_GT(ranks.backend(rank).num_reordered(), 0);
    }
  }
}

// `fail` makes the replica's ranks fail at some time soon.
template <typename Fail>
void ExpectEveryRequestFails(const Fail& fail, const std::string& reason) {
  LateRanks ranks("write-en", 3);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  fail(ranks);
  for (int i = 0; i < 8; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    GenerateRequest request = Write("Package: lib" + std::to_string(i) + "\nSynopsis:", 60);
    request.limits.ignore_eos = true;
    if (i % 4 == 1) request.decoding = SamplingOptions{.seed = 3, .num_sequences = 3};
    if (i % 4 == 2) request.decoding = BeamOptions{.width = 3};
    ranks.Submit(request, sinks.back());
  }
  for (const auto& sink : sinks) {
    const absl::Status status = sink->Wait().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("model 'write-en' cannot answer"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
  }
  auto late = std::make_shared<RecordingSink>();
  ranks.Submit(Write("late", 3), late);
  EXPECT_EQ(late->Wait().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(ranks.replica().fault().status().ok());
}

// Whichever rank it is and whenever it breaks.
TEST(TensorParallelTest, ABrokenRankEndsEveryRequestOfItsModel) {
  for (const int rank : {0, 1, 2}) {
    for (const int64_t reads : {0, 1, 5, 13}) {
      if (kSanitized && reads > 1) continue;
      ExpectEveryRequestFails([&](LateRanks& ranks) { ranks.backend(rank).BreakAfter(reads); },
                              "the late device broke");
    }
  }
}

// It leaves in the middle of a step, while the others wait for it in a collective.
TEST(TensorParallelTest, ARankWithoutMemoryEndsTheWaitOfTheOthers) {
  for (const int rank : {0, 2}) {
    ExpectEveryRequestFails([&](LateRanks& ranks) { ranks.backend(rank).RefuseReadBack(); },
                            "no memory to read");
  }
}

TEST(TensorParallelTest, AnAbortFromOutsideEndsEveryRequest) {
  ExpectEveryRequestFails(
      [](LateRanks& ranks) {
        ranks.group().communicator(1).Abort(absl::UnavailableError("the link is down"));
      },
      "the link is down");
}

TEST(TensorParallelTest, EncodersFailAsGeneratorsDo) {
  for (const bool before : {false, true}) {
    LateRanks ranks("embed-en", 4);
    if (before) {
      ranks.group().communicator(3).Abort(absl::UnavailableError("the late device broke"));
    } else {
      ranks.backend(0).BreakAfter(0);
    }
    EncodeRequest request;
    request.model = "embed-en";
    for (int i = 0; i < 6; ++i) request.inputs.emplace_back("text " + std::to_string(i));
    auto sink = std::make_shared<RecordingEncodeSink>();
    ranks.Submit(request, sink);
    const absl::Status status = sink->Wait().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the late device broke"));
  }
}

}  // namespace
}  // namespace beamline::tensor_parallel_test
