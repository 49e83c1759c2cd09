#include "engine/text/error_line.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/text/utf8.h"

namespace beamline {
namespace {

TEST(ErrorLineTest, LeavesShortTextsAsTheyAre) {
  EXPECT_EQ(Excerpt("", 16), "");
  EXPECT_EQ(Excerpt("f\u00e4lt aus", 16), "f\u00e4lt aus");
  EXPECT_EQ(Excerpt("exactly sixteen.", 16), "exactly sixteen.");
}

TEST(ErrorLineTest, KeepsBeginningAndEnd) {
  EXPECT_EQ(Excerpt("beginning and the end", 16), "beginni ...  end");
  EXPECT_EQ(Excerpt("beginning" + std::string(10000000, 'x') + "end", 16), "beginni ... xend");
}

TEST(ErrorLineTest, CutsBetweenCharacters) {
  for (const char* character : {"\u00e4", "\u20ac", "\U0001F600"}) {
    for (size_t prefix = 0; prefix < 4; ++prefix) {
      std::string text(prefix, 'x');
      for (int i = 0; i < 1000; ++i) text += character;
      for (size_t size : {size_t{16}, size_t{17}, size_t{40}, size_t{999}}) {
        const std::string cut = Excerpt(text, size);
        EXPECT_LE(cut.size(), size);
        EXPECT_GE(cut.size() + 8, size);
        EXPECT_FALSE(text::FindInvalidUtf8(cut).has_value()) << cut;
        EXPECT_EQ(cut.find("\uFFFD"), std::string::npos) << cut;
      }
    }
  }
}

TEST(ErrorLineTest, IsOneLineOfUtf8) {
  EXPECT_EQ(Excerpt(std::string("a\nb\0c\x7F\xFF", 7), 16), "a b c \uFFFD");
  const std::string cut = Excerpt(std::string(100000, '\xC3'), 40);
  EXPECT_LE(cut.size(), 40u);
  EXPECT_FALSE(text::FindInvalidUtf8(cut).has_value());
}

TEST(ErrorLineTest, WithPlaceNamesThePlaceOnce) {
  EXPECT_TRUE(WithPlace("f", absl::OkStatus()).ok());
  const absl::Status named = WithPlace("x/f.json", absl::NotFoundError("no such token"));
  EXPECT_EQ(named, absl::NotFoundError("x/f.json: no such token"));
  EXPECT_EQ(WithPlace("x/f.json", named), named);
}

}  // namespace
}  // namespace beamline
