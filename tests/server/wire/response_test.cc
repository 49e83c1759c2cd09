#include "server/wire/response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace beamline::response_test {
namespace {

using testing::ElementsAre;

GenerateResult SomeResult() {
  GenerateResult result;
  GeneratedSequence sequence;
  sequence.ids = {3, 4};
  sequence.text = "Grüße";
  sequence.cumulative_logprob = -1.5;
  sequence.score = -0.75f;
  sequence.logprobs = {{{3, -0.5f}, {{3, -0.5f}, {9, -1.0f}}}, {{4, -1.0f}, {}}};
  sequence.finish_reason = FinishReason::kStop;
  result.sequences = {sequence, {}};
  result.usage = {.prompt_tokens = 5, .cached_tokens = 2, .generated_tokens = 2};
  result.timing = {.queue = std::chrono::microseconds(1500),
                   .first_token = std::chrono::milliseconds(4),
                   .total = std::chrono::milliseconds(2250)};
  result.seed = 17;
  return result;
}

TEST(Response, HoldsEveryField) {
  const v1::GenerateResponse message =
      ToMessage(SomeResult(), {.model = "m", .request_id = "r", .sampling = true});
  ASSERT_EQ(message.sequences_size(), 2);
  const v1::Sequence& sequence = message.sequences(0);
  EXPECT_THAT(sequence.ids(), ElementsAre(3, 4));
  EXPECT_EQ(sequence.text(), "Grüße");
  EXPECT_EQ(sequence.cumulative_logprob(), -1.5);
  EXPECT_EQ(sequence.score(), -0.75f);
  ASSERT_EQ(sequence.logprobs_size(), 2);
  EXPECT_EQ(sequence.logprobs(0).chosen().id(), 3);
  ASSERT_EQ(sequence.logprobs(0).top_size(), 2);
  EXPECT_EQ(sequence.logprobs(0).top(1).id(), 9);
  EXPECT_EQ(sequence.logprobs(0).top(1).logprob(), -1.0f);
  EXPECT_EQ(sequence.finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(message.usage().prompt_tokens(), 5);
  EXPECT_EQ(message.usage().cached_tokens(), 2);
  EXPECT_EQ(message.usage().generated_tokens(), 2);
  EXPECT_EQ(message.timing().queue().nanos(), 1500000);
  EXPECT_EQ(message.timing().total().seconds(), 2);
  EXPECT_EQ(message.timing().total().nanos(), 250000000);
  EXPECT_EQ(message.seed(), 17u);
  EXPECT_EQ(message.model(), "m");
  EXPECT_EQ(message.request_id(), "r");
}

TEST(Response, LeavesOutWhatWasNotAsked) {
  const v1::GenerateResponse message =
      ToMessage(SomeResult(), {.model = "m", .return_token_ids = false});
  EXPECT_EQ(message.sequences(0).ids_size(), 0);
  EXPECT_FALSE(message.has_seed());
}

TEST(Response, StreamEndHasOneEntryPerSequence) {
  const v1::StreamEnd end = ToStreamEnd(SomeResult(), {.model = "m"});
  ASSERT_EQ(end.sequences_size(), 2);
  EXPECT_EQ(end.sequences(0).finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(end.sequences(1).sequence(), 1);
  EXPECT_EQ(end.usage().generated_tokens(), 2);
}

TEST(Response, EveryFinishReasonHasItsName) {
  const std::pair<FinishReason, v1::FinishReason> rows[] = {
      {FinishReason::kEos, v1::FINISH_REASON_EOS},
      {FinishReason::kStop, v1::FINISH_REASON_STOP},
      {FinishReason::kLength, v1::FINISH_REASON_LENGTH},
      {FinishReason::kDeadline, v1::FINISH_REASON_DEADLINE},
      {FinishReason::kCancelled, v1::FINISH_REASON_CANCELLED}};
  for (const auto& [reason, expected] : rows) {
    GenerateResult result;
    result.sequences.resize(1);
    result.sequences[0].finish_reason = reason;
    EXPECT_EQ(ToMessage(result, {}).sequences(0).finish_reason(), expected);
  }
}

TEST(Response, EmbeddingsKeepTheirOrderAndShape) {
  EncodeResult result;
  result.embeddings = {{.num_vectors = 2, .dimensions = 2, .values = {1, 2, 3, 4}, .num_tokens = 2},
                       {.num_vectors = 1, .dimensions = 2, .values = {5, 6}, .num_tokens = 7}};
  result.usage.prompt_tokens = 9;
  const v1::EncodeResponse message = ToMessage(result, {.model = "e"});
  ASSERT_EQ(message.embeddings_size(), 2);
  EXPECT_THAT(message.embeddings(0).values(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(message.embeddings(0).num_vectors(), 2);
  EXPECT_THAT(message.embeddings(1).values(), ElementsAre(5, 6));
  EXPECT_EQ(message.embeddings(1).num_tokens(), 7);
  EXPECT_FALSE(message.timing().has_first_token());
}

TEST(Response, ClassesAreAllInTheirOrderOrTheBest) {
  EncodeResult result;
  result.embeddings = {{.dimensions = 3, .values = {0.25f, 0.5f, 0.25f}, .num_tokens = 2},
                       {.dimensions = 3, .values = {1, 0, -1}, .num_tokens = 7}};
  result.usage.prompt_tokens = 9;
  const std::vector<std::string> labels = {"a", "b", "c"};
  const auto shown = [&](std::optional<int32_t> top) {
    std::string text;
    const v1::ClassifyResponse message = ToClassifyMessage(result, labels, top, {.model = "m"});
    EXPECT_EQ(message.usage().prompt_tokens(), 9);
    EXPECT_EQ(message.model(), "m");
    for (const auto& one : message.classifications()) {
      for (const auto& score : one.classes()) text += score.label();
      text += std::to_string(one.num_tokens());
    }
    return text;
  };
  EXPECT_EQ(shown(std::nullopt), "abc2abc7");
  EXPECT_EQ(shown(1), "b2a7");
  EXPECT_EQ(shown(3), "bac2abc7");  // of equal ones the first
  EXPECT_EQ(shown(99), "bac2abc7");
}

TEST(Response, DocumentsAreAllInTheirOrderOrTheBest) {
  EncodeResult result;
  for (const float score : {0.5f, -1.0f, 0.5f, 2.0f}) {
    result.embeddings.push_back({.dimensions = 1, .values = {score}, .num_tokens = 3});
  }
  const auto shown = [&](std::optional<int32_t> top) {
    std::vector<int> indices;
    const v1::RerankResponse message = ToRerankMessage(result, top, {.request_id = "r"});
    EXPECT_EQ(message.request_id(), "r");
    for (const auto& document : message.documents()) {
      indices.push_back(document.index());
      const auto place = static_cast<size_t>(document.index());
      EXPECT_EQ(document.score(), result.embeddings[place].values[0]);
    }
    return indices;
  };
  EXPECT_THAT(shown(std::nullopt), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(shown(2), ElementsAre(3, 0));
  EXPECT_THAT(shown(9), ElementsAre(3, 0, 2, 1));
}

TEST(Response, ModelTellsNoPath) {
  ModelInfo info;
  info.name = "m";
  info.folder = "/secret/place";
  info.task = ModelTask::kTranslate;
  info.dtype = DType::kBFloat16;
  const v1::Model message = ToMessage(info, 2);
  EXPECT_EQ(message.task(), v1::TASK_TRANSLATE);
  EXPECT_EQ(message.data_type(), v1::DATA_TYPE_BFLOAT16);
  EXPECT_EQ(message.tokenizer().num_template_tokens(), 2);
  EXPECT_EQ(message.ShortDebugString().find("secret"), std::string::npos);
}

TEST(Response, AModelThatIsNotLoadedHasItsStateAndTheReason) {
  ModelInfo model;
  model.name = "m";
  model.version = 3;
  model.state = ModelState::kFailed;
  model.error = "config.json: torn";
  const v1::Model message = ToMessage(model, 0);
  EXPECT_EQ(message.ShortDebugString(),
            "name: \"m\" version: 3 state: MODEL_STATE_FAILED error: \"config.json: torn\"");
  model.dtype = DType::kFloat32;  // as its settings say
  EXPECT_EQ(ToMessage(model, 0).data_type(), v1::DATA_TYPE_FLOAT32);
  model.error = "a\xff/config.json\n: " + std::string(5000, 'x');
  const std::string error = ToMessage(model, 0).error();
  EXPECT_EQ(error.substr(0, 17), "a\uFFFD/config.json ");
  EXPECT_LE(error.size(), 1000u);
  model.state = ModelState::kDraining;
  model.replicas = {{.device = "cuda:0", .description = "a GPU"},
                    {.device = "cuda:1", .phase = ReplicaPhase::kFailed, .restarts = 2}};
  const v1::Model draining = ToMessage(model, 0);
  ASSERT_EQ(draining.replicas_size(), 2);
  EXPECT_EQ(draining.replicas(0).ShortDebugString(),
            "device: \"cuda:0\" description: \"a GPU\" state: REPLICA_STATE_UP");
  EXPECT_EQ(draining.replicas(1).ShortDebugString(),
            "device: \"cuda:1\" state: REPLICA_STATE_FAILED restarts: 2");
}

}  // namespace
}  // namespace beamline::response_test
