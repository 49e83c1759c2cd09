#include "engine/decoding/resolved_decoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/engine/decoding/toy_tokenizer.h"

namespace beamline::resolved_decoding_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr DecodingLimits kLimits{.vocab_size = 10, .max_total_tokens = 100};

const ToyTokenizer& Letters() {
  static const ToyTokenizer tokenizer({"</s>", "a", "b", "c", " ", " a", "ab", "\u00e9", "x", "y"},
                                      {0});
  return tokenizer;
}

GenerationDefaults Defaults() {
  GenerationDefaults defaults;
  defaults.eos_token_ids = {0};
  return defaults;
}

absl::StatusOr<ResolvedDecoding> Resolve(const GenerateRequest& request,
                                         const GenerationDefaults& defaults = Defaults()) {
  return ResolveDecoding(request, defaults, Letters(), kLimits);
}

struct BadRequest {
  std::string message;
  std::function<void(GenerateRequest&)> edit;
};

void SetSampling(GenerateRequest& request, SamplingOptions options) { request.decoding = options; }
void SetBeam(GenerateRequest& request, BeamOptions options) { request.decoding = options; }

// Each request is INVALID_ARGUMENT with exactly this message.
void ExpectMessages(const std::vector<BadRequest>& cases) {
  for (const BadRequest& bad : cases) {
    GenerateRequest request;
    bad.edit(request);
    const auto resolved = Resolve(request);
    ASSERT_FALSE(resolved.ok()) << bad.message;
    EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(resolved.status().message()), bad.message);
  }
}

TEST(ResolveDecoding, ChecksTheDecodingOptions) {
  ExpectMessages({
      {"decoding.sampling.temperature is 3.5; accepted: 0 to 2",
       [](auto& r) { SetSampling(r, {.temperature = 3.5f}); }},
      {"decoding.sampling.temperature is -1; accepted: 0 to 2",
       [](auto& r) { SetSampling(r, {.temperature = -1.0f}); }},
      {"decoding.sampling.num_sequences is 2; accepted: 1 with temperature 0, of which all answers "
       "would be the same",
       [](auto& r) { SetSampling(r, {.temperature = 0.0f, .num_sequences = 2}); }},
      {"decoding.sampling.top_p is 2; accepted: above 0, at most 1",
       [](auto& r) { SetSampling(r, {.temperature = 0.0f, .top_p = 2.0f}); }},
      {"decoding.sampling.temperature is nan; accepted: 0 to 2",
       [](auto& r) { SetSampling(r, {.temperature = kNan}); }},
      {"decoding.sampling.top_k is -1; accepted: 0 to 2147483647",
       [](auto& r) { SetSampling(r, {.top_k = -1}); }},
      {"decoding.sampling.top_p is 0; accepted: above 0, at most 1",
       [](auto& r) { SetSampling(r, {.top_p = 0.0f}); }},
      {"decoding.sampling.min_p is 1.5; accepted: 0 to 1",
       [](auto& r) { SetSampling(r, {.min_p = 1.5f}); }},
      {"decoding.sampling.typical_p is inf; accepted: above 0, at most 1",
       [](auto& r) { SetSampling(r, {.typical_p = kInf}); }},
      {"decoding.sampling.num_sequences is 65; accepted: 1 to 64",
       [](auto& r) { SetSampling(r, {.num_sequences = 65}); }},
      {"decoding.beam.width is 0; accepted: 1 to 64", [](auto& r) { SetBeam(r, {.width = 0}); }},
      {"decoding.beam.num_sequences is 5; accepted: 1 to 4",
       [](auto& r) { SetBeam(r, {.width = 4, .num_sequences = 5}); }},
      {"decoding.beam.num_groups is 0; accepted: 1 to 6",
       [](auto& r) { SetBeam(r, {.width = 6, .num_groups = 0}); }},
      {"decoding.beam.num_groups is 7; accepted: 1 to 6",
       [](auto& r) { SetBeam(r, {.width = 6, .num_groups = 7}); }},
      {"decoding.beam.num_groups is 4; accepted: a divisor of the width 6",
       [](auto& r) { SetBeam(r, {.width = 6, .num_groups = 4}); }},
      {"decoding.beam.diversity_penalty is -0.5; accepted: at least 0, finite",
       [](auto& r) { SetBeam(r, {.diversity_penalty = -0.5f}); }},
      {"decoding.beam.diversity_penalty is nan; accepted: at least 0, finite",
       [](auto& r) { SetBeam(r, {.diversity_penalty = kNan}); }},
      {"decoding.beam.diversity_penalty is inf; accepted: at least 0, finite",
       [](auto& r) { SetBeam(r, {.diversity_penalty = kInf}); }},
      {"decoding.beam.length_penalty is -inf; accepted: -10 to 10",
       [](auto& r) { SetBeam(r, {.length_penalty = -kInf}); }},
  });
}

