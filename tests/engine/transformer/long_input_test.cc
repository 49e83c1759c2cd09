// Inputs in pieces, layer by layer, beside what one step computes of them.
#include "engine/transformer/long_input.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"
#include "engine/transformer/transformer.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/late_backend.h"
#include "tests/sanitized.h"
#include "tests/test_seed.h"

namespace beamline::long_input_test {
namespace {

constexpr int32_t kLongest = kSanitized ? 300 : 4000;

struct Model {
  const char* folder;            // of tests/golden/random
  int32_t positions = kLongest;  // as many as its table has, where it has one
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.folder; }

// The model's decoder, or what is an encoder already, as an encoder.
TransformerSpec EncoderOf(TransformerSpec spec, int32_t positions) {
  if (spec.decoder.has_value()) {
    spec.encoder = *std::exchange(spec.decoder, std::nullopt);
    spec.encoder->output_projection = LinearNames();
    spec.ignored_tensors = {"*"};
    spec.head.clear();
    spec.head_bias.clear();
  }
  spec.encoder->max_positions = positions;
  return spec;
}

// Notes what is taken of it, and the largest piece.
class WatchedBackend : public LateBackend {
 public:
  WatchedBackend() : LateBackend(1) {}

  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override {
    if (kind != MemoryKind::kWeights && kind != MemoryKind::kCache) bytes_ += bytes;
    return LateBackend::Allocate(bytes, kind);
  }
  bool Records() const override { return false; }

  int64_t bytes() const { return static_cast<int64_t>(bytes_); }
  // Rows and keys of the largest attention through the cache.
  std::pair<int, int> largest_piece() const { return largest_; }
  int num_pieces() const { return num_pieces_; }

 protected:
  void Compute(const Operation& operation) override {
    if (const auto* const* attention = std::get_if<const AttentionParams*>(&operation)) {
      const AttentionParams& p = **attention;
      if (p.cache != nullptr) {
        largest_ = std::max(largest_, {p.max_query_length, p.max_context_length});
        ++num_pieces_;
      }
    }
    LateBackend::Compute(operation);
  }

