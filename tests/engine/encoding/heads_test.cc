// Heads of a few numbers, whose results are computed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/encoding/encoding.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::heads_test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pair;

struct NamedValues {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

std::string SafetensorsWith(const std::vector<NamedValues>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const NamedValues& tensor : tensors) {
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.values.data()), 4 * tensor.values.size());
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return SafetensorsBytes(header.dump(), 0) + data;
}

std::unique_ptr<Backend> Host() { return MakeCpuBackend({.num_threads = 1}); }

class HeadsTest : public testing::Test {
 protected:
  std::unique_ptr<Checkpoint> Open(const std::vector<NamedValues>& tensors) {
    folder_.WriteJson("config.json", nlohmann::json::object());
    folder_.Write("model.safetensors", SafetensorsWith(tensors));
    auto checkpoint = Checkpoint::Open(folder_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return *std::move(checkpoint);
  }

  TemporaryFolder folder_;
};

TEST_F(HeadsTest, DenseModulesFollowEachOther) {
  folder_.Write("2_Dense/model.safetensors",
                SafetensorsWith({{"linear.weight", {2, 3}, {1, 0, 2, 0, 1, 0}},
                                 {"linear.bias", {2}, {0.5f, -1}}}));
  folder_.Write("3_Dense/model.safetensors", SafetensorsWith({{"linear.weight", {1, 2}, {3, 10}}}));
  for (const char* name : {"2_Dense/config.json", "3_Dense/config.json"}) {
    folder_.WriteJson(name, nlohmann::json::object());
  }
  const std::vector<DenseSpec> modules = {
      {.folder = "2_Dense", .in_size = 3, .out_size = 2, .activation = Activation::kRelu},
      {.folder = "3_Dense",
       .in_size = 2,
       .out_size = 1,
       .biased = false,
       .activation = Activation::kNone}};
  auto head = DenseHead::Create(modules, CheckpointPath(folder_.path()), Host());
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ((*head)->width(), 1);
  // (1, 2, 3): relu(7.5, 1), so 22.5 + 10; (0, 0, -1): relu(-1.5, -1), so 0.
  EXPECT_THAT((*head)->Compute(std::vector<float>{1, 2, 3, 0, 0, -1}).value(),
              ElementsAre(FloatNear(32.5f, 1e-4f), 0));
}

TEST_F(HeadsTest, AClassifierHasLogitsOfEachRow) {
  const auto checkpoint = Open({{"dense.weight", {2, 2}, {1, 0, 0, 2}},
                                {"dense.bias", {2}, {0, 0}},
                                {"out.weight", {3, 2}, {1, 0, 0, 1, 1, 1}},
                                {"out.bias", {3}, {0, 0, 0.25f}}});
  ClassifierSpec spec;
  spec.dense = {{"dense.weight"}, {"dense.bias"}};
  spec.output = {{"out.weight"}, {"out.bias"}};
  spec.num_labels = 3;
  auto head = ClassifierHead::Create(spec, 2, *checkpoint, Host());
  ASSERT_TRUE(head.ok()) << head.status();
  EXPECT_EQ((*head)->width(), 3);
  const float a = std::tanh(0.5f), b = std::tanh(-2.0f);
  EXPECT_THAT(
      (*head)->Compute(std::vector<float>{0.5f, -1}).value(),
      ElementsAre(FloatNear(a, 1e-5f), FloatNear(b, 1e-5f), FloatNear(a + b + 0.25f, 1e-5f)));
}

// A norm of two numbers is 1 and -1, in their order.
TEST_F(HeadsTest, MasksAreFilledByTheHeadOfMasks) {
  const float ln3 = std::log(3.0f);
  const auto checkpoint = Open({{"dense.weight", {2, 2}, {1, 0, 0, 1}},
                                {"dense.bias", {2}, {0, 0}},
                                {"norm.weight", {2}, {1, 1}},
                                {"norm.bias", {2}, {0, 0}},
                                {"out.weight", {3, 2}, {0, 0, ln3, 0, 0, ln3}},
                                {"out.bias", {3}, {0, ln3, ln3}}});
  MaskHeadSpec spec;
  spec.dense = {{"dense.weight"}, {"dense.bias"}};
  spec.activation = Activation::kNone;
  spec.norm = {"norm.weight", "norm.bias"};
  spec.output = {{"out.weight"}, {"out.bias"}};
  StackSpec encoder;
  encoder.hidden_size = 2;
  encoder.vocab_size = 3;
  ModelHeads heads;
  auto head = MaskHead::Create(spec, encoder, *checkpoint, DType::kFloat32, Host());
  ASSERT_TRUE(head.ok()) << head.status();
  heads.mask = *std::move(head);
  // Two masks of the second input: logits (0, 2 ln 3, 0) and (0, 0, 2 ln 3), so 1 : 9 : 1.
  MaskAnswers answers({{4}, {1, 3}}, /*count=*/2, /*targets=*/{});
  const std::vector<float> values = {5, -5, -2, 7};
  const int32_t num_rows[] = {2};
  FinishedRows rows;
  rows.values = values;
  rows.width = 2;
  rows.num_rows = num_rows;
  rows.first_input = 1;
  std::vector<Embedding> inputs(2);
  ASSERT_TRUE(answers.Make(rows, heads, inputs).value());
  const auto filled = answers.TakeMasks();
  ASSERT_EQ(filled.size(), 2u);
  ASSERT_EQ(filled[1].size(), 2u);
  EXPECT_TRUE(filled[0][0].tokens.empty());  // its step is still to come
  EXPECT_EQ(filled[1][0].position, 1);
  EXPECT_THAT(filled[1][0].tokens, ElementsAre(Pair(1, FloatNear(9.0f / 11, 1e-4f)),
                                               Pair(0, FloatNear(1.0f / 11, 1e-4f))));
  EXPECT_EQ(filled[1][1].position, 3);
  EXPECT_EQ(filled[1][1].tokens[0].first, 2);
  MaskAnswers overflown({{4}, {1, 3}}, /*count=*/2, /*targets=*/{});
  const std::vector<float> bad = {5, -5, std::nanf(""), 7};
  rows.values = bad;
  EXPECT_FALSE(overflown.Make(rows, heads, inputs).value());
}

}  // namespace
}  // namespace beamline::heads_test
