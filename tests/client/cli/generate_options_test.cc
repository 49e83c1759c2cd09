#include "client/cli/generate_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/request_limits.h"
#include "fmt/format.h"
#include "google/protobuf/util/message_differencer.h"

namespace beamline::cli::generate_options_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The request that a command line of options makes for the text "t".
absl::StatusOr<v1::GenerateRequest> Parse(std::vector<std::string> arguments,
                                          const std::string& text = "t") {
  CLI::App app;
  GenerateOptions options;
  AddGenerateOptions(app, options);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  app.parse(arguments);
  return MakeRequest(options, text);
}

// A limit in the words of a help text; nothing where there is none.
std::string Words(const std::optional<NumberRange>& range, bool is_whole) {
  if (!range.has_value()) return "";
  if (range->max == NumberRange::kNoEnd) return fmt::format(">= {}", range->min);
  if (is_whole) return fmt::format("{} to {}", range->min, range->max);
  return fmt::format("{}{}, {}]", range->excludes_min ? "(" : "[", range->min, range->max);
}
std::string Words(const std::optional<SizeRange>& range) {
  if (!range.has_value()) return "";
  return range->min == 0 ? fmt::format("at most {}", range->max)
                         : fmt::format("{} to {}", range->min, range->max);
}

// The client knows the contract alone, whose limits are those of the engine's table: an option of
// each.
TEST(GenerateOptions, HelpStatesTheLimitsThatThereAre) {
  const std::map<std::string_view, const char*> options_by_field = {
      {"priority", "--priority"},
      {"request_id", "--request-id"},
      {"cache_salt", "--cache-salt"},
      {"decoding.sampling.temperature", "--temperature"},
      {"decoding.sampling.top_k", "--top-k"},
      {"decoding.sampling.top_p", "--top-p"},
      {"decoding.sampling.min_p", "--min-p"},
      {"decoding.sampling.typical_p", "--typical-p"},
      {"decoding.sampling.num_sequences", "--n"},
      {"decoding.beam.width", "--beam"},
      {"decoding.beam.length_penalty", "--length-penalty"},
      {"decoding.beam.diversity_penalty", "--diversity-penalty"},
      {"limits.max_new_tokens", "--max-new-tokens"},
      {"limits.min_new_tokens", "--min-new-tokens"},
      {"limits.stop", "--stop"},
      {"limits.stop_token_ids", "--stop-token-id"},
      {"shaping.repetition_penalty", "--repetition-penalty"},
      {"shaping.presence_penalty", "--presence-penalty"},
      {"shaping.frequency_penalty", "--frequency-penalty"},
      {"shaping.no_repeat_ngram_size", "--no-repeat-ngram-size"},
      {"shaping.logit_bias", "--logit-bias"},
      {"shaping.bad_words", "--bad-word"},
      {"shaping.suppress_tokens", "--suppress-token"},
      {"output.logprobs", "--logprobs"},
      {"output.prompt_logprobs", "--prompt-logprobs"},
      {"prompt.chat.messages", "--chat"},
  };
  const std::set<std::string_view> whole = {"priority", "decoding.sampling.num_sequences",
                                            "decoding.beam.width", "output.logprobs",
                                            "output.prompt_logprobs"};
  CLI::App app;
  GenerateOptions options;
  AddGenerateOptions(app, options);
  size_t num_options = 0;
  for (const RequestLimit& limit : kRequestLimits) {
    static const std::set<std::string_view> of_other_commands = {
        "inputs", "continuations", "documents", "top", "top_k", "targets", "ignore_labels.labels"};
    if (of_other_commands.contains(limit.field)) continue;
    ASSERT_TRUE(options_by_field.contains(limit.field)) << limit.field;
    const char* const option = options_by_field.at(limit.field);
    const std::string help = app.get_option(option)->get_description();
    EXPECT_THAT(help, HasSubstr(Words(limit.value, whole.contains(limit.field)))) << option;
    EXPECT_THAT(help, HasSubstr(Words(limit.size))) << option;
    EXPECT_THAT(help, HasSubstr(Words(limit.entry_size))) << option;
    ++num_options;
  }
  EXPECT_EQ(num_options, options_by_field.size());
}

TEST(GenerateOptions, NothingGivenAsksForTheDefaults) {
  const auto request = Parse({});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->prompt().text(), "t");
  EXPECT_EQ(request->decoding_case(), v1::GenerateRequest::DECODING_NOT_SET);
  EXPECT_FALSE(request->limits().has_max_new_tokens());
  EXPECT_FALSE(request->output().has_logprobs());
  EXPECT_FALSE(request->output().has_prompt_logprobs());
}

