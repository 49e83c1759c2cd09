// Requests of every kind of decoding, short enough that many fit into a test.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/engine/demo_engine.h"

namespace beamline {

// Both generating demo models; greedy, samples, beams, log-probabilities, shaping and stops. The
// same list at every call; every request names its seed.
inline std::vector<GenerateRequest> RequestsOfEveryKind() {
  const auto write = [](const std::string& name, Decoding decoding, int32_t max_new_tokens) {
    GenerateRequest request = Write("Package: " + name + "\nSynopsis:", max_new_tokens);
    request.decoding = std::move(decoding);
    return request;
  };
  const auto translate = [](const std::string& text, Decoding decoding, int32_t max_new_tokens) {
    GenerateRequest request = Translate(text, std::move(decoding));
    request.limits.max_new_tokens = max_new_tokens;
    return request;
  };
  std::vector<GenerateRequest> requests = {
      write("editor", GreedyOptions(), 40),
      write("libgreedy1", GreedyOptions(), 12),
      write("dice", SamplingOptions{.temperature = 1.0f, .top_p = 0.95f, .seed = 42}, 30),
      write("cards", SamplingOptions{.top_k = 40, .seed = 7, .num_sequences = 4}, 20),
      write("coins", SamplingOptions{.min_p = 0.02f, .typical_p = 0.9f, .seed = 1}, 25),
      write("pair", BeamOptions{.width = 2}, 24),
      write("five", BeamOptions{.width = 5, .num_sequences = 5}, 16),
      write("wide", BeamOptions{.width = 16, .num_sequences = 2}, 10),
      translate("The file could not be opened.", GreedyOptions(), 40),
      translate("A graphical tool that shows which packages are installed and why.",
                BeamOptions{.width = 4}, 40),
      translate("Press any key to continue.", BeamOptions{.width = 8, .num_sequences = 3}, 24),
      translate("This package contains the documentation.",
                SamplingOptions{.temperature = 0.8f, .seed = 99, .num_sequences = 2}, 30),
  };
  requests[1].output = {.logprobs = 3, .return_logprobs = true};
  requests[1].limits.ignore_eos = true;
  requests[3].output.return_logprobs = true;
  requests[4].shaping.repetition_penalty = 1.2f;
  requests[5].shaping.no_repeat_ngram_size = 3;
  requests[6].output.return_logprobs = true;
  requests[0].limits.stop = {"\n\n"};
  requests[9].limits.min_new_tokens = 8;
  return requests;
}

// Everything that an answer says: ids, texts and ends exactly, scores and log-probabilities within
// what float32 sums in another order differ by.
inline void ExpectSameAnswer(const GenerateResult& actual, const GenerateResult& expected) {
  constexpr double kTolerance = 1e-3;
  ASSERT_EQ(actual.sequences.size(), expected.sequences.size());
  EXPECT_EQ(actual.seed, expected.seed);
  for (size_t i = 0; i < actual.sequences.size(); ++i) {
    SCOPED_TRACE(i);
    const GeneratedSequence& one = actual.sequences[i];
    const GeneratedSequence& other = expected.sequences[i];
    ASSERT_EQ(one.ids, other.ids);
    EXPECT_EQ(one.text, other.text);
    EXPECT_EQ(one.finish_reason, other.finish_reason);
    EXPECT_NEAR(one.score, other.score, kTolerance);
    EXPECT_NEAR(one.cumulative_logprob, other.cumulative_logprob, kTolerance);
    ASSERT_EQ(one.logprobs.size(), other.logprobs.size());
    for (size_t p = 0; p < one.logprobs.size(); ++p) {
      EXPECT_EQ(one.logprobs[p].chosen.id, other.logprobs[p].chosen.id);
      EXPECT_NEAR(one.logprobs[p].chosen.logprob, other.logprobs[p].chosen.logprob, kTolerance);
      ASSERT_EQ(one.logprobs[p].top.size(), other.logprobs[p].top.size());
      for (size_t t = 0; t < one.logprobs[p].top.size(); ++t) {
        EXPECT_NEAR(one.logprobs[p].top[t].logprob, other.logprobs[p].top[t].logprob, kTolerance);
      }
    }
  }
}

}  // namespace beamline
