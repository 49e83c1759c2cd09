#include "base/json_slices.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace beamline::json_slices_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(JsonSlicesTest, ItemsStandAsTheyAre) {
  EXPECT_THAT(ListItems("[]"), IsEmpty());
  EXPECT_THAT(ListItems(" [ \n ] "), IsEmpty());
  EXPECT_THAT(ListItems("[1]"), ElementsAre("1"));
  EXPECT_THAT(ListItems(R"( [ 1 , "a,]\\\"b" , [2,[3]] , {"x":[4,5],"y":"}"} , null ] )"),
              ElementsAre("1", R"("a,]\\\"b")", "[2,[3]]", R"({"x":[4,5],"y":"}"})", "null"));
}

TEST(JsonSlicesTest, MembersKeepTheirOrder) {
  EXPECT_THAT(ObjectMembers("{}"), IsEmpty());
  const auto members =
      ObjectMembers(R"( {"z" : 1.50 , "a\u00e9\"":{"b":[1, 2],"c":"]"},"":[ ] } )");
  ASSERT_EQ(members.size(), 3U);
  EXPECT_EQ(members[0].name, "z");
  EXPECT_EQ(members[0].value, "1.50");
  EXPECT_EQ(members[1].name, "a\xc3\xa9\"");
  EXPECT_EQ(members[1].value, R"({"b":[1, 2],"c":"]"})");
  EXPECT_EQ(members[2].name, "");
  EXPECT_EQ(members[2].value, "[ ]");
}

}  // namespace
}  // namespace beamline::json_slices_test
