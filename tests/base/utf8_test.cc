#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace beamline::utf8_test {
namespace {

TEST(Utf8Test, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8("plain ASCII text of some length"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("\u00e4\u4e2d\U0001F600"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("12345678\xC0\xAF"), 8u);
  EXPECT_EQ(FindInvalidUtf8("\xF0\x9F\x98"), 0u);
}

// Overlong forms, surrogates, what is past the last character, half characters.
TEST(Utf8Test, ValidIsWhatTheStandardSays) {
  for (const char* good : {"", "a", "\u00e4\u4e2d", "\xED\x9F\xBF", "\xEE\x80\x80", "\U0010FFFF"}) {
    EXPECT_TRUE(IsValidUtf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE4\xB8"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  }
}

}  // namespace
}  // namespace beamline::utf8_test
