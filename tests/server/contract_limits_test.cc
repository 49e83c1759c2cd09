// The limits that the comments of inference.proto state, against what conversion and engine accept:
// called at each limit and one beyond it. A field that states a limit and is not called fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>

#include "server/conversion/request.h"
#include "tests/engine/demo_engine.h"

namespace beamline {
namespace {

// "Sampling.top_p" and the like to their comments, joined to one line.
std::map<std::string, std::string> FieldComments() {
  std::map<std::string, std::string> comments;
  std::ifstream file(BEAMLINE_SOURCE_DIR "/proto/beamline/v1/inference.proto");
  const std::regex message(R"(message (\w+) \{\}?)");
  const std::regex field(R"( +(?:optional |repeated )?[\w.<>, ]+ (\w+) = \d+;)");
  const std::regex comment(R"( *// ?(.*))");
  std::string line, name, text;
  while (std::getline(file, line)) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      text += match[1].str() + " ";
      continue;
    }
    if (std::regex_match(line, match, message)) name = match[1];
    if (std::regex_match(line, match, field)) comments[name + "." + match[1].str()] = text;
    text.clear();
  }
  return comments;
}

struct Range {
  std::optional<double> low, high;
  bool low_is_open = false;
};

// What a comment states of values, of how many entries there may be, and of each entry's size.
struct Limits {
  std::optional<Range> value, count, size;
  bool any() const { return value || count || size; }
};

Limits ParseLimits(const std::string& comment) {
  Limits limits;
  std::smatch match;
  const auto number = [&](size_t group) { return std::stod(match[group].str()); };
  if (std::regex_search(comment, match, std::regex(R"(([\[(])(-?\d+), (-?\d+)\])"))) {
    limits.value = {number(2), number(3), match[1] == "("};
  } else if (std::regex_search(comment, match, std::regex(R"((-?\d+) \.\. (-?\d+))"))) {
    limits.value = {number(1), number(2)};
  } else if (std::regex_search(comment, match, std::regex(R"(>= (-?\d+))"))) {
    limits.value = {number(1), std::nullopt};
  }
  if (std::regex_search(comment, match, std::regex(R"(each of (\d+) to (\d+) (bytes|tokens))"))) {
    limits.size = {number(1), number(2)};
  }
  if (std::regex_search(comment, match, std::regex(R"(at most (\d+))"))) {
    limits.count = {std::nullopt, number(1)};
  }
  return limits;
}

template <typename Request>
absl::Status Call(const Request& message) {
  const auto request = ToEngineRequest(message);
  if (!request.ok()) return request.status();
  if constexpr (std::is_same_v<Request, v1::GenerateRequest>) {
    return SharedEngine().GenerateAndWait(*request).status();
  } else if constexpr (std::is_same_v<Request, v1::EncodeRequest>) {
    return SharedEngine().EncodeAndWait(*request).status();
  } else {
    return SharedEngine().ScoreAndWait(*request).status();
  }
}

using Edit = std::function<void(v1::GenerateRequest&, double)>;
using Try = std::function<absl::Status(double)>;

// A valid request but for what the edit does.
Try Generate(const Edit& edit) {
  return [edit](double value) {
    v1::GenerateRequest message;
    message.set_model("write-en");
    message.mutable_prompt()->set_text("Package: a");
    message.mutable_limits()->set_max_new_tokens(1);
    edit(message, value);
    return Call(message);
  };
}

struct Tries {
  Try value = nullptr, count = nullptr, size = nullptr;
};

std::map<std::string, Tries> SamplingTries() {
  return {
      {"Sampling.temperature",
       {Generate([](auto& m, double x) { m.mutable_sampling()->set_temperature(x); })}},
      {"Sampling.top_k", {Generate([](auto& m, double x) { m.mutable_sampling()->set_top_k(x); })}},
      {"Sampling.top_p", {Generate([](auto& m, double x) { m.mutable_sampling()->set_top_p(x); })}},
      {"Sampling.min_p", {Generate([](auto& m, double x) { m.mutable_sampling()->set_min_p(x); })}},
      {"Sampling.typical_p",
       {Generate([](auto& m, double x) { m.mutable_sampling()->set_typical_p(x); })}},
      {"Sampling.num_sequences",
       {Generate([](auto& m, double x) { m.mutable_sampling()->set_num_sequences(x); })}},
      {"Beam.width", {Generate([](auto& m, double x) { m.mutable_beam()->set_width(x); })}},
      {"Beam.length_penalty",
       {Generate([](auto& m, double x) { m.mutable_beam()->set_length_penalty(x); })}},
      {"Beam.diversity_penalty",
       {Generate([](auto& m, double x) { m.mutable_beam()->set_diversity_penalty(x); })}},
  };
}