 private:
  size_t bytes_ = 0;
  std::pair<int, int> largest_;
  int num_pieces_ = 0;
};

std::unique_ptr<Transformer> Create(const Model& model, const StepLimits& limits,
                                    Backend& backend) {
  const auto checkpoint =
      Checkpoint::Open(std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/random/" + model.folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto description = DescribeModel(**checkpoint);
  EXPECT_TRUE(description.ok()) << description.status();
  auto transformer = Transformer::Create(EncoderOf(description->spec, model.positions),
                                         **checkpoint, DType::kFloat32, limits, backend);
  EXPECT_TRUE(transformer.ok()) << transformer.status();
  return transformer.ok() ? *std::move(transformer) : nullptr;
}

StepLimits Limits(int32_t max_batch_tokens, int32_t max_input_tokens) {
  return {.max_batch_tokens = max_batch_tokens,
          .max_sequences = 4,
          .max_input_tokens = max_input_tokens};
}

std::vector<float> Values(const Tensor& tensor) {
  const float* const values = tensor.as<float>();
  return {values, values + tensor.num_elements()};
}

std::vector<float> EncodeWhole(const TokenIds& ids, Transformer& transformer) {
  EncoderBatch batch;
  batch.token_ids = ids;
  batch.offsets = {0, static_cast<int32_t>(ids.size())};
  return Values(transformer.Encode(batch));
}

class LongInputTest : public testing::TestWithParam<Model> {
 protected:
  TokenIds AnyIds(int32_t count) {
    TokenIds ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = std::uniform_int_distribution(3, 60)(random_);
    return ids;
  }

  std::mt19937 random_{static_cast<unsigned>(TestSeed())};
};

// On the CPU these are the same bits: a row's sums have one order whatever else is computed.
TEST_P(LongInputTest, PiecesAreWhatOneStepComputes) {
  const int32_t longest = GetParam().positions;
  const auto one_backend = MakeCpuBackend({.num_threads = 1});
  const auto whole = Create(GetParam(), Limits(longest, 0), *one_backend);
  ASSERT_NE(whole, nullptr);
  EXPECT_EQ(whole->long_input(), nullptr);
  for (const int32_t of_step : {16, 64, 500}) {
    if (of_step >= longest) continue;
    SCOPED_TRACE(of_step);
    const auto backend = MakeCpuBackend({.num_threads = 1});
    const auto pieces = Create(GetParam(), Limits(of_step, longest), *backend);
    ASSERT_NE(pieces, nullptr);
    LongInput& input = *pieces->long_input();
    const TokenIds beside = AnyIds(std::min(of_step, 11));
    const std::vector<float> expected_beside = EncodeWhole(beside, *whole);
    for (const int32_t count : {of_step + 1, std::min(2 * of_step + 40, longest), longest}) {
      SCOPED_TRACE(count);
      const TokenIds ids = AnyIds(std::min(count, longest));
      input.Begin(ids);
      int32_t computed = 0;
      while (!input.done()) {
        // A piece now and then, so that all sizes of pieces come.
        const int32_t tokens = std::uniform_int_distribution(1, of_step)(random_);
        const int32_t next = input.Advance(tokens).num_tokens;
        ASSERT_LE(next - computed, of_step);
        computed = next;
        ASSERT_EQ(EncodeWhole(beside, *pieces), expected_beside);
      }
      EXPECT_EQ(computed, static_cast<int32_t>(ids.size()));
      EXPECT_TRUE(Values(input.hidden()) == EncodeWhole(ids, *whole));
    }
  }
}

TEST_P(LongInputTest, TakesTheMemoryThatIsPlanned) {
  for (const int32_t longest : {0, 33, GetParam().positions}) {
    WatchedBackend backend;
    const StepLimits limits = Limits(32, longest);
    const auto transformer = Create(GetParam(), limits, backend);
    ASSERT_NE(transformer, nullptr);
    EXPECT_EQ(backend.bytes(),
              Transformer::BufferBytes(transformer->spec(), DType::kFloat32, limits));
  }
}

TEST_P(LongInputTest, TheLargestPieceIsOfTheLongestInputsEnd) {
  WatchedBackend backend;
  const auto transformer = Create(GetParam(), Limits(32, GetParam().positions), backend);
  ASSERT_NE(transformer, nullptr);
  LongInput& input = *transformer->long_input();
  input.ComputeLargest();
  EXPECT_TRUE(input.done());
  EXPECT_EQ(input.hidden().dim(0), GetParam().positions);
  EXPECT_EQ(backend.largest_piece(), std::pair(32, GetParam().positions));
  const int pieces = (GetParam().positions + 31) / 32;
  EXPECT_EQ(backend.num_pieces(), pieces + transformer->spec().encoder->num_layers);
}

// Windows, biases by distance, experts, parallel branches, norms before, after and around
// branches, capped scores, clipped heads, rotation of a part, learned positions.
INSTANTIATE_TEST_SUITE_P(Families, LongInputTest,
                         testing::Values(Model{"qwen3-6of2x6-embed"}, Model{"llama-4of1x6-embed"},
                                         Model{"mistral-4of2x8-embed"}, Model{"qwen2-3of1x8-embed"},
                                         Model{"qwen2-6of2x4-window"}, Model{"qwen3-6of3x10-yarn"},
                                         Model{"bloom-5x8"}, Model{"falcon-5x8-alibi"},
                                         Model{"falcon-5of1x8"}, Model{"mixtral-3x6-window"},
                                         Model{"qwen2_moe-4of2x8"}, Model{"gemma2-4of2x10"},
                                         Model{"gemma3-4of2x10"}, Model{"olmo-4of2x10-clipped"},
                                         Model{"olmo2-6of2x8"}, Model{"gpt_neox-3x16-parallel"},
                                         Model{"phi3-5of1x8-partial"}, Model{"smollm3-6of2x6"},
                                         Model{"gpt2-3x40", 64}, Model{"gpt_neo-3x16-local", 64},
                                         Model{"opt-3x16", 64}, Model{"opt-5x8-post", 64},
                                         Model{"opt-3x8-projected", 64}));

StackSpec CostlyStack() {
  StackSpec stack;
  stack.num_layers = 28;
  stack.hidden_size = 1024;
  stack.num_heads = 16;
  stack.num_kv_heads = 8;
  stack.head_dim = 128;
  stack.feed_forward_size = 3072;
  stack.gated = true;
  return stack;
}

TEST(LongInputCostTest, GrowsWithTheKeysThatARowSees) {
  const StepLimits limits = {.max_batch_tokens = 4096};
  StackSpec stack = CostlyStack();
  const LongInputCost cost(stack);
  EXPECT_GT(cost.OfPiece(0, 0, 64), 64);
  EXPECT_LT(cost.OfPiece(0, 0, 64), 70);
  EXPECT_GT(cost.OfPiece(0, 30000, 64), 5 * cost.OfPiece(0, 0, 64));
  EXPECT_DOUBLE_EQ(cost.OfPiece(0, 0, 100) + cost.OfPiece(0, 100, 100), cost.OfPiece(0, 0, 200));
  EXPECT_EQ(cost.Steps(1, limits), 1);
  EXPECT_GT(cost.Steps(32768, limits), 3 * 8);
  stack.attention_windows.assign(28, 64);
  EXPECT_EQ(LongInputCost(stack).Steps(32768, limits), 8);
}

// As Qwen3-Embedding-0.6B has it: the hidden states, and the keys and values of one layer.
TEST(LongInputMemoryTest, IsOfOneLayer) {
  TransformerSpec spec;
  spec.encoder = CostlyStack();
  spec.encoder->causal = true;
  spec.encoder->positions = PositionKind::kRotary;
  spec.encoder->max_positions = 32768;
  StepLimits limits;
  const int64_t of_steps = Transformer::BufferBytes(spec, DType::kBFloat16, limits);
  limits.max_input_tokens = 32768;
  const int64_t bytes = Transformer::BufferBytes(spec, DType::kBFloat16, limits);
  EXPECT_EQ(bytes - of_steps, int64_t{32768} * (1024 + 2 * 8 * 128) * 2);
  RecordProperty("mebibytes", static_cast<int>(bytes >> 20));
}

// Only a causal encoder that one rank computes has inputs longer than a step.
TEST(LongInputLimitsTest, OthersRefuseThem) {
  const auto backend = MakeCpuBackend({.num_threads = 1});
  const auto checkpoint =
      Checkpoint::Open(std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/random/bert-3x40");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto description = DescribeModel(**checkpoint);
  ASSERT_TRUE(description.ok()) << description.status();
  const auto transformer = Transformer::Create(description->spec, **checkpoint, DType::kFloat32,
                                               Limits(16, 64), *backend);
  EXPECT_EQ(transformer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(transformer.status().message(), "max_input_tokens is 64; it must be 0 for this model");
}

}  // namespace
}  // namespace beamline::long_input_test