TEST(ResolveDecoding, ChecksTheLimits) {
  ExpectMessages({
      {"limits.max_new_tokens is 0; accepted: 1 to 100",
       [](auto& r) { r.limits.max_new_tokens = 0; }},
      {"limits.max_new_tokens is 101; accepted: 1 to 100",
       [](auto& r) { r.limits.max_new_tokens = 101; }},
      {"limits.min_new_tokens is 6; accepted: 0 to 5",
       [](auto& r) { r.limits.max_new_tokens = 5, r.limits.min_new_tokens = 6; }},
      {"limits.min_new_tokens is -1; accepted: 0 to 100",
       [](auto& r) { r.limits.min_new_tokens = -1; }},
      {"limits.stop has 17 entries; accepted: at most 16",
       [](auto& r) { r.limits.stop.assign(17, "a"); }},
      {"limits.stop[1] is 0 bytes long; accepted: 1 to 256",
       [](auto& r) {
         r.limits.stop = {"a", ""};
       }},
      {"limits.stop[0] is 257 bytes long; accepted: 1 to 256",
       [](auto& r) { r.limits.stop = {std::string(257, 'a')}; }},
      {"limits.stop_token_ids[1] is 10; accepted: 0 to 9",
       [](auto& r) {
         r.limits.stop_token_ids = {9, 10};
       }},
      {"limits.stop_token_ids has 257 entries; accepted: at most 256",
       [](auto& r) { r.limits.stop_token_ids.assign(257, 1); }},
  });
}

TEST(ResolveDecoding, ChecksTheShaping) {
  ExpectMessages({
      {"shaping.repetition_penalty is 0; accepted: above 0, at most 10",
       [](auto& r) { r.shaping.repetition_penalty = 0.0f; }},
      {"shaping.presence_penalty is nan; accepted: -2 to 2",
       [](auto& r) { r.shaping.presence_penalty = kNan; }},
      {"shaping.frequency_penalty is -2.5; accepted: -2 to 2",
       [](auto& r) { r.shaping.frequency_penalty = -2.5f; }},
      {"shaping.no_repeat_ngram_size is -3; accepted: 0 to 2147483647",
       [](auto& r) { r.shaping.no_repeat_ngram_size = -3; }},
      {"shaping.logit_bias has the id -1; accepted: 0 to 9",
       [](auto& r) {
         r.shaping.logit_bias = {{-1, 0.0f}};
       }},
      {"shaping.logit_bias[2] is 101; accepted: -100 to 100",
       [](auto& r) {
         r.shaping.logit_bias = {{1, 0.0f}, {2, 101.0f}};
       }},
      {"shaping.logit_bias has 1025 entries; accepted: at most 1024",
       [](auto& r) {
         r.shaping.logit_bias.assign(1025, {1, 0.0f});
       }},
      {"shaping.bad_words[0] is empty; accepted: 1 to 32 tokens",
       [](auto& r) { r.shaping.bad_words = {TokenIds()}; }},
      {"shaping.bad_words[0][1] is 77; accepted: 0 to 9",
       [](auto& r) {
         r.shaping.bad_words = {TokenIds{1, 77}};
       }},
      {"shaping.bad_words[0] has 33 entries; accepted: at most 32",
       [](auto& r) { r.shaping.bad_words = {TokenIds(33, 1)}; }},
      {"shaping.bad_words has 1025 entries; accepted: at most 1024",
       [](auto& r) { r.shaping.bad_words.assign(1025, TokenIds{1}); }},
      {"shaping.bad_words[1].text is 0 tokens long; accepted: 1 to 32",
       [](auto& r) {
         r.shaping.bad_words = {TokenIds{1}, ""};
       }},
      {"shaping.bad_words[2].text: no piece at byte 1",
       [](auto& r) {
         r.shaping.bad_words = {"a", TokenIds{1}, "a?"};
       }},
      {"shaping.suppress_tokens[0] is 10; accepted: 0 to 9",
       [](auto& r) { r.shaping.suppress_tokens = {10}; }},
      {"shaping.forced_eos is -1; accepted: 0 to 9", [](auto& r) { r.shaping.forced_eos = -1; }},
      {"shaping.forced_eos is 3; accepted: ids that suppress_tokens, the request's and the "
       "model's, leave",
       [](auto& r) {
         r.shaping.forced_eos = 3;
         r.shaping.suppress_tokens = {2, 3};
       }},
  });
}

TEST(ResolveDecoding, ChecksTheRest) {
  ExpectMessages({
      {"output.logprobs is 21; accepted: 0 to 20", [](auto& r) { r.output.logprobs = 21; }},
      {"priority is 101; accepted: -100 to 100", [](auto& r) { r.priority = 101; }},
  });
}

