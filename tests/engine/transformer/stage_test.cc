// How the layers of a model are divided among stages, and that stages compute what one rank does,
// bit for bit.
#include "engine/transformer/stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/linked_model.h"
#include "tests/engine/transformer/model_runner.h"
#include "tests/golden/golden_rows.h"

namespace beamline::stage_test {
namespace {

StackSpec Stack(int32_t layers) {
  StackSpec stack;
  stack.num_layers = layers;
  stack.hidden_size = 64;
  stack.num_heads = stack.num_kv_heads = 8;
  stack.head_dim = 8;
  stack.feed_forward_size = 256;  // a layer: 4 * 64 * 64 + 2 * 64 * 256 = 12 * 4096
  return stack;
}

TransformerSpec Decoder(int32_t layers, int32_t vocab_size) {
  TransformerSpec spec;
  spec.decoder = Stack(layers);
  spec.vocab_size = vocab_size;
  return spec;
}

std::vector<int32_t> Sizes(const TransformerSpec& spec, int32_t num_stages) {
  std::vector<int32_t> sizes;
  for (const Stage& stage : DivideLayers(spec, num_stages)) {
    sizes.push_back(stage.encoder.size() + stage.decoder.size());
  }
  return sizes;
}

TEST(StageTest, LayersAreDividedByWhatTheyCost) {
  using Layers = std::vector<int32_t>;
  EXPECT_EQ(Sizes(Decoder(8, 64), 1), (Layers{8}));
  // The head costs a twelfth of a layer: those behind it are as even as can be.
  EXPECT_EQ(Sizes(Decoder(8, 64), 2), (Layers{4, 4}));
  EXPECT_EQ(Sizes(Decoder(8, 64), 4), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(Sizes(Decoder(7, 64), 3), (Layers{2, 3, 2}));
  // Three layers' cost.
  EXPECT_EQ(Sizes(Decoder(8, 36 * 64), 2), (Layers{5, 3}));
  EXPECT_EQ(Sizes(Decoder(5, 36 * 64), 3), (Layers{2, 2, 1}));
  // As much as a hundred layers: the others are even nevertheless.
  EXPECT_EQ(Sizes(Decoder(9, 1200 * 64), 5), (Layers{2, 2, 2, 2, 1}));
  EXPECT_EQ(Sizes(Decoder(8, 64), 8), Layers(8, 1));
}

TEST(StageTest, EncodersComeBeforeDecoders) {
  TransformerSpec spec = Decoder(3, 64);
  spec.decoder->cross_attention = true;  // 16 where another layer has 12
  spec.encoder = Stack(4);
  const std::vector<Stage> two = DivideLayers(spec, 2);
  EXPECT_EQ(two[0], (Stage{{0, 4}, {0, 0}}));
  EXPECT_EQ(two[1], (Stage{{4, 4}, {0, 3}}));
  const std::vector<Stage> three = DivideLayers(spec, 3);
  EXPECT_EQ(three[0], (Stage{{0, 3}, {0, 0}}));
  EXPECT_EQ(three[1], (Stage{{3, 4}, {0, 1}}));
  EXPECT_EQ(three[2], (Stage{{4, 4}, {1, 3}}));
  const TransformerSpec middle = SpecOf(spec, three[1]);
  EXPECT_FALSE(middle.encoder->begins());
  EXPECT_TRUE(middle.encoder->ends());
  EXPECT_TRUE(middle.decoder->begins());
  EXPECT_FALSE(middle.decoder->ends());
  EXPECT_EQ(middle.encoder->first_layer, 3);
  EXPECT_EQ(middle.decoder->layers_after, 2);
  const TransformerSpec last = SpecOf(spec, three[2]);
  EXPECT_EQ(last.encoder->num_layers, 0);
  EXPECT_FALSE(last.encoder->begins() || last.encoder->ends());
  EXPECT_TRUE(last.decoder->ends());
}

// Every division covers the layers once, and none is cheaper at its most expensive stage.
TEST(StageTest, NoOtherDivisionIsCheaper) {
  for (const int32_t layers : {1, 2, 3, 5, 8, 13}) {
    for (const int32_t vocab_size : {64, 700, 3000, 20000}) {
      const TransformerSpec spec = Decoder(layers, vocab_size);
      const auto cost = [&](int32_t begin, int32_t end) {
        return (end - begin) * 12 * 4096.0 + (begin == 0 ? 64.0 : 0.0) +
               (end == layers ? vocab_size * 64.0 : 0.0);
      };
      for (int32_t stages = 1; stages <= std::min(layers, 3); ++stages) {
        double most = 0.0;
        int32_t next = 0;
        for (const Stage& stage : DivideLayers(spec, stages)) {
          EXPECT_EQ(stage.decoder.begin, next);
          EXPECT_GT(stage.decoder.size(), 0);
          next = stage.decoder.end;
          most = std::max(most, cost(stage.decoder.begin, stage.decoder.end));
        }
        EXPECT_EQ(next, layers);
        for (int32_t first = 1; first < layers; ++first) {
          if (stages == 2) {
            EXPECT_LE(most, std::max(cost(0, first), cost(first, layers)));
          }
          for (int32_t second = first + 1; stages == 3 && second < layers; ++second) {
            EXPECT_LE(most, std::max({cost(0, first), cost(first, second), cost(second, layers)}));
          }
        }
      }
    }
  }
}

TEST(StageTest, MoreStagesThanLayersAreRefused) {
  EXPECT_TRUE(CheckStages(Decoder(3, 64), 3).ok());
  // As many as a damaged config.json says: nobody waits for their division.
  EXPECT_TRUE(CheckStages(Decoder(1 << 20, 64), 1).ok());
  EXPECT_EQ(DivideLayers(Decoder(1 << 20, 64), 1).size(), 1);
  EXPECT_EQ(CheckStages(Decoder(1 << 20, 64), 2).message(),
            "pipeline_parallel is 2, which does not divide 1048576 layers; accepted: 1");
  EXPECT_EQ(DivideLayers(Decoder(4096, 64), 8).size(), 8);
  EXPECT_EQ(CheckStages(Decoder(3, 64), 4).message(),
            "pipeline_parallel is 4, more than the 3 layers of the model; accepted: 1 to 3");
  TransformerSpec spec = Decoder(3, 64);
  spec.encoder = Stack(2);
  EXPECT_TRUE(CheckStages(spec, 5).ok());
  EXPECT_EQ(CheckStages(spec, 6).message(),
            "pipeline_parallel is 6, more than the 5 layers of the model; accepted: 1 to 5");
}

bool SameBits(const Matrix& a, const Matrix& b) {
  return a.width == b.width && a.values.size() == b.values.size() &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}

// The same steps on both: inputs, chunks of prompts, single tokens, and blocks that move.
void ExpectSameBits(const std::string& folder, int num_stages, int num_ranks) {
  SCOPED_TRACE(folder + " in " + std::to_string(num_stages) + " stages of " +
               std::to_string(num_ranks));
  auto one = ModelRunner::Open(folder, DType::kFloat32, num_ranks);
  auto staged = ModelRunner::Open(folder, DType::kFloat32, num_ranks, num_stages);
  ASSERT_TRUE(one.ok() && staged.ok()) << one.status() << staged.status();
  const TransformerSpec& spec = (*one)->description().spec;
  EXPECT_EQ((*staged)->transformer().num_parameters(), (*one)->transformer().num_parameters());
  const std::vector<TokenIds> inputs = {{3, 5, 7, 9, 11}, {2}, {30, 31, 32, 33, 34, 35, 36}};
  if (!spec.decoder.has_value()) {
    EXPECT_TRUE(SameBits((*staged)->Encode(inputs), (*one)->Encode(inputs)));
    EXPECT_TRUE(SameBits((*staged)->Embed(inputs), (*one)->Embed(inputs)));
    return;
  }
  std::vector<RunnerSequence> expected(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    expected[i].tokens = inputs[inputs.size() - 1 - i];
    if (spec.encoder.has_value()) expected[i].source = inputs[i];
  }
  std::vector<RunnerSequence> actual = expected;
  if (spec.encoder.has_value()) {
    EXPECT_TRUE(SameBits((*staged)->EncodeMemory(actual), (*one)->EncodeMemory(expected)));
  }
  for (const bool last_only : {true, false}) {
    for (const int32_t chunk : {3, 1, 64}) {
      for (const auto& [runner, sequences] :
           {std::pair(one->get(), &expected), std::pair(staged->get(), &actual)}) {
        runner->Step(*sequences, chunk, last_only);
        for (RunnerSequence& sequence : *sequences) {
          runner->MoveBlocks(sequence);
          sequence.tokens.push_back(4);
        }
      }
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_GT(actual[i].logits.num_rows(), 0);
    EXPECT_TRUE(SameBits(actual[i].logits, expected[i].logits)) << i;
  }
}

TEST(StagesTest, ComputeTheBitsOfOneRank) {
  const std::string random = std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/random/";
  for (const auto& [name, most] : std::vector<std::pair<std::string, int>>{
           {"bert-5x8-deep", 8},      // post-norm, twelve layers
           {"roberta-3x16", 2},       //
           {"gpt2-5x8-deep", 8},      // pre-norm
           {"gpt2-1x80-bare", 2},     //
           {"marian-5x8-deep", 8},    // twelve layers and two
           {"marian-1x80-shards", 4}  // one and three; a table that both share
       }) {
    for (int stages = 2; stages <= most; ++stages) ExpectSameBits(random + name, stages, 1);
  }
}

// A grid: every stage has as many ranks as one alone would have.
TEST(StagesTest, OfSeveralRanksComputeTheBitsOfThese) {
  const std::string random = std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/random/";
  ExpectSameBits(random + "bert-5x8-deep", 3, 5);
  ExpectSameBits(random + "gpt2-5x8-deep", 4, 5);
  ExpectSameBits(random + "marian-2x16-target", 2, 2);
  ExpectSameBits(random + "marian-2x16-untied", 2, 2);
}

// Layers know their number in the whole model.
TEST(StagesTest, ScalesByTheLayersNumber) {
  const LinkedModel model("tests/golden/random/gpt2-5x8-deep");
  model.Change("config.json", {{"scale_attn_by_inverse_layer_idx", true}});
  ExpectSameBits(model.Options("model").folder, 3, 1);
}

}  // namespace
}  // namespace beamline::stage_test
