// Greedy and beam answers of the randomly initialised decoders against what transformers answers
// (tests/golden/random; fields: tests/golden/README.md), through the whole engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/engine/random_model.h"
#include "tests/golden/golden_rows.h"

namespace beamline::random_decoders_test {
namespace {

using nlohmann::json;

struct Decoder {
  const char* name;
  int32_t source_size;  // 0: no encoder
  int32_t vocab_size;   // of the ids that it generates
  int32_t banned = -1;  // by its generation_config.json; -1: none
  int32_t num_ranks = 1;
  bool forces_first = false;  // by its generation_config.json: one token may begin
};

// A log-probability errs as its logit does, and as the sum that normalises it.
double Tolerance(const json& row) {
  return 2 * std::max(2e-5, 10 * row["float32_error"].get<double>());
}

EarlyStopping EarlyStoppingOf(const json& value) {
  if (value == "never") return EarlyStopping::kExhaustive;
  return value.get<bool>() ? EarlyStopping::kEager : EarlyStopping::kHeuristic;
}

class RandomDecodersTest : public ::testing::TestWithParam<Decoder> {
 protected:
  void SetUp() override {
    const Decoder& decoder = GetParam();
    if (decoder.source_size > 0) {
      model_ =
          std::make_unique<RandomTranslator>(decoder.name, decoder.source_size, decoder.vocab_size);
    } else {
      model_ = std::make_unique<RandomStack>(decoder.name, decoder.vocab_size,
                                             /*with_template=*/false);
    }
    ModelOptions options = model_->Options("model");
    auto engine = Serve({OnRanks(options, decoder.num_ranks)});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    rows_ = GoldenFile(std::string("random/") + decoder.name + "/expected.json")["rows"];
    ASSERT_EQ(rows_.size(), 5u);
  }

  static GenerateRequest Request(const json& row, Decoding decoding) {
    GenerateRequest request;
    request.model = "model";
    request.prompt = row["input_ids"].get<TokenIds>();
    request.limits.max_new_tokens = row["max_new_tokens"].get<int32_t>();
    request.decoding = std::move(decoding);
    return request;
  }