v1::GenerateRequest FullRequest() {
  v1::GenerateRequest expected;
  expected.set_model("m");
  expected.mutable_prompt()->set_text("t");
  expected.mutable_target_prefix()->set_text("Das");
  expected.mutable_beam()->set_width(3);
  expected.mutable_beam()->set_num_sequences(2);
  expected.mutable_beam()->set_length_penalty(0.5f);
  expected.mutable_beam()->set_early_stopping(v1::EARLY_STOPPING_EXHAUSTIVE);
  v1::Limits& limits = *expected.mutable_limits();
  limits.set_max_new_tokens(7);
  limits.set_min_new_tokens(2);
  limits.add_stop("a");
  limits.add_stop("b");
  limits.add_stop_token_ids(4);
  limits.set_ignore_eos(true);
  limits.set_include_stop(true);
  v1::Shaping& shaping = *expected.mutable_shaping();
  shaping.set_repetition_penalty(1.5f);
  shaping.set_presence_penalty(0.25f);
  shaping.set_frequency_penalty(-0.5f);
  shaping.set_no_repeat_ngram_size(3);
  shaping.add_bad_words()->set_text("no");
  shaping.add_suppress_tokens(9);
  (*shaping.mutable_logit_bias())[5] = -2.5f;
  expected.mutable_output()->set_logprobs(0);
  expected.mutable_output()->set_prompt_logprobs(2);
  expected.mutable_output()->set_echo(true);
  expected.mutable_output()->set_skip_special_tokens(false);
  expected.set_priority(-3);
  expected.set_request_id("r");
  expected.set_cache_salt("s");
  expected.set_source_language("de");
  expected.set_target_language("en");
  return expected;
}

TEST(GenerateOptions, EveryOptionHasItsField) {
  std::istringstream line(
      "--model m --target-prefix Das --beam 3 --n 2 --length-penalty 0.5 "
      "--early-stopping exhaustive --max-new-tokens 7 --min-new-tokens 2 --stop a --stop b "
      "--stop-token-id 4 --ignore-eos --include-stop --repetition-penalty 1.5 "
      "--presence-penalty 0.25 --frequency-penalty -0.5 --no-repeat-ngram-size 3 --bad-word no "
      "--suppress-token 9 --logit-bias 5=-2.5 --logprobs 0 --prompt-logprobs 2 --echo "
      "--special-tokens --priority -3 --request-id r --cache-salt s "
      "--source-language de --target-language en");
  const auto request = Parse({std::istream_iterator<std::string>(line), {}});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*request, FullRequest()))
      << request->DebugString();
}

TEST(GenerateOptions, SamplingOptionsImplySampling) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--sample"},
                                                    {"--temperature", "0.5"},
                                                    {"--top-k", "0"},
                                                    {"--top-p", "0.9"},
                                                    {"--min-p", "0"},
                                                    {"--typical-p", "1"},
                                                    {"--seed", "0"}}) {
    EXPECT_TRUE(Parse(arguments)->has_sampling()) << arguments[0];
  }
  EXPECT_TRUE(Parse({"--greedy"})->has_greedy());
  EXPECT_EQ(Parse({"--sample", "--n", "3"})->sampling().num_sequences(), 3);
}

TEST(GenerateOptions, ContradictionsAreRefused) {
  EXPECT_THROW(Parse({"--greedy", "--beam", "2"}).status().IgnoreError(), CLI::ParseError);
  EXPECT_THROW(Parse({"--beam", "2", "--top-k", "3"}).status().IgnoreError(), CLI::ParseError);
  EXPECT_THROW(Parse({"--length-penalty", "1"}).status().IgnoreError(), CLI::ParseError);
  EXPECT_THROW(Parse({"--max-new-tokens", "x"}).status().IgnoreError(), CLI::ParseError);
  EXPECT_THAT(std::string(Parse({"--n", "2"}).status().message()), HasSubstr("--sample or --beam"));
  EXPECT_THAT(std::string(Parse({"--logit-bias", "5"}).status().message()), HasSubstr("ID=X"));
  EXPECT_FALSE(Parse({"--logit-bias", "5=1x"}).ok());
}

TEST(GenerateOptions, ValuesOutOfRangeAreNamed) {
  EXPECT_THROW(Parse({"--seed", "-1"}).status().IgnoreError(), CLI::ParseError);
  EXPECT_THROW(Parse({"--temperature", "nan"}).status().IgnoreError(), CLI::ParseError);
  EXPECT_EQ(Parse({"--stop-token-id", "x"}).status().message(),
            "--stop-token-id is 'x'; accepted: 0 to 2147483647");
  EXPECT_EQ(Parse({"--suppress-token", "-1"}).status().message(),
            "--suppress-token is '-1'; accepted: 0 to 2147483647");
  for (const char* bias : {"", "=", "5=", "=1", "5=nan", "99999999999=1", "5=1=2"}) {
    EXPECT_FALSE(Parse({"--logit-bias", bias}).ok()) << bias;
  }
  EXPECT_EQ(Parse({}, "\xC3(").status().message(), "the text is not valid UTF-8");
}

TEST(GenerateOptions, Ids) {
  const auto request = Parse({"--ids"}, "12, 34\t56");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->prompt().ids().ids(), ElementsAre(12, 34, 56));
  EXPECT_FALSE(Parse({"--ids"}, "12 a").ok());
  EXPECT_FALSE(ParseIds("99999999999").ok());
  EXPECT_TRUE(ParseIds("")->empty());
}

}  // namespace
}  // namespace beamline::cli::generate_options_test
