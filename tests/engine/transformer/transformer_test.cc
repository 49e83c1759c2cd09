#include "engine/transformer/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/models/models.h"
#include "engine/transformer/decode_bucket.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"
#include "tests/engine/late_backend.h"
#include "tests/engine/transformer/model_runner.h"

namespace beamline::transformer_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The smallest GPT-2: one layer, two heads of two, vocabulary 7, five positions.
class TransformerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.WriteJson("config.json", {{"model_type", "gpt2"},
                                      {"n_layer", 1},
                                      {"n_embd", 4},
                                      {"n_head", 2},
                                      {"n_inner", 6},
                                      {"n_positions", 5},
                                      {"vocab_size", 7}});
    limits_.max_batch_tokens = 4;
    limits_.max_sequences = 2;
    limits_.max_logits_rows = 3;
    limits_.num_blocks = 3;
    limits_.block_size = 2;
    batch_.token_ids = {1, 2};
    batch_.positions = {0, 1};
    batch_.slots = {0, 1};
    batch_.query_offsets = {0, 2};
    batch_.context_lengths = {2};
    batch_.block_tables = {0};
    batch_.max_blocks = 1;
    batch_.logits_rows = {1};
  }

  NamedShape& Tensor(const std::string& name) {
    for (NamedShape& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    return tensors_.emplace_back(NamedShape{name, {}});
  }

  absl::StatusOr<std::unique_ptr<Transformer>> Create() {
    folder_.Write("model.safetensors", SafetensorsOf(tensors_));
    const auto checkpoint = Checkpoint::Open(folder_.path());
    if (!checkpoint.ok()) return checkpoint.status();
    const auto description = DescribeModel(**checkpoint);
    if (!description.ok()) return description.status();
    return Transformer::Create(description->spec, **checkpoint, DType::kFloat32, limits_,
                               *backend_);
  }
  std::string Error() {
    const auto transformer = Create();
    return transformer.ok() ? "" : std::string(transformer.status().message());
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend({});
  StepLimits limits_;
  StepBatch batch_;
  std::vector<NamedShape> tensors_ = {{"wte.weight", {7, 4}},
                                      {"wpe.weight", {5, 4}},
                                      {"h.0.ln_1.weight", {4}},
                                      {"h.0.ln_1.bias", {4}},
                                      {"h.0.attn.c_attn.weight", {4, 12}},
                                      {"h.0.attn.c_attn.bias", {12}},
                                      {"h.0.attn.c_proj.weight", {4, 4}},
                                      {"h.0.attn.c_proj.bias", {4}},
                                      {"h.0.ln_2.weight", {4}},
                                      {"h.0.ln_2.bias", {4}},
                                      {"h.0.mlp.c_fc.weight", {4, 6}},
                                      {"h.0.mlp.c_fc.bias", {6}},
                                      {"h.0.mlp.c_proj.weight", {6, 4}},
                                      {"h.0.mlp.c_proj.bias", {4}},
                                      {"ln_f.weight", {4}},
                                      {"ln_f.bias", {4}}};
};

TEST_F(TransformerTest, CountsItsWeights) {
  const auto transformer = Create();
  ASSERT_TRUE(transformer.ok()) << transformer.status();
  // Tables, two norms and the final one, attention, feed forward.
  const int64_t expected =
      (7 + 5) * 4 + 3 * 2 * 4 + (4 * 12 + 12 + 4 * 4 + 4) + (4 * 6 + 6 + 6 * 4 + 4);
  EXPECT_EQ((*transformer)->num_parameters(), expected);
  // The tied head is packed a second time.
  EXPECT_EQ((*transformer)->weight_bytes(), (expected + 7 * 4) * 4);
  // Keys and values of two heads of two.
  EXPECT_EQ(Transformer::BlockBytes((*transformer)->spec(), DType::kBFloat16, 16),
            2 * 2 * 2 * 16 * 2);
}

TEST_F(TransformerTest, ComputesOnlyWantedLogits) {
  const auto transformer = Create();
  ASSERT_TRUE(transformer.ok()) << transformer.status();
  const beamline::Tensor logits = (*transformer)->Decode(batch_);
  EXPECT_EQ(logits.dim(0), 1);
  EXPECT_EQ(logits.dim(1), 7);
  EXPECT_EQ(logits.dtype, DType::kFloat32);
  batch_.logits_rows = {};
  EXPECT_EQ((*transformer)->Decode(batch_).dim(0), 0);
}

TEST_F(TransformerTest, NamesAMissingTensor) {
  tensors_.erase(tensors_.begin());
  EXPECT_THAT(Error(), HasSubstr("no tensor \"wte.weight\""));
}

TEST_F(TransformerTest, NamesAWrongShape) {
  Tensor("h.0.mlp.c_fc.weight").shape = {6, 4};
  EXPECT_THAT(Error(), HasSubstr("tensor \"h.0.mlp.c_fc.weight\": shape [4, 6] is expected by "
                                 "config.json, found [6, 4]"));
}

TEST_F(TransformerTest, AcceptsVectorsStoredAsRows) {
  Tensor("ln_f.bias").shape = {1, 4};
  EXPECT_EQ(Error(), "");
  Tensor("ln_f.bias").shape = {4, 1};
  EXPECT_THAT(Error(), HasSubstr("shape [4] is expected by config.json, found [4, 1]"));
}

TEST_F(TransformerTest, NamesTensorsThatTheModelDoesNotHave) {
  Tensor("h.0.attn.bias").shape = {1};
  Tensor("lm_head.weight").shape = {7, 4};
  EXPECT_EQ(Error(), "");
  Tensor("h.1.ln_1.weight").shape = {4};
  Tensor("score.weight").shape = {4};
  EXPECT_THAT(Error(), HasSubstr("2 tensors that the model in config.json does not have: "
                                 "\"h.1.ln_1.weight\", \"score.weight\""));
}

TEST_F(TransformerTest, NamesATypeThatIsNoFloat) {
  folder_.Write("model.safetensors",
                SafetensorsBytes(
                    R"({"wte.weight":{"dtype":"I32","shape":[7,4],"data_offsets":[0,112]}})", 112));
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok());
  const auto description = DescribeModel(**checkpoint);
  const auto transformer =
      Transformer::Create(description->spec, **checkpoint, DType::kFloat32, limits_, *backend_);
  EXPECT_THAT(std::string(transformer.status().message()),
              HasSubstr("tensor \"wte.weight\": float32, float16 or bfloat16 is expected, found "
                        "int32"));
}