std::map<std::string, Tries> LimitTries() {
  return {
      {"Limits.max_new_tokens",
       {Generate([](auto& m, double x) { m.mutable_limits()->set_max_new_tokens(x); })}},
      {"Limits.min_new_tokens",
       {Generate([](auto& m, double x) { m.mutable_limits()->set_min_new_tokens(x); })}},
      {"Limits.stop",
       {nullptr, Generate([](auto& m, double n) {
          for (int i = 0; i < n; ++i) m.mutable_limits()->add_stop("x");
        }),
        Generate([](auto& m, double n) { m.mutable_limits()->add_stop(std::string(n, 'x')); })}},
      {"Limits.stop_token_ids", {nullptr, Generate([](auto& m, double n) {
                                   for (int i = 0; i < n; ++i)
                                     m.mutable_limits()->add_stop_token_ids(i);
                                 })}},
      {"GenerateRequest.priority", {Generate([](auto& m, double x) { m.set_priority(x); })}},
      {"GenerateRequest.request_id",
       {nullptr, Generate([](auto& m, double n) { m.set_request_id(std::string(n, 'x')); })}},
      {"GenerateRequest.cache_salt",
       {nullptr, Generate([](auto& m, double n) { m.set_cache_salt(std::string(n, 'x')); })}},
      {"Output.logprobs",
       {Generate([](auto& m, double x) { m.mutable_output()->set_logprobs(x); })}},
      {"Output.prompt_logprobs",
       {Generate([](auto& m, double x) { m.mutable_output()->set_prompt_logprobs(x); })}},
  };
}

std::map<std::string, Tries> ShapingTries() {
  return {
      {"Shaping.repetition_penalty",
       {Generate([](auto& m, double x) { m.mutable_shaping()->set_repetition_penalty(x); })}},
      {"Shaping.presence_penalty",
       {Generate([](auto& m, double x) { m.mutable_shaping()->set_presence_penalty(x); })}},
      {"Shaping.frequency_penalty",
       {Generate([](auto& m, double x) { m.mutable_shaping()->set_frequency_penalty(x); })}},
      {"Shaping.no_repeat_ngram_size",
       {Generate([](auto& m, double x) { m.mutable_shaping()->set_no_repeat_ngram_size(x); })}},
      {"Shaping.logit_bias",
       {Generate([](auto& m, double x) { (*m.mutable_shaping()->mutable_logit_bias())[7] = x; }),
        Generate([](auto& m, double n) {
          for (int i = 0; i < n; ++i) (*m.mutable_shaping()->mutable_logit_bias())[i] = 1.0f;
        })}},
      {"Shaping.bad_words",
       {nullptr, Generate([](auto& m, double n) {
          for (int i = 0; i < n; ++i) {
            m.mutable_shaping()->add_bad_words()->mutable_ids()->add_ids(i);
          }
        }),
        Generate([](auto& m, double n) {
          v1::TokenIds& ids = *m.mutable_shaping()->add_bad_words()->mutable_ids();
          for (int i = 0; i < n; ++i) ids.add_ids(i);
        })}},
      {"Shaping.suppress_tokens", {nullptr, Generate([](auto& m, double n) {
                                     for (int i = 0; i < n; ++i)
                                       m.mutable_shaping()->add_suppress_tokens(i);
                                   })}},
  };
}

std::map<std::string, Tries> OtherTries() {
  return {
      {"EncodeRequest.inputs", {[](double n) {
         v1::EncodeRequest message;
         message.set_model("embed-en");
         for (int i = 0; i < n; ++i) message.add_inputs()->mutable_ids()->add_ids(2);
         return Call(message);
       }}},
      {"ScoreRequest.continuations", {[](double n) {
         v1::ScoreRequest message;
         message.set_model("write-en");
         message.mutable_prompt()->set_text("a");
         for (int i = 0; i < n; ++i) message.add_continuations()->mutable_ids()->add_ids(9);
         return Call(message);
       }}},
  };
}

// A number just outside; floats are taken where the limits are not all whole steps of a count.
void ExpectLimits(const std::string& what, const Range& range, const Try& attempt, double step) {
  ASSERT_NE(attempt, nullptr) << what;
  const auto expect = [&](double value, bool accepted) {
    const absl::Status status = attempt(value);
    EXPECT_EQ(status.ok(), accepted) << what << " " << value << ": " << status;
    if (accepted) return;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  };
  if (range.low.has_value()) {
    expect(range.low_is_open ? *range.low + step : *range.low, true);
    expect(range.low_is_open ? *range.low : *range.low - step, false);
  }
  if (range.high.has_value()) {
    expect(*range.high, true);
    expect(*range.high + step, false);
  }
}

TEST(ContractLimitsTest, AreThoseThatTheServerHas) {
  std::map<std::string, Tries> tries = SamplingTries();
  tries.merge(LimitTries());
  tries.merge(ShapingTries());
  tries.merge(OtherTries());
  // Fields of numbers with a fraction.
  const std::set<std::string> fractions = {
      "Sampling.temperature",       "Sampling.top_p",           "Sampling.min_p",
      "Sampling.typical_p",         "Beam.length_penalty",      "Beam.diversity_penalty",
      "Shaping.repetition_penalty", "Shaping.presence_penalty", "Shaping.frequency_penalty",
      "Shaping.logit_bias"};
  size_t num_fields = 0;
  for (const auto& [field, comment] : FieldComments()) {
    const Limits limits = ParseLimits(comment);
    if (!limits.any()) continue;
    ++num_fields;
    ASSERT_TRUE(tries.contains(field)) << field << " states a limit that nobody calls: " << comment;
    const Tries& of = tries.at(field);
    const double step = fractions.contains(field) ? 1.0 / 1024 : 1.0;
    if (limits.value) ExpectLimits(field, *limits.value, of.value, step);
    if (limits.count) ExpectLimits(field + " count", *limits.count, of.count, 1.0);
    if (limits.size) ExpectLimits(field + " size", *limits.size, of.size, 1.0);
  }
  EXPECT_EQ(num_fields, tries.size()) << "a comment has lost its limit";
}

}  // namespace
}  // namespace beamline
