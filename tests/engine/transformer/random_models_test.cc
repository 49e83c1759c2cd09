// Randomly initialised checkpoints of odd sizes against what transformers answers
// (tests/golden/random; fields and tolerances: tests/golden/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/transformer/model_runner.h"
#include "tests/golden/golden_rows.h"

namespace beamline::random_models_test {
namespace {

// Sums in another order err as much as float32 itself did in the reference.
constexpr float kErrorFactor = 10.0f;
constexpr float kLeastTolerance = 2e-5f;

struct Model {
  const char* folder;
  int num_ranks = 1;
  int num_stages = 1;
};

class RandomModelTest : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    const std::string folder = std::string("random/") + GetParam().folder;
    auto runner = ModelRunner::Open(std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/" + folder,
                                    DType::kFloat32, GetParam().num_ranks, GetParam().num_stages);
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    rows_ = GoldenFile(folder + "/expected.json")["rows"];
    ASSERT_FALSE(rows_.empty());
  }

  static float Tolerance(const nlohmann::json& row) {
    return std::max(kLeastTolerance, kErrorFactor * row["float32_error"].get<float>());
  }

  // Rows `begin` + positions of `found` are `expected`'s rows.
  static void ExpectRows(const Matrix& found, int64_t begin, const nlohmann::json& positions,
                         const nlohmann::json& expected, float tolerance) {
    ASSERT_EQ(positions.size(), expected.size());
    for (size_t i = 0; i < positions.size(); ++i) {
      const auto row = found.row(begin + positions[i].get<int64_t>());
      ASSERT_EQ(row.size(), expected[i].size());
      for (size_t column = 0; column < row.size(); ++column) {
        ASSERT_NEAR(row[column], expected[i][column].get<float>(), tolerance)
            << "position " << positions[i] << ", column " << column;
      }
    }
  }

  std::unique_ptr<ModelRunner> runner_;
  nlohmann::json rows_;
};

class RandomEncoderTest : public RandomModelTest {};
class RandomDecoderTest : public RandomModelTest {};

TEST_P(RandomEncoderTest, HiddenStatesAreTheReferences) {
  std::vector<TokenIds> inputs, types;
  for (const auto& row : rows_) {
    inputs.push_back(row["input_ids"].get<TokenIds>());
    types.push_back(row["type_ids"].get<TokenIds>());
  }
  const Matrix plain = runner_->Encode(inputs);
  const Matrix typed = runner_->Encode(inputs, types);
  int64_t begin = 0;
  for (const auto& row : rows_) {
    ExpectRows(plain, begin, row["positions"], row["hidden"], Tolerance(row));
    ExpectRows(typed, begin, row["positions"], row["hidden_with_type_ids"], Tolerance(row));
    begin += static_cast<int64_t>(row["input_ids"].size());
  }
}

