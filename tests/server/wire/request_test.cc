#include "server/wire/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/field_error.h"

namespace beamline::request_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

v1::GenerateRequest MinimalRequest() {
  v1::GenerateRequest message;
  message.mutable_prompt()->set_text("hello");
  return message;
}

TEST(GenerateConversion, LeavesDefaultsToTheEngine) {
  const auto request = ToEngineRequest(MinimalRequest());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(std::get<std::string>(request->prompt), "hello");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(request->decoding));
  EXPECT_FALSE(request->target_prefix.has_value());
  EXPECT_FALSE(request->limits.max_new_tokens.has_value());
  EXPECT_FALSE(request->shaping.repetition_penalty.has_value());
  EXPECT_FALSE(request->output.return_logprobs);
  EXPECT_TRUE(request->output.return_token_ids);
  EXPECT_TRUE(request->output.skip_special_tokens);
  EXPECT_FALSE(request->deadline.has_value());
}

TEST(GenerateConversion, TakesEveryField) {
  v1::GenerateRequest message;
  message.set_model("m");
  message.mutable_prompt()->mutable_ids()->add_ids(7);
  message.mutable_target_prefix()->set_text("Das");
  message.set_source_language("en");
  message.set_target_language("de");
  message.mutable_limits()->set_max_new_tokens(0);  // 0 is a value: the engine refuses it
  message.mutable_limits()->set_min_new_tokens(3);
  message.mutable_limits()->add_stop("\n\n");
  message.mutable_limits()->add_stop_token_ids(5);
  message.mutable_limits()->set_ignore_eos(true);
  message.mutable_limits()->set_include_stop(true);
  v1::Shaping& shaping = *message.mutable_shaping();
  shaping.set_repetition_penalty(1.5f);
  shaping.set_presence_penalty(0.25f);
  shaping.set_frequency_penalty(-0.5f);
  shaping.set_no_repeat_ngram_size(4);
  (*shaping.mutable_logit_bias())[9] = -100.0f;
  (*shaping.mutable_logit_bias())[2] = 1.0f;
  shaping.add_bad_words()->set_text("no");
  shaping.add_bad_words()->mutable_ids()->add_ids(11);
  shaping.add_suppress_tokens(12);
  shaping.set_forced_eos(0);
  message.set_cache_salt("tenant");
  message.mutable_output()->set_prompt_logprobs(0);
  message.mutable_output()->set_logprobs(0);
  message.mutable_output()->set_return_token_ids(false);
  message.mutable_output()->set_skip_special_tokens(false);
  message.mutable_output()->set_echo(true);
  message.set_priority(-4);
  message.set_request_id("r-1");

  const auto request = ToEngineRequest(message);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->model, "m");
  EXPECT_THAT(std::get<TokenIds>(request->prompt), ElementsAre(7));
  EXPECT_EQ(std::get<std::string>(*request->target_prefix), "Das");
  EXPECT_EQ(request->source_language, "en");
  EXPECT_EQ(request->target_language, "de");
  EXPECT_EQ(request->limits.max_new_tokens, 0);
  EXPECT_EQ(request->limits.min_new_tokens, 3);
  EXPECT_THAT(request->limits.stop, ElementsAre("\n\n"));
  EXPECT_THAT(request->limits.stop_token_ids, ElementsAre(5));
  EXPECT_TRUE(request->limits.ignore_eos);
  EXPECT_TRUE(request->limits.include_stop);
  EXPECT_EQ(request->shaping.repetition_penalty, 1.5f);
  EXPECT_EQ(request->shaping.presence_penalty, 0.25f);
  EXPECT_EQ(request->shaping.frequency_penalty, -0.5f);
  EXPECT_EQ(request->shaping.no_repeat_ngram_size, 4);
  EXPECT_THAT(request->shaping.logit_bias, ElementsAre(Pair(2, 1.0f), Pair(9, -100.0f)));
  EXPECT_THAT(request->shaping.bad_words, ElementsAre(Prompt("no"), Prompt(TokenIds{11})));
  EXPECT_THAT(request->shaping.suppress_tokens, ElementsAre(12));
  EXPECT_EQ(request->shaping.forced_eos, 0);
  EXPECT_TRUE(request->output.return_logprobs);
  EXPECT_EQ(request->output.logprobs, 0);
  EXPECT_FALSE(request->output.return_token_ids);
  EXPECT_FALSE(request->output.skip_special_tokens);
  EXPECT_TRUE(request->output.echo);
  EXPECT_EQ(request->priority, -4);
  EXPECT_EQ(request->request_id, "r-1");
  EXPECT_EQ(request->cache_salt, "tenant");
  EXPECT_EQ(request->output.prompt_logprobs, 0);
}

