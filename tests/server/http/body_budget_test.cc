#include "server/http/body_budget.h"

#include <gtest/gtest.h>

namespace beamline::body_budget_test {
namespace {

using Refusal = BodyBudget::Refusal;

TEST(BodyBudget, OneClientHasHalfButForASingleBody) {
  BodyBudget budget(320);
  EXPECT_EQ(budget.Take("a", 0, 200), Refusal::kNone);
  EXPECT_EQ(budget.Take("a", 0, 1), Refusal::kClient);
  EXPECT_EQ(budget.Take("a", 200, 120), Refusal::kNone);  // all of it, as it is alone
  EXPECT_EQ(budget.Take("a", 320, 1), Refusal::kAll);
  budget.Give("a", 320);
  EXPECT_EQ(budget.Take("a", 0, 100), Refusal::kNone);
  EXPECT_EQ(budget.Take("a", 0, 60), Refusal::kNone);
  EXPECT_EQ(budget.Take("a", 60, 1), Refusal::kClient);
}

TEST(BodyBudget, TheLastBytesAreForClientsThatHaveFew) {
  BodyBudget budget(320);
  EXPECT_EQ(budget.Take("a", 0, 160), Refusal::kNone);
  EXPECT_EQ(budget.Take("b", 0, 140), Refusal::kNone);
  EXPECT_EQ(budget.Take("b", 0, 1), Refusal::kAll);
  EXPECT_EQ(budget.Take("c", 0, 20), Refusal::kNone);
  EXPECT_EQ(budget.Take("d", 0, 1), Refusal::kAll);
  budget.Give("b", 140);
  EXPECT_EQ(budget.Take("d", 0, 1), Refusal::kNone);
}

}  // namespace
}  // namespace beamline::body_budget_test
