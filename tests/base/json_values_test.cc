// How many values a JSON text may have: millions, for which a sanitizer takes a minute.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"

namespace beamline::json_values_test {
namespace {

// Each kind of value counts, names too.
TEST(JsonValues, AreHeldUpToALimit) {
  constexpr std::string_view kGroup = R"(0,-1,0.5,"",[],{},true,null,{"a":0},)";
  constexpr size_t kGroupSize = 11;
  constexpr size_t kMembers = kMaxJsonValues - 1;  // the array itself counts
  std::string text = "[";
  for (size_t i = 0; i < kMembers / kGroupSize; ++i) text += kGroup;
  for (size_t i = 0; i < kMembers % kGroupSize; ++i) text += "0,";
  text.back() = ']';
  EXPECT_EQ(ParseJson(text, "a.json").status().message(), "");
  text.back() = ',';
  EXPECT_EQ(ParseJson(text + "0]", "a.json").status().message(),
            "a.json: more than 8388608 values");
}

}  // namespace
}  // namespace beamline::json_values_test
