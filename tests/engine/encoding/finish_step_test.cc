// How the rows of several jobs are read together. The transformer is a stand-in that pools by hand
// and counts.
#include "engine/encoding/finish_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace beamline::finish_step_test {
namespace {

using testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();

// Hidden states of one number; only Pool is called, and means are what it knows.
class PoolingStandIn final : public Transformer {
 public:
  using Transformer::Decode;
  Tensor Encode(const EncoderBatch&) override { return {}; }
  Tensor EncodeMemory(const EncoderBatch&) override { return {}; }
  Tensor Decode(const StepBatch&, const DeviceEdits&) override { return {}; }
  Tensor MoreLogits(int64_t) override { return {}; }
  Tensor Pool(const EncoderBatch& batch, const Tensor& hidden, Pooling pooling, bool) override {
    EXPECT_TRUE(pooling == Pooling::kMean || pooling == Pooling::kLast);
    const auto* values = static_cast<const float*>(hidden.data);
    calls.push_back(static_cast<int>(batch.offsets.size()) - 1);
    pooled_.clear();
    for (size_t i = 0; i + 1 < batch.offsets.size(); ++i) {
      const int32_t begin = batch.offsets[i], end = batch.offsets[i + 1];
      EXPECT_LT(begin, end);
      float sum = 0;
      for (int32_t t = begin; t < end; ++t) sum += values[t];
      const float mean = sum / static_cast<float>(end - begin);
      pooled_.push_back(pooling == Pooling::kMean ? mean : values[end - 1]);
    }
    return Tensor(pooled_.data(), DType::kFloat32, {std::ssize(pooled_), 1});
  }
  void CopyBlocks(std::span<const BlockCopy>) override {}
  const TransformerSpec& spec() const override { return spec_; }
  int64_t num_parameters() const override { return 0; }
  int64_t weight_bytes() const override { return 0; }

  std::vector<int> calls;  // rows of each call of Pool

 private:
  std::vector<float> pooled_;
  TransformerSpec spec_;
};

Encoding VectorsOf(std::unique_ptr<const RowReader> reader) {
  Encoding encoding;
  encoding.reader = std::move(reader);
  encoding.answers = std::make_unique<VectorAnswers>(VectorAnswers::Finishers());
  return encoding;
}

// A step of four inputs: tokens 0 .. 1, 2, 3 .. 5, and 6 .. 7.
class FinishStepTest : public testing::Test {
 protected:
  absl::Status Finish(std::vector<JobPart>& parts, int32_t most_rows = 100) {
    FinishStep finish(transformer_, *backend_, heads_, most_rows);
    EncodedRows rows;
    rows.hidden = Tensor(hidden_.data(), DType::kFloat32, {8, 1});
    rows.offsets = offsets_;
    return finish.Finish(rows, parts);
  }

  const std::unique_ptr<Backend> backend_ = MakeCpuBackend({.num_threads = 1});
  PoolingStandIn transformer_;
  const ModelHeads heads_;
  std::vector<float> hidden_ = {1, 3, 5, 6, 7, 8, 20, 40};
  const std::vector<int32_t> offsets_ = {0, 2, 3, 6, 8};
};

TEST_F(FinishStepTest, JobsThatAreReadAlikeShareACall) {
  const Encoding pooled = VectorsOf(std::make_unique<PooledRows>(RowReader::Mode{}));
  const Encoding tokens = VectorsOf(std::make_unique<TokenRows>(false));
  std::vector<Embedding> first(2), second(1), third(1);
  std::vector<JobPart> parts = {
      {&pooled, first, 0, 2, 0}, {&tokens, second, 0, 1, 2}, {&pooled, third, 0, 1, 3}};
  ASSERT_TRUE(Finish(parts).ok());
  EXPECT_THAT(transformer_.calls, ElementsAre(6));
  EXPECT_THAT(first[0].values, ElementsAre(2));
  EXPECT_THAT(first[1].values, ElementsAre(5));
  EXPECT_THAT(second[0].values, ElementsAre(6, 7, 8));
  EXPECT_EQ(second[0].num_vectors, 3);
  EXPECT_THAT(third[0].values, ElementsAre(30));
}

TEST_F(FinishStepTest, OthersAreReadByThemselvesAndNoMoreThanFitAtOnce) {
  const Encoding pooled = VectorsOf(std::make_unique<PooledRows>(RowReader::Mode{Pooling::kLast}));
  const Encoding tokens = VectorsOf(std::make_unique<TokenRows>(false));
  std::vector<Embedding> first(2), second(2);
  std::vector<JobPart> parts = {{&pooled, first, 0, 2, 0}, {&tokens, second, 0, 2, 2}};
  ASSERT_TRUE(Finish(parts, /*most_rows=*/2).ok());
  EXPECT_THAT(transformer_.calls, ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(first[0].values, ElementsAre(3));
  EXPECT_THAT(first[1].values, ElementsAre(5));
  EXPECT_THAT(second[0].values, ElementsAre(6, 7, 8));
  EXPECT_THAT(second[1].values, ElementsAre(20, 40));
}

// The third token of the third input alone, and the job's last input: what is between them is
// pooled, and not read.
TEST_F(FinishStepTest, RowsBetweenMasksAreDropped) {
  const Encoding masked = VectorsOf(
      std::make_unique<MaskedRows>(std::vector<std::vector<int32_t>>{{0}, {}, {2}, {0, 1}}));
  std::vector<Embedding> inputs(4);
  std::vector<JobPart> parts = {{&masked, inputs, 2, 4, 2}};
  ASSERT_TRUE(Finish(parts).ok());
  EXPECT_THAT(inputs[2].values, ElementsAre(8));
  EXPECT_THAT(inputs[3].values, ElementsAre(20, 40));
  std::vector<JobPart> all = {{&masked, inputs, 0, 4, 0}};
  ASSERT_TRUE(Finish(all).ok());
  EXPECT_THAT(inputs[0].values, ElementsAre(1));
  EXPECT_THAT(inputs[1].values, ElementsAre());
  EXPECT_THAT(inputs[2].values, ElementsAre(8));
}

TEST_F(FinishStepTest, AJobWhoseNumbersAreNotFiniteFailsAlone) {
  hidden_[2] = kInf;
  const Encoding pooled = VectorsOf(std::make_unique<PooledRows>(RowReader::Mode{}));
  std::vector<Embedding> first(1), second(1), third(2);
  std::vector<JobPart> parts = {
      {&pooled, first, 0, 1, 0}, {&pooled, second, 0, 1, 1}, {&pooled, third, 0, 2, 2}};
  ASSERT_TRUE(Finish(parts).ok());
  EXPECT_TRUE(parts[0].is_finite);
  EXPECT_FALSE(parts[1].is_finite);
  EXPECT_TRUE(parts[2].is_finite);
  EXPECT_TRUE(second[0].values.empty());
  EXPECT_THAT(third[1].values, ElementsAre(30));
}

}  // namespace
}  // namespace beamline::finish_step_test
