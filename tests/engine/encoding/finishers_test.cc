#include "engine/encoding/finishers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/encoding/encoding.h"

namespace beamline::finishers_test {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::FloatNear;
using testing::Pair;

HostRows Applied(const Finisher& finisher, std::vector<float> values, int32_t width) {
  HostRows rows{std::move(values), width};
  finisher.Apply(rows);
  return rows;
}

TEST(FinishersTest, UnitLengthDividesEachRowByItsNorm) {
  const HostRows rows = Applied(UnitLength(), {3, 4, 0, 0, -2, 0}, 2);
  EXPECT_EQ(rows.width, 2);
  EXPECT_THAT(rows.values, ElementsAre(FloatEq(0.6f), FloatEq(0.8f), 0, 0, -1, 0));
}

TEST(FinishersTest, FirstDimensionsCutsEachRow) {
  HostRows rows = Applied(FirstDimensions(2, /*normalize=*/false), {3, 4, 12, 1, 2, 3}, 3);
  EXPECT_EQ(rows.width, 2);
  EXPECT_THAT(rows.values, ElementsAre(3, 4, 1, 2));
  rows = Applied(FirstDimensions(2, /*normalize=*/true), {3, 4, 12, 0, 0, 5}, 3);
  EXPECT_THAT(rows.values, ElementsAre(FloatEq(0.6f), FloatEq(0.8f), 0, 0));
  rows = Applied(FirstDimensions(3, /*normalize=*/true), {3, 4, 12}, 3);  // nothing is cut
  EXPECT_THAT(rows.values, ElementsAre(3, 4, 12));
}

TEST(FinishersTest, SoftmaxIsOfEachRow) {
  // e^0 : e^ln 3 is 1 : 3, whatever is added to both.
  const float ln3 = std::log(3.0f);
  const HostRows rows =
      Applied(ClassScores(ScoreFunction::kSoftmax), {0, ln3, 200, 200 + ln3, -9, -9}, 2);
  EXPECT_THAT(rows.values, ElementsAre(FloatEq(0.25f), FloatEq(0.75f), FloatNear(0.25f, 1e-5f),
                                       FloatNear(0.75f, 1e-5f), FloatEq(0.5f), FloatEq(0.5f)));
}

TEST(FinishersTest, SigmoidIsOfEachValueAndNoFunctionOfNone) {
  HostRows rows = Applied(ClassScores(ScoreFunction::kSigmoid), {0, std::log(3.0f), -500}, 3);
  EXPECT_THAT(rows.values, ElementsAre(FloatEq(0.5f), FloatEq(0.75f), FloatEq(0)));
  rows = Applied(ClassScores(ScoreFunction::kNone), {7, -500}, 2);
  EXPECT_THAT(rows.values, ElementsAre(7, -500));
}

TEST(FinishersTest, VectorsAreOfTheFinishersInTheirOrder) {
  VectorAnswers::Finishers finishers;
  finishers.push_back(std::make_unique<FirstDimensions>(2, /*normalize=*/false));
  finishers.push_back(std::make_unique<UnitLength>());
  VectorAnswers answers(std::move(finishers));
  const std::vector<float> values = {3, 4, 12, 0, -5, 1, 8, 6, 0};
  const int32_t num_rows[] = {1, 2};
  FinishedRows rows;
  rows.values = values;
  rows.width = 3;
  rows.num_rows = num_rows;
  rows.first_input = 1;
  std::vector<Embedding> inputs(3);
  ASSERT_TRUE(answers.Make(rows, ModelHeads(), inputs).value());
  EXPECT_TRUE(inputs[0].values.empty());
  EXPECT_EQ(inputs[1].num_vectors, 1);
  EXPECT_EQ(inputs[1].dimensions, 2);
  EXPECT_THAT(inputs[1].values, ElementsAre(FloatEq(0.6f), FloatEq(0.8f)));
  EXPECT_EQ(inputs[2].num_vectors, 2);
  EXPECT_THAT(inputs[2].values, ElementsAre(0, -1, FloatEq(0.8f), FloatEq(0.6f)));
  EXPECT_TRUE(answers.TakeMasks().empty());
}

// Logarithms of 1, 4, 4 and 7, of 16 together.
TEST(FinishersTest, TheLikeliestHaveProbabilitiesOfAllIds) {
  const std::vector<float> logits = {0, std::log(4.0f), std::log(4.0f), std::log(7.0f)};
  EXPECT_THAT(
      Likeliest(logits, 3, {}),
      ElementsAre(Pair(3, FloatEq(7.0f / 16)), Pair(1, FloatEq(0.25f)), Pair(2, FloatEq(0.25f))));
  EXPECT_THAT(Likeliest(logits, 9, {0, 2}),
              ElementsAre(Pair(2, FloatEq(0.25f)), Pair(0, FloatEq(1.0f / 16))));
}

}  // namespace
}  // namespace beamline::finishers_test