TEST(GenerateConversion, TakesSampling) {
  v1::GenerateRequest message = MinimalRequest();
  message.mutable_sampling()->set_temperature(0.5f);
  message.mutable_sampling()->set_top_k(0);
  message.mutable_sampling()->set_seed(0);
  message.mutable_sampling()->set_num_sequences(3);
  const auto request = ToEngineRequest(message);
  ASSERT_TRUE(request.ok()) << request.status();
  const auto& sampling = std::get<SamplingOptions>(request->decoding);
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.seed, 0u);
  EXPECT_EQ(sampling.num_sequences, 3);
  EXPECT_FALSE(sampling.top_p.has_value());
  EXPECT_FALSE(sampling.min_p.has_value());
  EXPECT_FALSE(sampling.typical_p.has_value());
}

TEST(GenerateConversion, TakesBeam) {
  v1::GenerateRequest message = MinimalRequest();
  message.mutable_beam()->set_width(6);
  message.mutable_beam()->set_num_sequences(2);
  message.mutable_beam()->set_length_penalty(0.0f);
  message.mutable_beam()->set_early_stopping(v1::EARLY_STOPPING_EXHAUSTIVE);
  const auto request = ToEngineRequest(message);
  ASSERT_TRUE(request.ok()) << request.status();
  const auto& beam = std::get<BeamOptions>(request->decoding);
  EXPECT_EQ(beam.width, 6);
  EXPECT_EQ(beam.num_sequences, 2);
  EXPECT_EQ(beam.length_penalty, 0.0f);
  EXPECT_EQ(beam.early_stopping, EarlyStopping::kExhaustive);
  EXPECT_EQ(beam.num_groups, 1);
  EXPECT_EQ(beam.diversity_penalty, 0.0f);

  message.mutable_beam()->clear_early_stopping();
  EXPECT_FALSE(std::get<BeamOptions>(ToEngineRequest(message)->decoding).early_stopping);
}

TEST(GenerateConversion, TakesBeamGroups) {
  v1::GenerateRequest message = MinimalRequest();
  message.mutable_beam()->set_num_groups(0);  // 0 is a value: the engine refuses it
  message.mutable_beam()->set_diversity_penalty(0.5f);
  const auto request = ToEngineRequest(message);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(std::get<BeamOptions>(request->decoding).num_groups, 0);
  EXPECT_EQ(std::get<BeamOptions>(request->decoding).diversity_penalty, 0.5f);
}

struct BadGenerate {
  const char* field;
  absl::StatusCode code;
  std::function<void(v1::GenerateRequest&)> change;
};

TEST(GenerateConversion, RefusesByName) {
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  const std::vector<BadGenerate> rows = {
      {"prompt", kInvalid, [](auto& m) { m.clear_prompt(); }},
      {"prompt", kInvalid, [](auto& m) { m.mutable_prompt()->clear_kind(); }},
      {"target_prefix", kInvalid, [](auto& m) { m.mutable_target_prefix(); }},
      {"shaping.bad_words[0]", kInvalid, [](auto& m) { m.mutable_shaping()->add_bad_words(); }},
  };
  for (const BadGenerate& row : rows) {
    v1::GenerateRequest message = MinimalRequest();
    row.change(message);
    const auto request = ToEngineRequest(message);
    ASSERT_FALSE(request.ok()) << row.field;
    EXPECT_EQ(request.status().code(), row.code) << request.status();
    EXPECT_EQ(GetFieldFault(request.status())->field, row.field) << request.status();
  }
}

TEST(ScoreConversion, TakesEveryField) {
  v1::ScoreRequest message;
  message.set_model("m");
  message.mutable_prompt()->set_text("once");
  message.add_continuations()->set_text("upon");
  message.add_continuations()->mutable_ids()->add_ids(4);
  message.set_per_token(true);
  message.set_priority(-2);
  message.set_request_id("r");
  message.set_cache_salt("tenant");
  message.set_source_language("en");
  message.set_target_language("de");
  const auto request = ToEngineRequest(message);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->source_language, "en");
  EXPECT_EQ(request->target_language, "de");
  EXPECT_EQ(std::get<std::string>(request->prompt), "once");
  ASSERT_EQ(request->continuations.size(), 2u);
  EXPECT_EQ(std::get<std::string>(request->continuations[0]), "upon");
  EXPECT_THAT(std::get<TokenIds>(request->continuations[1]), ElementsAre(4));
  EXPECT_TRUE(request->per_token);
  EXPECT_EQ(request->priority, -2);
  EXPECT_EQ(request->request_id, "r");
  EXPECT_EQ(request->cache_salt, "tenant");
}

TEST(ScoreConversion, RefusesByName) {
  v1::ScoreRequest message;
  EXPECT_THAT(std::string(ToEngineRequest(message).status().message()), HasSubstr("prompt"));
  message.mutable_prompt()->set_text("once");
  message.add_continuations()->set_text("upon");
  message.add_continuations();
  EXPECT_THAT(std::string(ToEngineRequest(message).status().message()),
              HasSubstr("continuations[1]"));
  message.mutable_continuations()->RemoveLast();
  EXPECT_TRUE(ToEngineRequest(message).ok());
}

