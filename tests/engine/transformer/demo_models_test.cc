// The demo models against what transformers answers (tests/golden): each row alone, in ragged
// batches, in chunks and token by token.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/engine/transformer/model_runner.h"
#include "tests/golden/golden_rows.h"

namespace beamline::demo_models_test {
namespace {

constexpr float kEmbeddingTolerance = 1e-4f;
constexpr float kLogprobTolerance = 1e-3f;
constexpr int32_t kPadding = 7999;  // of translate-en-de, which it must not generate
constexpr int32_t kWhole = 1 << 20;

std::unique_ptr<ModelRunner> OpenDemo(const std::string& name) {
  auto runner = ModelRunner::Open(std::string(BEAMLINE_SOURCE_DIR) + "/models/" + name);
  EXPECT_TRUE(runner.ok()) << runner.status();
  return runner.ok() ? *std::move(runner) : nullptr;
}

void ExpectNear(std::span<const float> found, const nlohmann::json& expected, float tolerance) {
  ASSERT_GE(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i].get<float>(), tolerance) << "column " << i;
  }
}

void ExpectSameValues(std::span<const float> found, std::span<const float> expected,
                      float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance) << "value " << i;
  }
}

// How a group of sequences is computed.
struct Schedule {
  const char* name;
  size_t batch_size;
  int32_t chunk;
};

constexpr Schedule kSchedules[] = {
    {"alone", 1, kWhole}, {"batched", 8, kWhole}, {"chunked", 7, 5}, {"token by token", 32, 1}};

// Runs every sequence to its end; encoder-decoder models encode each batch first.
void RunAll(ModelRunner& runner, const Schedule& schedule, std::vector<RunnerSequence>& sequences) {
  for (size_t begin = 0; begin < sequences.size(); begin += schedule.batch_size) {
    const std::span<RunnerSequence> batch = std::span(sequences).subspan(
        begin, std::min(schedule.batch_size, sequences.size() - begin));
    if (runner.description().spec.encoder.has_value()) runner.EncodeMemory(batch);
    while (runner.Step(batch, schedule.chunk)) {
    }
  }
}

double LogSumExp(std::span<const float> logits) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - best);
  return best + std::log(sum);
}

TEST(EmbedDemoTest, EmbeddingsAreTheReferences) {
  const auto runner = OpenDemo("embed-en");
  ASSERT_NE(runner, nullptr);
  const auto rows = GoldenRows("embed.jsonl");
  ASSERT_FALSE(rows.empty());
  std::vector<TokenIds> inputs;
  for (const auto& row : rows) inputs.push_back(row["input_ids"].get<TokenIds>());
  const Matrix together = runner->Embed(inputs);
  for (size_t i = 0; i < rows.size(); ++i) {
    SCOPED_TRACE(rows[i]["text"]);
    ExpectNear(together.row(i), rows[i]["embedding"], kEmbeddingTolerance);
    const Matrix alone = runner->Embed({&inputs[i], 1});
    ExpectSameValues(together.row(i), alone.values, runner->BatchTolerance(1e-5f));
  }
}

TEST(TranslateDemoTest, EncoderIsTheReferences) {
  const auto runner = OpenDemo("translate-en-de");
  ASSERT_NE(runner, nullptr);
  const auto rows = GoldenRows("translate.jsonl");
  std::vector<RunnerSequence> sequences(rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    sequences[i].source = rows[i]["input_ids"].get<TokenIds>();
  const Matrix hidden = runner->EncodeMemory(sequences);
  int64_t begin = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    SCOPED_TRACE(rows[i]["text"]);
    const int64_t end = begin + static_cast<int64_t>(sequences[i].source.size());
    const nlohmann::json& expected = rows[i]["encoder"];
    ExpectNear(hidden.row(begin), expected["first_token"], 1e-4f);
    ExpectNear(hidden.row(end - 1), expected["last_token"], 1e-4f);
    double sum = 0;
    for (int64_t row = begin; row < end; ++row) {
      for (const float value : hidden.row(row)) sum += value;
    }
    EXPECT_NEAR(sum / ((end - begin) * hidden.width), expected["mean"].get<double>(), 1e-5);
    begin = end;
  }
}

// Forced through the reference's ids, the best token of every position is the next one.
TEST(TranslateDemoTest, GreedyIdsAreTheReferences) {
  const auto rows = GoldenRows("translate.jsonl");
  for (const Schedule& schedule : kSchedules) {
    SCOPED_TRACE(schedule.name);
    const auto runner = OpenDemo("translate-en-de");
    ASSERT_NE(runner, nullptr);
    const GenerationDefaults& generation = runner->description().generation;
    ASSERT_EQ(generation.bad_words_ids, std::vector<TokenIds>({{kPadding}}));
    std::vector<RunnerSequence> sequences(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      sequences[i].source = rows[i]["input_ids"].get<TokenIds>();
      sequences[i].tokens = rows[i]["greedy_ids"].get<TokenIds>();
      sequences[i].tokens.insert(sequences[i].tokens.begin(), generation.decoder_start_token_id);
      sequences[i].tokens.pop_back();
    }
    RunAll(*runner, schedule, sequences);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto expected = rows[i]["greedy_ids"].get<TokenIds>();
      ASSERT_EQ(sequences[i].logits.num_rows(), static_cast<int64_t>(expected.size()));
      for (size_t position = 0; position < expected.size(); ++position) {
        std::vector<float> logits(sequences[i].logits.row(position).begin(),
                                  sequences[i].logits.row(position).end());
        logits[kPadding] = -INFINITY;
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        ASSERT_EQ(best, expected[position]) << "row " << i << ", position " << position;
      }
    }
  }
}

TEST(WriteDemoTest, LogprobsAreTheReferences) {
  const auto rows = GoldenRows("write.jsonl");
  std::vector<RunnerSequence> first;
  for (const Schedule& schedule : kSchedules) {
    SCOPED_TRACE(schedule.name);
    const auto runner = OpenDemo("write-en");
    ASSERT_NE(runner, nullptr);
    std::vector<RunnerSequence> sequences(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto greedy = rows[i]["greedy_ids"].get<TokenIds>();
      sequences[i].tokens = rows[i]["input_ids"].get<TokenIds>();
      sequences[i].tokens.insert(sequences[i].tokens.end(), greedy.begin(), greedy.end() - 1);
    }
    RunAll(*runner, schedule, sequences);
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto greedy = rows[i]["greedy_ids"].get<TokenIds>();
      const size_t prompt = rows[i]["input_ids"].size();
      for (size_t step = 0; step < greedy.size(); ++step) {
        const auto logits = sequences[i].logits.row(prompt - 1 + step);
        const double normalizer = LogSumExp(logits);
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        ASSERT_EQ(best, greedy[step]) << "row " << i << ", step " << step;
        ASSERT_NEAR(logits[best] - normalizer, rows[i]["greedy_logprobs"][step].get<double>(),
                    kLogprobTolerance);
        if (step > 0) continue;
        for (const auto& top : rows[i]["first_top5"]) {
          ASSERT_NEAR(logits[top["id"].get<int32_t>()] - normalizer, top["logprob"].get<double>(),
                      kLogprobTolerance);
        }
      }
    }
    // The way of computing changes nothing.
    if (first.empty()) first = sequences;
    for (size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectSameValues(first[i].logits.values, sequences[i].logits.values,
                       runner->BatchTolerance(kLogprobTolerance));
    }
  }
}

}  // namespace
}  // namespace beamline::demo_models_test
