#include "engine/intake/generate_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "tests/engine/intake/complete_job.h"

namespace beamline::generate_intake_test {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Group>> Complete(const GenerateRequest& request) {
  return CompleteJob<GenerateIntake>(request, std::make_shared<RecordingSink>(/*stream=*/true));
}

TEST(GenerateIntake, CarriesTheRequest) {
  GenerateRequest request = Write("", 30);
  request.prompt = TokenIds{7, 8, 9};
  request.decoding = SamplingOptions{.seed = 77, .num_sequences = 3};
  request.priority = -4;
  request.client = "me";
  request.cache_salt = "salt";
  request.deadline = Clock::time_point() + std::chrono::hours(5);
  const auto group = Complete(request);
  ASSERT_TRUE(group.ok()) << group.status();
  const Group& found = **group;
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.rows[0].tokens, (TokenIds{7, 8, 9}));
  EXPECT_TRUE(found.encoder_ids.empty());
  EXPECT_EQ(found.prompt_tokens, 3);
  EXPECT_EQ(found.seed, 77u);
  EXPECT_EQ(found.rank.priority, -4);
  EXPECT_EQ(found.client, "me");
  EXPECT_EQ(found.cache_salt, "salt");
  EXPECT_EQ(found.deadline, request.deadline);
  EXPECT_EQ(found.cost, 3 + 3 * 30);  // the prompt once, and what each sequence may come to
}

// Whoever advances the group knows nothing of it.
TEST(GenerateIntake, EchoesThePromptInTheDeltasAndInTheAnswer) {
  GenerateRequest request = Write("Package: vim", 3);
  request.decoding = SamplingOptions{.num_sequences = 2};
  request.output.echo = true;
  const auto group = Complete(request);
  ASSERT_TRUE(group.ok()) << group.status();
  const TokenIds prompt = (*group)->rows[0].tokens;
  GroupDecoder& decoder = *(*group)->decoder;
  const auto deltas = decoder.TakeDeltas();
  ASSERT_EQ(deltas.size(), 2u);
  for (int32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(deltas[i].sequence, i);
    EXPECT_EQ(deltas[i].ids, prompt);
    EXPECT_EQ(deltas[i].text, "Package: vim");
  }
  EXPECT_TRUE(decoder.TakeDeltas().empty());  // once
  decoder.Stop(FinishReason::kDeadline);
  const auto sequences = decoder.TakeSequences();
  ASSERT_EQ(sequences.size(), 2u);
  for (const GeneratedSequence& sequence : sequences) {
    EXPECT_EQ(sequence.ids, prompt);
    EXPECT_EQ(sequence.text, "Package: vim");
  }
}

// A translator's source goes to the encoder; its decoder begins with the start token.
TEST(GenerateIntake, GivesATranslatorItsTwoSides) {
  GenerateRequest request = Translate("", GreedyOptions());
  request.prompt = TokenIds{5, 6, 0};
  request.target_prefix = TokenIds{11, 12};
  const auto group = Complete(request);
  ASSERT_TRUE(group.ok()) << group.status();
  const int32_t start = Loaded("translate-en-de").description.generation.decoder_start_token_id;
  EXPECT_EQ((*group)->encoder_ids, (TokenIds{5, 6, 0}));
  EXPECT_EQ((*group)->rows[0].tokens, (TokenIds{start, 11, 12}));
  EXPECT_EQ((*group)->prompt_tokens, 3);
}

TEST(GenerateIntake, RefusesWhatTheModelCannot) {
  const auto message = [](const GenerateRequest& request) {
    return std::string(Complete(request).status().message());
  };
  GenerateRequest request = Write("a", 1);
  request.target_prefix = "b";
  EXPECT_THAT(message(request), HasSubstr("target_prefix is set; accepted for encoder-decoder"));
  request = Translate("a", GreedyOptions());
  request.output.echo = true;
  EXPECT_THAT(message(request), HasSubstr("output.echo is true; accepted for decoder-only"));
  request.output.echo = false;
  request.output.prompt_logprobs = 0;
  EXPECT_THAT(message(request), HasSubstr("output.prompt_logprobs is set; accepted for decoder-"));
  request = Write("a", 1);
  request.model = "embed-en";
  EXPECT_THAT(message(request), HasSubstr("model is 'embed-en', which only encodes"));
  request = Write("a", 1);
  request.priority = 101;
  EXPECT_THAT(message(request), HasSubstr("priority is 101; accepted: -100 to 100"));
  request = Write("a", 1000);
  EXPECT_THAT(message(request), HasSubstr("limits.max_new_tokens is 1000; accepted: 1 to "));
}

struct Refusal {
  std::string field;  // as the engine's structs and its clients' contract have it
  std::function<void(GenerateRequest&)> change;
};

// Where the message begins with another word than the field's, it is the field's nevertheless.
TEST(GenerateIntake, ErrorsKnowTheirFields) {
  const std::vector<Refusal> rows = {
      {"request_id", [](auto& r) { r.request_id = std::string(257, 'x'); }},
      {"cache_salt", [](auto& r) { r.cache_salt = std::string(257, 'x'); }},
      {"prompt.ids[1]",
       [](auto& r) {
         r.prompt = TokenIds{1, -1};
       }},
      {"decoding.sampling.num_sequences",
       [](auto& r) { r.decoding = SamplingOptions{.num_sequences = 9}; }},
      {"decoding.beam.width", [](auto& r) { r.decoding = BeamOptions{.width = 9}; }},
      {"shaping.bad_words[1][0]",
       [](auto& r) {
         r.shaping.bad_words = {"a", TokenIds{-5}};
       }},
      {"shaping.bad_words[1].text",
       [](auto& r) {
         r.shaping.bad_words = {TokenIds{5}, ""};
       }},
      {"shaping.logit_bias[7]",
       [](auto& r) {
         r.shaping.logit_bias = {{2, 0.0f}, {7, 101.0f}};
       }},
      {"output.echo", [](auto& r) { r.output.echo = true; }},
      {"shaping.suppress_tokens",  // of the token that the model's defaults force
       [](auto& r) { r.shaping.suppress_tokens = {0}; }},
  };
  ModelOptions options = Demo("translate-en-de");
  options.device = "cpu";
  options.max_sequences = 8;
  const auto model = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
  ASSERT_TRUE(model.ok()) << model.status();
  for (const Refusal& row : rows) {
    GenerateRequest request = Translate("a", GreedyOptions());
    row.change(request);
    const absl::Status status = GenerateIntake::Check(std::move(request), **model).status();
    const auto fault = GetFieldFault(status);
    ASSERT_TRUE(fault.has_value()) << row.field << ": " << status;
    EXPECT_EQ(fault->field, row.field) << status;
    EXPECT_EQ(FieldMessage(*fault), std::string(status.message()));
  }
}

}  // namespace
}  // namespace beamline::generate_intake_test