TEST(EncodeConversion, TakesEveryField) {
  v1::EncodeRequest message;
  message.set_model("e");
  message.add_inputs()->set_text("a");
  message.add_inputs()->mutable_ids()->add_ids(4);
  message.set_pooling(v1::POOLING_CLS);
  message.set_normalize(false);
  message.set_dimensions(8);
  message.set_truncate(v1::TRUNCATION_LEFT);
  message.set_prompt_name("query");
  message.set_priority(2);
  message.set_request_id("r");
  const auto request = ToEngineRequest(message);
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->inputs.size(), 2u);
  EXPECT_EQ(std::get<std::string>(request->inputs[0]), "a");
  EXPECT_THAT(std::get<TokenIds>(request->inputs[1]), ElementsAre(4));
  EXPECT_EQ(request->pooling, Pooling::kCls);
  EXPECT_FALSE(request->per_token);
  EXPECT_EQ(request->normalize, false);
  EXPECT_EQ(request->dimensions, 8);
  message.set_dimensions(0);  // 0 is a value: the engine refuses it
  EXPECT_EQ(ToEngineRequest(message)->dimensions, 0);
  EXPECT_EQ(request->truncate, EncodeTruncation::kLeft);
  EXPECT_EQ(request->prompt_name, "query");
  EXPECT_EQ(request->priority, 2);
}

TEST(EncodeConversion, EveryPoolingAndTruncationIsItsOwn) {
  const std::vector<std::pair<v1::Pooling, std::optional<Pooling>>> poolings = {
      {v1::POOLING_MODEL, std::nullopt},
      {v1::POOLING_MEAN, Pooling::kMean},
      {v1::POOLING_CLS, Pooling::kCls},
      {v1::POOLING_LAST, Pooling::kLast}};
  v1::EncodeRequest message;
  message.add_inputs()->set_text("a");
  for (const auto& [sent, expected] : poolings) {
    message.set_pooling(sent);
    const auto request = ToEngineRequest(message);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->pooling, expected) << sent;
    EXPECT_FALSE(request->per_token);
  }
  const std::vector<std::pair<v1::Truncation, EncodeTruncation>> truncations = {
      {v1::TRUNCATION_NONE, EncodeTruncation::kNone},
      {v1::TRUNCATION_RIGHT, EncodeTruncation::kRight},
      {v1::TRUNCATION_LEFT, EncodeTruncation::kLeft}};
  for (const auto& [sent, expected] : truncations) {
    message.set_truncate(sent);
    EXPECT_EQ(ToEngineRequest(message)->truncate, expected) << sent;
  }
  // What is not set stays the model's.
  EXPECT_FALSE(ToEngineRequest(message)->normalize.has_value());
  EXPECT_FALSE(ToEngineRequest(message)->dimensions.has_value());
  EXPECT_EQ(ToEngineRequest(message)->prompt_name, "");
}

TEST(EncodeConversion, NoPoolingIsPerToken) {
  v1::EncodeRequest message;
  message.add_inputs()->set_text("a");
  message.set_pooling(v1::POOLING_NONE);
  const auto request = ToEngineRequest(message);
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->per_token);
  EXPECT_FALSE(request->pooling.has_value());
}

TEST(EncodeConversion, RefusesByName) {
  v1::EncodeRequest message;
  message.add_inputs();
  EXPECT_THAT(std::string(ToEngineRequest(message).status().message()),
              HasSubstr("inputs[0] is not given"));
}

TEST(ContractPath, LeavesOutTheNameOfTheOneof) {
  EXPECT_EQ(ContractPath("decoding.sampling.top_p"), "sampling.top_p");
  EXPECT_EQ(ContractPath("shaping.bad_words[1].text"), "shaping.bad_words[1].text");
  EXPECT_EQ(ContractPath("decoding"), "decoding");
}

TEST(EngineDeadline, IsALittleEarlierThanTheCall) {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  const Clock::time_point now = Clock::time_point() + std::chrono::hours(70);
  EXPECT_FALSE(EngineDeadline(std::nullopt, now).has_value());
  const auto margin = [&](microseconds left) {
    const auto deadline = EngineDeadline(now + left, now);
    EXPECT_TRUE(deadline.has_value());
    return now + left - deadline.value_or(now);
  };
  // A tenth of what is left, at least 2 ms and at most 50.
  EXPECT_EQ(margin(milliseconds(10000)), milliseconds(50));
  EXPECT_EQ(margin(microseconds(500010)), milliseconds(50));
  EXPECT_EQ(margin(microseconds(499990)), microseconds(49999));
  EXPECT_EQ(margin(milliseconds(100)), milliseconds(10));
  EXPECT_EQ(margin(microseconds(20010)), microseconds(2001));
  EXPECT_EQ(margin(microseconds(19990)), milliseconds(2));
  EXPECT_EQ(margin(milliseconds(0)), milliseconds(2));
  EXPECT_EQ(margin(milliseconds(-1000)), milliseconds(2));
}

}  // namespace
}  // namespace beamline::request_test
