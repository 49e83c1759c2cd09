#include "engine/decoding/logits_shaper.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "tests/engine/decoding/random_options.h"
#include "tests/engine/decoding/toy_loop.h"

namespace beamline::logits_shaper_test {
namespace {

constexpr float kBan = -std::numeric_limits<float>::infinity();

// All processors over the whole history, each as transformers describes it.
std::vector<float> ShapeDirectly(const ResolvedDecoding& options, const TokenIds& prompt,
                                 const TokenIds& output, std::vector<float> scores) {
  TokenIds history = prompt;
  history.insert(history.end(), output.begin(), output.end());
  for (const int32_t id : std::set<int32_t>(history.begin(), history.end())) {
    const float factor = options.repetition_penalty;
    scores[id] = scores[id] < 0 ? scores[id] * factor : scores[id] / factor;
  }
  std::map<int32_t, int> counts;
  for (const int32_t id : output) ++counts[id];
  for (const auto& [id, count] : counts) {
    scores[id] -= options.presence_penalty + options.frequency_penalty * static_cast<float>(count);
  }
  const auto ends_with = [&](std::span<const int32_t> suffix) {
    return suffix.size() <= history.size() &&
           std::equal(suffix.rbegin(), suffix.rend(), history.rbegin());
  };
  const auto n = static_cast<size_t>(options.no_repeat_ngram_size);
  for (size_t begin = 0; n > 0 && begin + n <= history.size(); ++begin) {
    const std::span<const int32_t> ngram = std::span(history).subspan(begin, n);
    if (ends_with(ngram.first(n - 1))) scores[ngram[n - 1]] = kBan;
  }
  for (const TokenIds& word : options.bad_words) {
    if (word.size() == 1 && word[0] == options.all_eos_token_ids[0]) continue;
    if (ends_with(std::span(word).first(word.size() - 1))) scores[word.back()] = kBan;
  }
  const auto num_new = static_cast<int32_t>(output.size());
  if (num_new < options.min_new_tokens) {
    scores[options.all_eos_token_ids[0]] = kBan;
    if (options.min_holds_stops) {
      for (const int32_t id : options.stop_token_ids) scores[id] = kBan;
    }
  }
  for (const int32_t id : options.suppress_tokens) scores[id] = kBan;
  for (const auto& [id, bias] : options.logit_bias) scores[id] += bias;
  int32_t forced = history.size() == 1 ? options.forced_bos : -1;
  if (num_new == options.max_new_tokens - 1 && options.forced_eos >= 0) forced = options.forced_eos;
  if (forced >= 0) {
    std::ranges::fill(scores, kBan);
    scores[forced] = 0.0f;
  }
  return scores;
}

TEST(LogitsShaper, AgreesWithEveryProcessorRecomputedFromTheHistory) {
  Random random(TestSeed());
  for (int round = 0; round < 1000; ++round) {
    ResolvedDecoding options = RandomDecoding(random);
    if (round % 3 == 0) {  // nothing but the length matters
      options.repetition_penalty = 1.0f;
      options.presence_penalty = options.frequency_penalty = 0.0f;
      options.no_repeat_ngram_size = 0;
      std::erase_if(options.bad_words, [](const TokenIds& word) { return word.size() > 1; });
    }
    const TokenIds prompt = random.Ids(random.Int(1, 12), options.vocab_size);
    const ShapingRules rules(options);
    LogitsShaper shaper(rules, prompt);
    TokenIds output;
    for (int32_t step = 0; step < options.max_new_tokens; ++step) {
      std::vector<float> scores(options.vocab_size);
      for (float& score : scores) score = random.Float(-5.0f, 5.0f);
      const std::vector<float> expected = ShapeDirectly(options, prompt, output, scores);
      if (shaper.edits() != nullptr) ApplyEdits(*shaper.edits(), scores);
      for (int32_t id = 0; id < options.vocab_size; ++id) {
        if (std::isinf(expected[id])) {
          ASSERT_EQ(scores[id], expected[id]);
        } else {
          ASSERT_NEAR(scores[id], expected[id], 1e-5);
        }
      }
      // A fork does not touch the state it was copied from.
      LogitsShaper fork = shaper;
      fork.Append(random.Int(0, options.vocab_size - 1));
      output.push_back(random.Int(0, options.vocab_size - 1));
      shaper.Append(output.back());
    }
  }
}

TEST(LogitsShaper, WithoutOptionsThereAreNoEdits) {
  ResolvedDecoding options;
  options.max_new_tokens = 10;
  const ShapingRules rules(options);
  LogitsShaper shaper(rules, TokenIds{1, 2, 3});
  EXPECT_EQ(shaper.edits(), nullptr);
  shaper.Append(2);
  EXPECT_EQ(shaper.edits(), nullptr);
}

TEST(ShapingRules, AreSharedByRequestsThatAskForTheSame) {
  ResolvedDecoding options;
  options.max_new_tokens = 10;
  options.bad_words = {{7}};
  const auto rules = ShapingRules::For(options);
  EXPECT_EQ(ShapingRules::For(options), rules);
  std::vector<ResolvedDecoding> others(11, options);
  others[0].repetition_penalty = 1.5f;
  others[1].presence_penalty = 0.5f;
  others[2].frequency_penalty = 0.5f;
  others[3].no_repeat_ngram_size = 2;
  others[4].all_eos_token_ids = {2};
  others[5].min_new_tokens = 1;
  others[6].max_new_tokens = 11;
  others[7].forced_bos = 3;
  others[8].forced_eos = 3;
  others[9].logit_bias = {{4, 1.0f}};
  others[10].suppress_tokens = {5};
  others.push_back(options);
  others.back().bad_words = {{8}};
  ResolvedDecoding held = others[5];
  held.min_holds_stops = true;
  held.stop_token_ids = {6};
  others.push_back(held);
  EXPECT_NE(ShapingRules::For(others[5]), ShapingRules::For(held));
  for (const ResolvedDecoding& other : others) {
    EXPECT_NE(ShapingRules::For(other), ShapingRules::For(options));
  }
  EXPECT_EQ(ShapingRules::For(options)->constant_biases.front().id, 7);
}

TEST(UneditedLogit, UndoesTheEdits) {
  Random random(TestSeed());
  for (int round = 0; round < 1000; ++round) {
    LogitsEdits edits{.repetition_penalty = random.Float(0.5f, 2.0f),
                      .presence_penalty = random.Float(-2.0f, 2.0f),
                      .frequency_penalty = random.Float(-2.0f, 2.0f),
                      .penalties = {},
                      .biases = {{random.Int(0, 3), random.Float(-9.0f, 9.0f)},
                                 {random.Int(0, 3), random.Float(-9.0f, 9.0f)}},
                      .forced_id = -1};
    edits.penalties.push_back({0, 1, random.Int(0, 2)});
    edits.penalties.push_back({2, 3, random.Int(0, 3)});
    std::vector<float> logits;
    for (int id = 0; id < 4; ++id) logits.push_back(random.Float(-5.0f, 5.0f));
    std::vector<float> scores = logits;
    ApplyEdits(edits, scores);
    for (int32_t id = 0; id < 4; ++id) {
      EXPECT_NEAR(UneditedLogit(&edits, id, scores[id]), logits[id], 1e-4);
    }
  }
}

}  // namespace
}  // namespace beamline::logits_shaper_test