TEST_F(TransformerTest, NamesALimitThatIsNotPositive) {
  limits_.num_blocks = 0;
  EXPECT_THAT(Error(), HasSubstr("num_blocks is 0; it must be positive"));
}

using TransformerDeathTest = TransformerTest;

// What the device does not compute is refused before its weights are read.
TEST_F(TransformerTest, RefusesHeadsThatTheDeviceDoesNotCompute) {
  backend_ = std::make_unique<LateBackend>(1);
  EXPECT_EQ(Error(), "");
  folder_.WriteJson("config.json", {{"model_type", "gpt2"},
                                    {"n_layer", 1},
                                    {"n_embd", 2 * (LateBackend::kMostHeadDim + 1)},
                                    {"n_head", 2},
                                    {"n_positions", 5},
                                    {"vocab_size", 7}});
  EXPECT_EQ(Create().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Error(), HasSubstr("heads are too large"));
}

TEST_F(TransformerTest, RefusesRowsThatTheDeviceDoesNotNorm) {
  backend_ = std::make_unique<LateBackend>(1);
  folder_.WriteJson("config.json", {{"model_type", "gpt2"},
                                    {"n_layer", 1},
                                    {"n_embd", LateBackend::kMostHiddenSize + 64},
                                    {"n_head", LateBackend::kMostHiddenSize / 64 + 1},
                                    {"n_positions", 5},
                                    {"vocab_size", 7}});
  EXPECT_EQ(Create().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Error(), HasSubstr("rows are too long"));
}

