// Models that take inputs of thousands of tokens, these inputs, and what observes their steps.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <random>
#include <string>

#include "tests/engine/random_model.h"
#include "tests/sanitized.h"
#include "tests/test_seed.h"

namespace beamline {

inline constexpr int32_t kLongPositions = kSanitized ? 1600 : 4096;

// A checkpoint that takes as many tokens. `positions`: the keys of config.json that say so.
class LongModel : public LinkedModel {
 public:
  explicit LongModel(const std::string& classifier, const char* positions)
      : LinkedModel("tests/golden/classifiers/" + classifier) {
    Change("config.json", {{positions, kLongPositions}});
    Change("tokenizer_config.json", {{"model_max_length", kLongPositions}});
  }
};

class LongEmbedder : public RandomStack {
 public:
  LongEmbedder(const std::string& name, int32_t vocab_size)
      : RandomStack(name, vocab_size, /*with_template=*/true) {
    Change("config.json", {{"max_position_embeddings", kLongPositions}});
  }
};

class Ids {
 public:
  TokenIds Any(int32_t count) {
    TokenIds ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = std::uniform_int_distribution(4, 60)(random_);
    return ids;
  }
  std::string Text(int32_t letters) {
    std::string text;
    while (std::ssize(text) < letters) {
      text += static_cast<char>(std::uniform_int_distribution<int>('a', 'y')(random_));
      if (text.size() % 5 == 4) text += ' ';
    }
    return text;
  }

 private:
  std::mt19937 random_{static_cast<unsigned>(TestSeed())};
};

// Sums the steps, and calls what a test wants to do at their ends.
class StepObserver : public EngineObserver {
 public:
  void OnStep(const std::string&, const StepReport& report) override {
    largest_ = std::max(largest_.load(), report.num_tokens);
    tokens_ += report.num_tokens;
    ++steps_;
    if (on_step) on_step(report);
  }
  int32_t largest() const { return largest_; }
  int64_t tokens() const { return tokens_; }
  int steps() const { return steps_; }

  std::function<void(const StepReport&)> on_step;  // on the replica's thread

 private:
  std::atomic<int32_t> largest_ = 0;
  std::atomic<int64_t> tokens_ = 0;
  std::atomic<int> steps_ = 0;
};

inline ModelOptions OptionsOf(const LinkedModel& model, int32_t max_batch_tokens,
                              int32_t max_sequences = 16) {
  ModelOptions options = model.Options("model");
  options.max_batch_tokens = max_batch_tokens;
  options.max_sequences = max_sequences;
  return options;
}

}  // namespace beamline
