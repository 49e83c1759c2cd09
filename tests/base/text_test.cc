#include "base/text.h"

#include <gtest/gtest.h>

#include <string>

namespace beamline {
namespace {

TEST(Text, ShortenLeavesShortTextsAsTheyAre) {
  for (const char* text : {"", "fält aus", "0123456789abcdef"}) EXPECT_EQ(Shorten(text, 16), text);
}

TEST(Text, ShortenKeepsBeginningAndEnd) {
  EXPECT_EQ(Shorten("beginning and the end", 16), "beginni ...  end");
  EXPECT_EQ(Shorten("beginning" + std::string(10'000'000, 'x') + "end", 16), "beginni ... xend");
}

TEST(Text, ShortenCutsBetweenCharacters) {
  for (const char* character : {"ä", "€", "𝄞"}) {
    for (size_t prefix = 0; prefix < 4; ++prefix) {
      std::string text(prefix, 'x');
      for (int i = 0; i < 1000; ++i) text += character;
      for (size_t size : {size_t{16}, size_t{17}, size_t{40}, size_t{999}}) {
        const std::string cut = Shorten(text, size);
        EXPECT_LE(cut.size(), size);
        EXPECT_GE(cut.size() + 8, size);
        EXPECT_TRUE(IsValidUtf8(cut)) << cut;
        EXPECT_EQ(cut.find("\uFFFD"), std::string::npos) << cut;
      }
    }
  }
}

TEST(Text, ShortenMakesOneLineOfUtf8) {
  EXPECT_EQ(Shorten(std::string("a\nb\0c\x7F\xFF", 7), 16), "a b c \uFFFD");
  const std::string cut = Shorten(std::string(100'000, '\xC3'), 40);
  EXPECT_LE(cut.size(), 40u);
  EXPECT_TRUE(IsValidUtf8(cut));
}

TEST(Text, Utf8) {
  for (const char* valid : {"", "a", "ä", "€", "𝄞", "\x7F", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsValidUtf8(valid)) << valid;
  }
  for (const char* invalid :
       {"\x80", "\xC3", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xE2\x82", "\xC3(", "\xE2\x28\xA1"}) {
    EXPECT_FALSE(IsValidUtf8(invalid)) << testing::PrintToString(std::string(invalid));
  }
}

TEST(Text, ErrorLineIsOneShortLine) {
  EXPECT_EQ(ErrorLine("p", "a\nb\x1B[1m\tc"), "p: a b [1m c\n");
  EXPECT_EQ(ErrorLine("p", "over\n"), "p: over\n");
  const std::string line = ErrorLine("program", std::string(1 << 20, 'x'));
  EXPECT_LE(line.size(), kMaxErrorLineBytes);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(Text, ClosestFindsSlipsAndBeginnings) {
  const std::vector<std::string> names = {"--max-new-tokens", "--min-new-tokens", "--greedy", "--n",
                                          "--top-k",          "--top-p"};
  EXPECT_EQ(Closest("--max-new-token", names), "--max-new-tokens");
  EXPECT_EQ(Closest("--gredy", names), "--greedy");
  EXPECT_EQ(Closest("--greeyd", names), "--greedy");
  EXPECT_EQ(Closest("--max_new_tokens", names), "--max-new-tokens");
  EXPECT_EQ(Closest("--max", names), "--max-new-tokens");
  EXPECT_EQ(Closest("--temperature", names), "");
  EXPECT_EQ(Closest("", names), "");
  EXPECT_EQ(Closest(std::string(100'000, '-'), names), "");
  EXPECT_EQ(DidYouMean("write-em", {"embed-en", "write-en"}), "; did you mean 'write-en'?");
  EXPECT_EQ(DidYouMean("gpt", {"embed-en", "write-en"}), "");
}

}  // namespace
}  // namespace beamline