TEST_P(RandomEncoderTest, MeansAreTheReferences) {
  std::vector<TokenIds> inputs;
  for (const auto& row : rows_) inputs.push_back(row["input_ids"].get<TokenIds>());
  const Matrix means = runner_->Embed(inputs);
  ASSERT_EQ(means.num_rows(), static_cast<int64_t>(rows_.size()));
  for (size_t i = 0; i < rows_.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectRows(means, static_cast<int64_t>(i), nlohmann::json::array({0}),
               nlohmann::json::array({rows_[i]["mean"]}), Tolerance(rows_[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Bert, RandomEncoderTest,
                         ::testing::Values(Model{"bert-3x40"}, Model{"bert-5x8-deep"},
                                           Model{"bert-1x80-shards"}));
// Their inputs have the pad token inside, which takes up no position.
INSTANTIATE_TEST_SUITE_P(Roberta, RandomEncoderTest,
                         ::testing::Values(Model{"roberta-3x16"}, Model{"xlm-roberta-2x24"},
                                           Model{"electra-3x8"}, Model{"distilbert-5x6"}));
// Embeddings that are projected, and layers that share weights.
INSTANTIATE_TEST_SUITE_P(Albert, RandomEncoderTest,
                         ::testing::Values(Model{"electra-4x8-projected"}, Model{"albert-3x8"},
                                           Model{"albert-2x12-groups"}));
// Hidden states that are the embeddings.
INSTANTIATE_TEST_SUITE_P(
    Layerless, RandomEncoderTest,
    ::testing::Values(Model{"bert-3x8-layerless"}, Model{"roberta-2x10-layerless"},
                      Model{"electra-4x6-layerless"}, Model{"distilbert-2x9-layerless"},
                      Model{"bert-3x8-layerless", 3}, Model{"electra-4x6-layerless", 2}));
INSTANTIATE_TEST_SUITE_P(MpNet, RandomEncoderTest,
                         ::testing::Values(Model{"mpnet-3x8"}, Model{"mpnet-5x6-bare"}));
INSTANTIATE_TEST_SUITE_P(ModernBert, RandomEncoderTest,
                         ::testing::Values(Model{"modernbert-3x8"}, Model{"modernbert-4x6-biases"},
                                           Model{"nomic_bert-3x8"}));
// Scores by distance: of queries, of keys, and both; convolutions.
INSTANTIATE_TEST_SUITE_P(Deberta, RandomEncoderTest,
                         ::testing::Values(Model{"deberta-v2-3x8-buckets"},
                                           Model{"deberta-v2-5x6-conv"},
                                           Model{"deberta-v2-3x10-c2p"},
                                           Model{"deberta-v2-2x12-p2c"},
                                           Model{"deberta-v2-3x8-absolute"}, Model{"deberta-3x8"},
                                           Model{"deberta-5x6-near"}));
// Decoders whose hidden states are embeddings.
INSTANTIATE_TEST_SUITE_P(Decoders, RandomEncoderTest,
                         ::testing::Values(Model{"qwen3-6of2x6-embed"},
                                           Model{"mistral-4of2x8-embed"},
                                           Model{"qwen2-3of1x8-embed"},
                                           Model{"llama-4of1x6-embed"}));
INSTANTIATE_TEST_SUITE_P(
    Ranks, RandomEncoderTest,
    ::testing::Values(Model{"bert-3x40", 3}, Model{"bert-5x8-deep", 5},
                      Model{"xlm-roberta-2x24", 2}, Model{"bert-5x8-deep", 1, 3},
                      Model{"qwen3-6of2x6-embed", 2, 2}, Model{"electra-4x8-projected", 4},
                      Model{"albert-3x8", 1, 3}, Model{"albert-2x12-groups", 2, 4},
                      Model{"mpnet-3x8", 3, 2}, Model{"modernbert-3x8", 3, 2},
                      Model{"nomic_bert-3x8", 3, 2}, Model{"deberta-v2-3x8-buckets", 3, 3},
                      Model{"deberta-v2-5x6-conv", 1, 2}, Model{"deberta-v2-3x10-c2p", 3, 2},
                      Model{"deberta-3x8", 3, 2}, Model{"deberta-5x6-near", 5}));

// Forced decoder inputs and the greedy continuation, whole and in chunks.
TEST_P(RandomDecoderTest, LogitsAreTheReferences) {
  const bool has_encoder = runner_->description().spec.encoder.has_value();
  for (const int32_t chunk : {64, 3, 1}) {
    SCOPED_TRACE(chunk);
    std::vector<RunnerSequence> sequences(rows_.size());
    for (size_t i = 0; i < rows_.size(); ++i) {
      sequences[i].tokens =
          rows_[i][has_encoder ? "decoder_input_ids" : "input_ids"].get<TokenIds>();
      if (has_encoder) sequences[i].source = rows_[i]["input_ids"].get<TokenIds>();
    }
    if (has_encoder) {
      const Matrix memory = runner_->EncodeMemory(sequences);
      int64_t begin = 0;
      for (const auto& row : rows_) {
        ExpectRows(memory, begin, row["encoder_positions"], row["encoder_hidden"], Tolerance(row));
        begin += static_cast<int64_t>(row["input_ids"].size());
      }
    }
    while (runner_->Step(sequences, chunk)) {
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      SCOPED_TRACE(i);
      ExpectRows(sequences[i].logits, 0, rows_[i]["positions"], rows_[i]["logits"],
                 Tolerance(rows_[i]));
    }
  }
}

TEST_P(RandomDecoderTest, OnlyWantedRowsAreTheSame) {
  const bool has_encoder = runner_->description().spec.encoder.has_value();
  const char* field = has_encoder ? "decoder_input_ids" : "input_ids";
  std::vector<RunnerSequence> every(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    every[i].tokens = rows_[i][field].get<TokenIds>();
    if (has_encoder) every[i].source = rows_[i]["input_ids"].get<TokenIds>();
  }
  std::vector<RunnerSequence> last = every;
  if (has_encoder) {
    runner_->EncodeMemory(every);
    runner_->EncodeMemory(last);
  }
  while (runner_->Step(every, 5)) {
  }
  while (runner_->Step(last, 5, /*last_only=*/true)) {
    for (RunnerSequence& sequence : last) runner_->MoveBlocks(sequence);
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    for (int64_t chunk = 0; chunk < last[i].logits.num_rows(); ++chunk) {
      const int64_t position =
          std::min(5 * chunk + 4, static_cast<int64_t>(every[i].tokens.size()) - 1);
      const auto found = last[i].logits.row(chunk);
      const auto expected = every[i].logits.row(position);
      for (size_t column = 0; column < found.size(); ++column) {
        ASSERT_NEAR(found[column], expected[column], runner_->BatchTolerance(Tolerance(rows_[i])))
            << "sequence " << i << ", position " << position << ", column " << column;
      }
    }
  }
}

// Heads and tables that config.json says are tied, stored with values of their own.
INSTANTIATE_TEST_SUITE_P(OwnHeads, RandomDecoderTest,
                         ::testing::Values(Model{"llama-3x6-own-head"}, Model{"gpt2-3x6-own-head"},
                                           Model{"gpt2-3x6-own-head", 3},
                                           Model{"marian-2x9-own-head"},
                                           Model{"m2m_100-3x6-pads"}));
INSTANTIATE_TEST_SUITE_P(Gpt2, RandomDecoderTest,
                         ::testing::Values(Model{"gpt2-3x40"}, Model{"gpt2-5x8-deep"},
                                           Model{"gpt2-1x80-bare"}));
INSTANTIATE_TEST_SUITE_P(Marian, RandomDecoderTest,
                         ::testing::Values(Model{"marian-3x40"}, Model{"marian-5x8-deep"},
                                           Model{"marian-1x80-shards"}, Model{"marian-2x16-target"},
                                           Model{"marian-2x16-untied"}));
INSTANTIATE_TEST_SUITE_P(BartLike, RandomDecoderTest,
                         ::testing::Values(Model{"bart-3x24"}, Model{"bart-1x40-bare"},
                                           Model{"mbart-5x8"}, Model{"pegasus-3x12"},
                                           Model{"m2m_100-5x7"}, Model{"m2m_100-1x40-untied"}));
INSTANTIATE_TEST_SUITE_P(T5, RandomDecoderTest,
                         ::testing::Values(Model{"t5-3x40"}, Model{"t5-5x6-gated"},
                                           Model{"mt5-2x7"}));
INSTANTIATE_TEST_SUITE_P(LlamaLike, RandomDecoderTest,
                         ::testing::Values(Model{"llama-6of2x10-llama3"},
                                           Model{"llama-5of1x8-tied"}, Model{"llama-3x8-linear"},
                                           Model{"mistral-4of2x6-dynamic"},
                                           Model{"qwen2-2of1x12"}));
INSTANTIATE_TEST_SUITE_P(Windows, RandomDecoderTest,
                         ::testing::Values(Model{"mistral-4of2x8-window"},
                                           Model{"qwen2-6of2x4-window"}));
INSTANTIATE_TEST_SUITE_P(HeadNorms, RandomDecoderTest,
                         ::testing::Values(Model{"qwen3-6of3x10-yarn"}, Model{"qwen3-4x6-tied"}));
INSTANTIATE_TEST_SUITE_P(LikeLlama, RandomDecoderTest,
                         ::testing::Values(Model{"phi3-5of1x8-partial"},
                                           Model{"starcoder2-6of2x6-window"},
                                           Model{"starcoder2-4x10-plain"}, Model{"smollm3-6of2x6"},
                                           Model{"smollm3-3x10-listed"}, Model{"olmo2-6of2x8"},
                                           Model{"olmo2-3x10-biases"},
                                           Model{"olmo-4of2x10-clipped"}, Model{"olmo-3x8"}));
INSTANTIATE_TEST_SUITE_P(Parallel, RandomDecoderTest,
                         ::testing::Values(Model{"gpt_neox-3x16-parallel"},
                                           Model{"gpt_neox-2x12-sequential"}, Model{"gptj-3x16"},
                                           Model{"gptj-5x8-whole"}, Model{"falcon-5of1x8"},
                                           Model{"falcon-6of2x8-norms"},
                                           Model{"falcon-3x8-sequential"},
                                           Model{"falcon-5x8-alibi"}));
INSTANTIATE_TEST_SUITE_P(Gemma, RandomDecoderTest,
                         ::testing::Values(Model{"gemma-5of1x12"}, Model{"gemma3-4of2x10"},
                                           Model{"gemma3-3x8-older"}, Model{"gemma2-4of2x10"},
                                           Model{"gemma2-3x8-uncapped"}));
INSTANTIATE_TEST_SUITE_P(Experts, RandomDecoderTest,
                         ::testing::Values(Model{"mixtral-4of2x8"}, Model{"mixtral-3x6-window"},
                                           Model{"qwen3_moe-4of2x6"}, Model{"qwen3_moe-3x8-sparse"},
                                           Model{"mixtral-4of2x8", 2, 2},
                                           Model{"qwen3_moe-4of2x6", 2},
                                           Model{"qwen3_moe-4of2x6", 1, 3}, Model{"olmoe-4of2x8"},
                                           Model{"qwen2_moe-4of2x8"},
                                           Model{"qwen2_moe-4of2x8", 2, 2},
                                           Model{"olmoe-4of2x8", 1, 2}));
INSTANTIATE_TEST_SUITE_P(LikeGpt2, RandomDecoderTest,
                         ::testing::Values(Model{"opt-3x16"}, Model{"opt-5x8-post"},
                                           Model{"opt-3x8-projected"}, Model{"gpt_neo-3x16-local"},
                                           Model{"bloom-5x8"}, Model{"bloom-4x6-untied"}));
INSTANTIATE_TEST_SUITE_P(
    FamiliesOnRanks, RandomDecoderTest,
    ::testing::Values(Model{"starcoder2-6of2x6-window", 2, 2}, Model{"gpt_neox-3x16-parallel", 3},
                      Model{"gpt_neox-3x16-parallel", 1, 2}, Model{"gptj-3x16", 3, 2},
                      Model{"falcon-5of1x8", 1, 2}, Model{"falcon-6of2x8-norms", 2, 2},
                      Model{"gemma-5of1x12", 1, 2}, Model{"gemma3-4of2x10", 2},
                      Model{"gemma3-4of2x10", 1, 4}, Model{"gemma3-3x8-older", 3, 3},
                      Model{"gemma2-4of2x10", 2, 2}, Model{"opt-3x16", 3, 2},
                      Model{"opt-5x8-post", 5, 2}, Model{"gpt_neo-3x16-local", 3, 3},
                      Model{"bloom-5x8", 5, 2}, Model{"smollm3-6of2x6", 2, 3},
                      Model{"opt-3x8-projected", 3}, Model{"opt-3x8-projected", 3, 2},
                      Model{"falcon-5x8-alibi", 5, 2}, Model{"olmo2-6of2x8", 1, 2},
                      Model{"olmo-4of2x10-clipped", 2, 2}));
INSTANTIATE_TEST_SUITE_P(
    Ranks, RandomDecoderTest,
    ::testing::Values(Model{"gpt2-3x40", 3}, Model{"gpt2-5x8-deep", 5},
                      Model{"llama-6of2x10-llama3", 2, 2}, Model{"llama-5of1x8-tied", 1, 3},
                      Model{"qwen2-6of2x4-window", 2, 3}, Model{"qwen3-6of3x10-yarn", 3, 2},
                      Model{"marian-2x16-target", 2}, Model{"marian-2x16-untied", 2},
                      Model{"gpt2-5x8-deep", 1, 4}, Model{"marian-5x8-deep", 1, 5},
                      Model{"marian-2x16-target", 2, 2}, Model{"bart-3x24", 1, 2},
                      Model{"mbart-5x8", 5, 3}, Model{"m2m_100-5x7", 1, 3},
                      Model{"t5-5x6-gated", 5, 4}, Model{"mt5-2x7", 1, 2}));
// More ranks than key/value heads.
INSTANTIATE_TEST_SUITE_P(
    RepeatedHeads, RandomDecoderTest,
    ::testing::Values(Model{"llama-5of1x8-tied", 5}, Model{"falcon-5of1x8", 5, 2},
                      Model{"gemma2-3x8-uncapped", 3}, Model{"gemma3-4of2x10", 4},
                      Model{"qwen2-2of1x12", 2}, Model{"qwen2-6of2x4-window", 6},
                      Model{"mistral-4of2x6-dynamic", 4}, Model{"qwen3_moe-4of2x6", 4},
                      Model{"falcon-4of2x6-groups", 4}, Model{"falcon-4of2x6-groups", 2},
                      Model{"falcon-4of2x6-groups"}));
INSTANTIATE_TEST_SUITE_P(RepeatedHeads, RandomEncoderTest,
                         ::testing::Values(Model{"qwen2-3of1x8-embed", 3}));

}  // namespace
}  // namespace beamline::random_models_test