TEST(ResolveDecoding, TakesTheModelsDefaultsAndTheRequestOverThem) {
  GenerationDefaults defaults = Defaults();
  defaults.num_beams = 6;
  defaults.length_penalty = 0.6f;
  defaults.early_stopping = EarlyStopping::kEager;
  defaults.repetition_penalty = 1.3f;
  defaults.no_repeat_ngram_size = 3;
  defaults.bad_words_ids = {{9}};
  defaults.suppress_tokens = {8};
  defaults.forced_bos_token_id = 3;
  defaults.forced_eos_token_id = 0;
  const auto beam = Resolve({}, defaults);
  ASSERT_TRUE(beam.ok()) << beam.status();
  EXPECT_EQ(beam->kind, DecodingKind::kBeam);
  EXPECT_EQ(beam->beam_width, 6);
  EXPECT_EQ(beam->num_sequences, 1);
  EXPECT_EQ(beam->length_penalty, 0.6f);
  EXPECT_EQ(beam->early_stopping, EarlyStopping::kEager);
  EXPECT_EQ(beam->repetition_penalty, 1.3f);
  EXPECT_EQ(beam->no_repeat_ngram_size, 3);
  EXPECT_EQ(beam->forced_bos, 3);
  EXPECT_EQ(beam->forced_eos, 0);

  GenerateRequest request;
  request.decoding = GreedyOptions{};
  request.shaping.repetition_penalty = 1.0f;
  request.shaping.no_repeat_ngram_size = 0;
  request.shaping.bad_words = {TokenIds{1, 2}};
  request.shaping.suppress_tokens = {7};
  request.shaping.forced_eos = 5;
  request.limits.ignore_eos = true;
  const auto greedy = Resolve(request, defaults);
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  EXPECT_EQ(greedy->kind, DecodingKind::kGreedy);
  EXPECT_EQ(greedy->repetition_penalty, 1.0f);
  EXPECT_EQ(greedy->no_repeat_ngram_size, 0);
  EXPECT_THAT(greedy->bad_words, ElementsAre(TokenIds{9}, TokenIds{1, 2}));
  EXPECT_THAT(greedy->suppress_tokens, ElementsAre(8, 7));
  EXPECT_EQ(greedy->forced_eos, 5);
  EXPECT_TRUE(greedy->eos_token_ids.empty());
  EXPECT_THAT(greedy->all_eos_token_ids, ElementsAre(0));
}

TEST(ResolveDecoding, SamplingDefaultsComeFromTheModelToo) {
  GenerationDefaults defaults = Defaults();
  defaults.do_sample = true;
  defaults.temperature = 0.7f;
  defaults.top_k = 40;
  const auto sampling = Resolve({}, defaults);
  ASSERT_TRUE(sampling.ok());
  EXPECT_EQ(sampling->kind, DecodingKind::kSampling);
  EXPECT_EQ(sampling->temperature, 0.7f);
  EXPECT_EQ(sampling->top_k, 40);
  EXPECT_EQ(sampling->top_p, 1.0f);
  EXPECT_NE(Resolve({}, defaults)->seed, sampling->seed);

  defaults.temperature = 0.0f;
  const auto broken = Resolve({}, defaults);
  EXPECT_EQ(std::string(broken.status().message()),
            "generation_config.json: temperature is 0; accepted: above 0, at most 2");
}

TEST(ResolveDecoding, TemperatureZeroIsGreedy) {
  GenerationDefaults defaults = Defaults();
  defaults.num_return_sequences = 3;
  GenerateRequest request;
  request.decoding = SamplingOptions{.temperature = 0.0f, .top_k = 5, .seed = 7};
  const auto decoding = Resolve(request, defaults);
  ASSERT_TRUE(decoding.ok()) << decoding.status();
  EXPECT_EQ(decoding->kind, DecodingKind::kGreedy);
  EXPECT_EQ(decoding->num_sequences, 1);
}

TEST(ResolveDecoding, BeamGroupsPadWithTheModelsTokenOrItsFirstEndToken) {
  GenerateRequest request;
  request.decoding = BeamOptions{.width = 6, .num_groups = 3, .diversity_penalty = 0.5f};
  GenerationDefaults defaults = Defaults();
  defaults.eos_token_ids = {4, 0};
  const auto grouped = Resolve(request, defaults);
  ASSERT_TRUE(grouped.ok()) << grouped.status();
  EXPECT_EQ(grouped->num_beam_groups, 3);
  EXPECT_EQ(grouped->diversity_penalty, 0.5f);
  EXPECT_EQ(grouped->pad_token_id, 4);
  defaults.pad_token_id = 9;
  EXPECT_EQ(Resolve(request, defaults)->pad_token_id, 9);
  defaults = GenerationDefaults();
  EXPECT_EQ(Resolve(request, defaults)->pad_token_id, -1);
}