TEST_F(TransformerDeathTest, ChecksBatches) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto created = Create();
  ASSERT_TRUE(created.ok()) << created.status();
  std::filesystem::remove_all(folder_.path());  // the processes that die here would leave theirs
  Transformer& transformer = **created;
  const StepBatch valid = batch_;
  const auto expect_death = [&](const char* what, auto edit) {
    StepBatch batch = valid;
    edit(batch);
    EXPECT_DEATH(transformer.Decode(batch), "CHECK failed") << what;
  };
  expect_death("id", [](StepBatch& b) { b.token_ids[1] = 7; });
  expect_death("position", [](StepBatch& b) { b.positions[1] = 5; });
  expect_death("slot", [](StepBatch& b) { b.slots[1] = 6; });
  expect_death("block", [](StepBatch& b) { b.block_tables[0] = -1; });
  expect_death("context", [](StepBatch& b) { b.context_lengths[0] = 3; });
  expect_death("offsets", [](StepBatch& b) { b.query_offsets[1] = 1; });
  expect_death("wanted row", [](StepBatch& b) { b.logits_rows = {2}; });
  expect_death("order of wanted rows", [](StepBatch& b) { b.logits_rows = {1, 0}; });
  expect_death("tokens over the limit", [](StepBatch& b) {
    b.token_ids.resize(5);
    b.positions.resize(5);
    b.slots.resize(5);
    b.query_offsets = {0, 5};
  });
}

// bfloat16 keeps 8 bits: embeddings turn by little.
// A device that records gets the batch padded: what it leaves for the decoder is the same bits.
TEST(PaddedEncoderTest, LeavesTheMemoryOfTheBatch) {
  const auto checkpoint =
      Checkpoint::Open(std::string(BEAMLINE_SOURCE_DIR) + "/models/translate-en-de");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto description = DescribeModel(**checkpoint);
  ASSERT_TRUE(description.ok()) << description.status();
  constexpr StepLimits kLimits = {.max_batch_tokens = 64, .max_sequences = 8, .num_blocks = 9};
  EncoderBatch batch;
  batch.offsets = {0, 5, 6, 23, 26};
  for (int32_t token = 0; token < batch.offsets.back(); ++token) {
    batch.token_ids.push_back(100 + 37 * token);
    batch.slots.push_back(5 * token % (kLimits.num_blocks * kLimits.block_size));
  }
  const auto cpu = MakeCpuBackend({});
  LateBackend late(1);
  std::vector<std::string> caches;
  for (Backend* const backend : {cpu.get(), static_cast<Backend*>(&late)}) {
    const auto transformer =
        Transformer::Create(description->spec, **checkpoint, DType::kFloat32, kLimits, *backend);
    ASSERT_TRUE(transformer.ok()) << transformer.status();
    const auto cache = (*transformer)->cache();
    for (const auto& buffer : cache) std::memset(buffer->data(), 0, buffer->size());
    EXPECT_EQ((*transformer)->EncodeMemory(batch).dim(0), 26);
    std::string& bytes = caches.emplace_back();
    const int64_t num_blocks = kLimits.num_blocks + (backend->Records() ? 1 : 0);
    for (const auto& buffer : cache) {
      bytes.append(static_cast<const char*>(buffer->data()),
                   buffer->size() / num_blocks * kLimits.num_blocks);
    }
  }
  EXPECT_TRUE(caches[0] == caches[1]);
  EncoderBatch padded;
  EXPECT_EQ(late.shapes(), std::set<uint64_t>{PadEncoderBatch(batch, kLimits, padded)});
  EXPECT_GT(padded.token_ids.size(), batch.token_ids.size());
}

TEST(BFloat16Test, EmbeddingsStayClose) {
  if (const auto supported = MakeCpuBackend({})->SupportsDType(DType::kBFloat16); !supported.ok()) {
    GTEST_SKIP() << supported;
  }
  const std::string folder = std::string(BEAMLINE_SOURCE_DIR) + "/models/embed-en";
  const auto exact = ModelRunner::Open(folder);
  const auto rounded = ModelRunner::Open(folder, DType::kBFloat16);
  ASSERT_TRUE(exact.ok() && rounded.ok()) << exact.status() << rounded.status();
  const std::vector<TokenIds> inputs = {{2, 2181, 301, 3111, 297, 3}, {2, 17, 3}};
  const Matrix a = (*exact)->Embed(inputs);
  const Matrix b = (*rounded)->Embed(inputs);
  for (int64_t i = 0; i < a.num_rows(); ++i) {
    double cosine = 0;
    for (int64_t column = 0; column < a.width; ++column) {
      cosine += double{a.row(i)[column]} * b.row(i)[column];
    }
    EXPECT_GT(cosine, 0.9995);
  }
}

}  // namespace
}  // namespace beamline::transformer_test
