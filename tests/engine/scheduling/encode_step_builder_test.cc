#include "engine/scheduling/encode_step_builder.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace beamline::encode_step_builder_test {
namespace {

class EncodeStepBuilderTest : public testing::Test {
 protected:
  EncodeJob& Add(const std::vector<int>& lengths, int32_t priority = 0) {
    auto job = std::make_unique<EncodeJob>();
    for (const int length : lengths) job->inputs.emplace_back(length, ++last_token_);
    job->rank.priority = priority;
    EncodeJob& added = *job;
    jobs_.Add(std::move(job));
    return added;
  }
  const EncoderBatch& Build() {
    builder_.Build(jobs_, Clock::time_point());
    return builder_.batch();
  }

  int32_t last_token_ = 0;
  JobList<EncodeJob> jobs_;
  EncodeStepBuilder builder_{{.max_batch_tokens = 10, .max_sequences = 3}};
};

TEST_F(EncodeStepBuilderTest, PacksWholeInputsUntilOneDoesNotFit) {
  EncodeJob& first = Add({2, 3});
  EncodeJob& second = Add({5, 1});
  EXPECT_EQ(Build().token_ids, (std::vector<int32_t>{1, 1, 2, 2, 2, 3, 3, 3, 3, 3}));
  EXPECT_EQ(Build().num_sequences(), 1);  // the one that is left
  EXPECT_EQ(builder_.batch().token_ids, (std::vector<int32_t>{4}));
  ASSERT_EQ(builder_.slices().size(), 1u);
  EXPECT_EQ(builder_.slices()[0].job, &second);
  EXPECT_EQ(builder_.slices()[0].begin, 1u);
  EXPECT_EQ(builder_.slices()[0].end, 2u);
  EXPECT_EQ(builder_.slices()[0].first, 0);
  EXPECT_EQ(first.num_started, 2u);
  EXPECT_TRUE(first.begun());
  EXPECT_EQ(Build().num_sequences(), 0);
  EXPECT_TRUE(builder_.slices().empty());
}

TEST_F(EncodeStepBuilderTest, TypesOfAnInputStandAtItsTokens) {
  Add({2});
  EncodeJob& typed = Add({1, 2});
  typed.type_ids = {{1}, {0, 2}};
  EXPECT_EQ(Build().type_ids, (std::vector<int32_t>{0, 0, 1, 0, 2}));
  Add({3});
  EXPECT_TRUE(Build().type_ids.empty());
  Add({1}).type_ids = {{1}};
  Add({2});
  EXPECT_EQ(Build().type_ids, (std::vector<int32_t>{1, 0, 0}));
}

TEST_F(EncodeStepBuilderTest, HasNoMoreSequencesThanThereMayBe) {
  EncodeJob& job = Add({1, 1, 1, 1});
  EXPECT_EQ(Build().offsets, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(job.num_started, 3u);
}

TEST_F(EncodeStepBuilderTest, NobodyPassesTheOneThatIsNext) {
  EncodeJob& large = Add({6, 6});
  EncodeJob& small = Add({1});
  EXPECT_EQ(Build().token_ids.size(), 6u);
  EXPECT_EQ(large.num_started, 1u);
  EXPECT_FALSE(small.begun());
}

TEST_F(EncodeStepBuilderTest, TheHigherPriorityIsPackedFirst) {
  EncodeJob& low = Add({4});
  EncodeJob& high = Add({7}, /*priority=*/1);
  EXPECT_EQ(Build().token_ids.size(), 7u);
  ASSERT_EQ(builder_.slices().size(), 1u);
  EXPECT_EQ(builder_.slices()[0].job, &high);
  EXPECT_FALSE(low.begun());
}

}  // namespace
}  // namespace beamline::encode_step_builder_test