  std::unique_ptr<LinkedModel> model_;
  std::unique_ptr<Engine> engine_;
  json rows_;
};

TEST_P(RandomDecodersTest, GreedyAnswersAreTheReferences) {
  std::vector<GenerateRequest> requests;
  for (const json& row : rows_) {
    requests.push_back(Request(row, GreedyOptions()));
    requests.back().output.return_logprobs = true;
    requests.back().output.logprobs = 5;
  }
  const auto results = RunTogether(requests, *engine_);
  for (size_t i = 0; i < rows_.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    const GeneratedSequence& sequence = results[i]->sequences[0];
    const json& golden = rows_[i]["greedy"];
    const double tolerance = Tolerance(rows_[i]);
    ASSERT_EQ(sequence.ids, golden["ids"].get<TokenIds>());
    ASSERT_EQ(sequence.logprobs.size(), golden["logprobs"].size());
    for (size_t p = 0; p < sequence.logprobs.size(); ++p) {
      EXPECT_NEAR(sequence.logprobs[p].chosen.logprob, golden["logprobs"][p].get<double>(),
                  tolerance);
    }
    if (GetParam().forces_first) {
      EXPECT_EQ(sequence.logprobs[0].top.size(), 1u);
      continue;
    }
    // What may not be chosen is not among the likeliest ones here.
    ASSERT_EQ(sequence.logprobs[0].top.size(), 5u);
    auto found = sequence.logprobs[0].top.begin();
    for (const json& token : golden["first_top5"]) {
      if (token["id"] == GetParam().banned) continue;
      EXPECT_EQ(found->id, token["id"].get<int32_t>());
      EXPECT_NEAR(found->logprob, token["logprob"].get<double>(), tolerance);
      ++found;
    }
    EXPECT_GE(found - sequence.logprobs[0].top.begin(), 4);
  }
}

TEST_P(RandomDecodersTest, BeamsAreTheReferences) {
  std::vector<GenerateRequest> requests;
  for (const json& row : rows_) {
    ASSERT_EQ(row["beams"].size(), 3u);
    for (const json& beams : row["beams"]) {
      requests.push_back(
          Request(row, BeamOptions{.width = beams["num_beams"].get<int32_t>(),
                                   .num_sequences = beams["num_return"].get<int32_t>(),
                                   .length_penalty = beams["length_penalty"].get<float>(),
                                   .early_stopping = EarlyStoppingOf(beams["early_stopping"])}));
    }
  }
  const auto results = RunTogether(requests, *engine_);
  for (size_t i = 0; i < requests.size(); ++i) {
    const json& row = rows_[i / 3];
    const json& beams = row["beams"][i % 3];
    SCOPED_TRACE(testing::Message() << "row " << i / 3 << ", " << beams["num_beams"] << " beams");
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    ASSERT_EQ(results[i]->sequences.size(), beams["num_return"].get<size_t>());
    ASSERT_EQ(results[i]->sequences.size(), beams["hypotheses"].size());
    for (size_t h = 0; h < beams["hypotheses"].size(); ++h) {
      const json& hypothesis = beams["hypotheses"][h];
      EXPECT_EQ(results[i]->sequences[h].ids, hypothesis["ids"].get<TokenIds>());
      EXPECT_NEAR(results[i]->sequences[h].score, hypothesis["score"].get<double>(),
                  Tolerance(row));
    }
  }
}

std::string NameOf(const testing::TestParamInfo<Decoder>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return info.param.num_ranks > 1 ? name + "_on_" + std::to_string(info.param.num_ranks) : name;
}

INSTANTIATE_TEST_SUITE_P(Gpt2, RandomDecodersTest,
                         ::testing::Values(Decoder{"gpt2-3x40", 0, 131},
                                           Decoder{"gpt2-5x8-deep", 0, 97},
                                           Decoder{"gpt2-1x80-bare", 0, 203}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Marian, RandomDecodersTest,
                         ::testing::Values(Decoder{"marian-3x40", 131, 131, 130},
                                           Decoder{"marian-5x8-deep", 97, 83, 82},
                                           Decoder{"marian-1x80-shards", 77, 77, 76},
                                           Decoder{"marian-2x16-target", 61, 97, 60},
                                           Decoder{"marian-2x16-untied", 61, 61, 60}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(OwnHeads, RandomDecodersTest,
                         ::testing::Values(Decoder{"llama-3x6-own-head", 0, 53},
                                           Decoder{"gpt2-3x6-own-head", 0, 59},
                                           Decoder{"marian-2x9-own-head", 53, 53, 52}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(
    Quantized, RandomDecodersTest,
    ::testing::Values(
        Decoder{"gpt2-4x16-gptq", 0, 67}, Decoder{"llama-4of2x16-awq", 0, 67},
        Decoder{"llama-4of2x16-fbgemm", 0, 67}, Decoder{"llama-4of2x16-fp4", 0, 67},
        Decoder{"llama-4of2x16-fp8", 0, 67}, Decoder{"llama-4of2x16-fp8-blocks", 0, 67},
        Decoder{"llama-4of2x16-gptq", 0, 67}, Decoder{"llama-4of2x16-gptq3", 0, 67},
        Decoder{"llama-4of2x16-gptq8", 0, 67}, Decoder{"llama-4of2x16-int8", 0, 67},
        Decoder{"llama-4of2x16-mixed", 0, 67}, Decoder{"llama-4of2x16-modelopt", 0, 67},
        Decoder{"llama-4of2x16-nf4", 0, 67}, Decoder{"llama-4of2x16-w4a16", 0, 67},
        Decoder{"llama-4of2x16-w4a16-zeros", 0, 67}, Decoder{"llama-4of2x16-w8", 0, 67},
        Decoder{"qwen3_moe-4of2x16-w4a16", 0, 67}, Decoder{"llama-4of2x16-awq", 0, 67, -1, 2},
        Decoder{"llama-4of2x16-gptq", 0, 67, -1, 4},
        Decoder{"qwen3_moe-4of2x16-w4a16", 0, 67, -1, 2}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(BartLike, RandomDecodersTest,
                         ::testing::Values(Decoder{"bart-3x24", 131, 131, -1, 1, true},
                                           Decoder{"bart-1x40-bare", 97, 97},
                                           Decoder{"mbart-5x8", 89, 89},
                                           Decoder{"pegasus-3x12", 83, 83},
                                           Decoder{"m2m_100-5x7", 101, 101, 1},
                                           Decoder{"m2m_100-3x6-pads", 10, 10},
                                           Decoder{"m2m_100-1x40-untied", 73, 73, 3}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(T5, RandomDecodersTest,
                         ::testing::Values(Decoder{"t5-3x40", 97, 97},
                                           Decoder{"t5-5x6-gated", 83, 83},
                                           Decoder{"mt5-2x7", 71, 71}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(
    LlamaLike, RandomDecodersTest,
    ::testing::Values(Decoder{"llama-6of2x10-llama3", 0, 97}, Decoder{"llama-5of1x8-tied", 0, 83},
                      Decoder{"llama-3x8-linear", 0, 71}, Decoder{"mistral-4of2x6-dynamic", 0, 61},
                      Decoder{"qwen2-2of1x12", 0, 103}, Decoder{"smollm3-6of2x6", 0, 83},
                      Decoder{"smollm3-3x10-listed", 0, 67}, Decoder{"olmo2-6of2x8", 0, 89},
                      Decoder{"olmo2-3x10-biases", 0, 67}, Decoder{"olmo-4of2x10-clipped", 0, 83},
                      Decoder{"olmo-3x8", 0, 71}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(Windows, RandomDecodersTest,
                         ::testing::Values(Decoder{"mistral-4of2x8-window", 0, 89},
                                           Decoder{"qwen2-6of2x4-window", 0, 77}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(HeadNorms, RandomDecodersTest,
                         ::testing::Values(Decoder{"qwen3-6of3x10-yarn", 0, 93},
                                           Decoder{"qwen3-4x6-tied", 0, 67}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Phi3, RandomDecodersTest,
                         ::testing::Values(Decoder{"phi3-5of1x8-partial", 0, 97},
                                           Decoder{"phi3-3x40-longrope", 0, 71}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Starcoder2, RandomDecodersTest,
                         ::testing::Values(Decoder{"starcoder2-6of2x6-window", 0, 89},
                                           Decoder{"starcoder2-4x10-plain", 0, 73}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(
    Parallel, RandomDecodersTest,
    ::testing::Values(Decoder{"gpt_neox-3x16-parallel", 0, 101},
                      Decoder{"gpt_neox-2x12-sequential", 0, 67}, Decoder{"gptj-3x16", 0, 97},
                      Decoder{"gptj-5x8-whole", 0, 79}, Decoder{"falcon-5of1x8", 0, 89},
                      Decoder{"falcon-6of2x8-norms", 0, 97},
                      Decoder{"falcon-3x8-sequential", 0, 67}, Decoder{"falcon-5x8-alibi", 0, 79}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(Gemma, RandomDecodersTest,
                         ::testing::Values(Decoder{"gemma-5of1x12", 0, 83},
                                           Decoder{"gemma2-4of2x10", 0, 79},
                                           Decoder{"gemma2-3x8-uncapped", 0, 61},
                                           Decoder{"gemma3-4of2x10", 0, 91},
                                           Decoder{"gemma3-3x8-older", 0, 61}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(
    LikeGpt2, RandomDecodersTest,
    ::testing::Values(Decoder{"opt-3x16", 0, 97}, Decoder{"opt-5x8-post", 0, 71},
                      Decoder{"opt-3x8-projected", 0, 83}, Decoder{"gpt_neo-3x16-local", 0, 101},
                      Decoder{"bloom-5x8", 0, 97}, Decoder{"bloom-4x6-untied", 0, 71}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(
    Experts, RandomDecodersTest,
    ::testing::Values(Decoder{"mixtral-4of2x8", 0, 83}, Decoder{"mixtral-3x6-window", 0, 61},
                      Decoder{"qwen3_moe-4of2x6", 0, 89}, Decoder{"qwen3_moe-3x8-sparse", 0, 67},
                      Decoder{"qwen3_moe-4of2x6", 0, 89, -1, 2}, Decoder{"olmoe-4of2x8", 0, 79},
                      Decoder{"qwen2_moe-4of2x8", 0, 73}),
    NameOf);
INSTANTIATE_TEST_SUITE_P(
    Ranks, RandomDecodersTest,
    ::testing::Values(
        Decoder{"gpt2-3x40", 0, 131, -1, 3}, Decoder{"gpt2-5x8-deep", 0, 97, -1, 5},
        Decoder{"marian-2x16-target", 61, 97, 60, 2}, Decoder{"marian-2x16-untied", 61, 61, 60, 2},
        Decoder{"t5-5x6-gated", 83, 83, -1, 5}, Decoder{"qwen2-6of2x4-window", 0, 77, -1, 2},
        Decoder{"qwen3-6of3x10-yarn", 0, 93, -1, 3}, Decoder{"phi3-3x40-longrope", 0, 71, -1, 3},
        Decoder{"gpt_neox-3x16-parallel", 0, 101, -1, 3}, Decoder{"gemma3-4of2x10", 0, 91, -1, 2},
        Decoder{"falcon-6of2x8-norms", 0, 97, -1, 2}, Decoder{"llama-5of1x8-tied", 0, 83, -1, 5},
        Decoder{"qwen2-6of2x4-window", 0, 77, -1, 6}, Decoder{"gemma3-4of2x10", 0, 91, -1, 4}),
    NameOf);

}  // namespace
}  // namespace beamline::random_decoders_test
