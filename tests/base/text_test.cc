#include "base/text.h"

#include <gtest/gtest.h>

namespace beamline {
namespace {

TEST(Text, ShortenKeepsBeginningAndEnd) {
  EXPECT_EQ(Shorten("0123456789abcdef", 16), "0123456789abcdef");
  const std::string text = "begin" + std::string(10'000, 'x') + "end";
  const std::string shortened = Shorten(text, 100);
  EXPECT_LE(shortened.size(), 100u);
  EXPECT_TRUE(shortened.starts_with("beginx"));
  EXPECT_TRUE(shortened.ends_with("xend"));
  EXPECT_NE(shortened.find("x ... x"), std::string::npos);
}

TEST(Text, ShortenCutsNoCharacter) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "ä€𝄞";
  for (size_t size = 16; size < 60; ++size) {
    EXPECT_TRUE(IsValidUtf8(Shorten(text, size))) << size;
    EXPECT_LE(Shorten(text, size).size(), size);
  }
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