TEST(ResolveDecoding, OneBeamIsGreedy) {
  GenerateRequest request;
  request.decoding = BeamOptions{.width = 1};
  EXPECT_EQ(Resolve(request)->kind, DecodingKind::kGreedy);
}

TEST(ResolveDecoding, BadWordTextsAreBannedWithAndWithoutALeadingSpace) {
  GenerateRequest request;
  request.shaping.bad_words = {"a", " a", "xy"};
  EXPECT_THAT(Resolve(request)->bad_words,
              ElementsAre(TokenIds{1}, TokenIds{5}, TokenIds{8, 9}, TokenIds{4, 8, 9}));
}

TEST(FitLength, SettlesTheNumberOfNewTokens) {
  GenerateRequest request;
  GenerationDefaults defaults = Defaults();
  ResolvedDecoding decoding;
  const auto fit = [&](int32_t prompt_tokens) {
    const absl::Status status = FitLength(request, defaults, kLimits, prompt_tokens, decoding);
    return status.ok() ? std::to_string(decoding.max_new_tokens) : std::string(status.message());
  };
  EXPECT_EQ(fit(30), "70");
  EXPECT_THAT(fit(100), HasSubstr("prompt has 100 tokens; accepted: at most 99"));
  defaults.max_length = 50;
  EXPECT_EQ(fit(30), "20");
  EXPECT_EQ(fit(50),
            "prompt has 50 tokens and the model's max_length is 50: set limits.max_new_tokens; "
            "accepted: 1 to 50");
  defaults.max_new_tokens = 90;
  EXPECT_EQ(fit(1), "90");
  EXPECT_EQ(fit(30), "70");
  request.limits.max_new_tokens = 70;
  EXPECT_EQ(fit(30), "70");
  EXPECT_EQ(fit(31),
            "limits.max_new_tokens is 70; accepted: 1 to 69 after a prompt of 31 tokens "
            "(100 positions)");
  request.limits.max_new_tokens.reset();
  request.limits.min_new_tokens = 80;
  EXPECT_EQ(fit(30), "limits.min_new_tokens is 80; accepted: 0 to 70");
}

TEST(FitLength, SettlesTheLeastNumberOfNewTokens) {
  GenerateRequest request;
  GenerationDefaults defaults = Defaults();
  ResolvedDecoding decoding;
  const auto least = [&](int32_t prompt_tokens) {
    EXPECT_TRUE(FitLength(request, defaults, kLimits, prompt_tokens, decoding).ok());
    return decoding.min_new_tokens;
  };
  EXPECT_EQ(least(30), 0);
  defaults.min_length = 50;
  EXPECT_EQ(least(30), 20);
  EXPECT_EQ(least(60), 0);
  defaults.max_new_tokens = 12;
  EXPECT_EQ(least(30), 12);
  defaults.min_new_tokens = 7;
  EXPECT_EQ(least(30), 7);
  EXPECT_FALSE(decoding.min_holds_stops);
  request.limits.min_new_tokens = 0;
  EXPECT_EQ(least(30), 0);
  request.limits.min_new_tokens = 3;
  EXPECT_EQ(least(30), 3);
  EXPECT_TRUE(decoding.min_holds_stops);
}

TEST(ResolveDecoding, TakesTheModelsAnswersAndStops) {
  GenerationDefaults defaults = Defaults();
  defaults.num_beams = 4;
  defaults.num_return_sequences = 3;
  defaults.stop_strings = {"ab"};
  defaults.renormalize_logits = true;
  GenerateRequest request;
  EXPECT_EQ(Resolve(request, defaults)->num_sequences, 3);
  EXPECT_THAT(Resolve(request, defaults)->stop, ElementsAre("ab"));
  EXPECT_TRUE(Resolve(request, defaults)->renormalize);
  request.limits.stop = {"c"};
  request.decoding = BeamOptions{.width = 4, .num_sequences = 1};
  EXPECT_EQ(Resolve(request, defaults)->num_sequences, 1);
  EXPECT_THAT(Resolve(request, defaults)->stop, ElementsAre("c"));
  request.decoding = GreedyOptions();
  EXPECT_EQ(Resolve(request, defaults)->num_sequences, 1);
  request.decoding = SamplingOptions();
  EXPECT_EQ(Resolve(request, defaults)->num_sequences, 3);
  request.decoding = BeamOptions{.width = 2};
  EXPECT_EQ(Resolve(request, defaults)->num_sequences, 2);
  request.decoding = BeamOptions{.width = 4, .num_groups = 2};
  EXPECT_EQ(Resolve(request, defaults).status().message(),
            "decoding.beam.num_groups is 2; accepted: 1, for generation_config.json: "
            "renormalize_logits is true");
}

}  // namespace
}  // namespace beamline::resolved_decoding_test
