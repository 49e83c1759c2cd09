#include "base/text.h"

#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"

namespace beamline::text_test {
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

// An error line must not be able to look like another, nor to command the terminal.
TEST(Text, ShortenShowsWhatWouldNotShow) {
  EXPECT_EQ(Shorten("a\u202Eb"), "a<U+202E>b");
  for (const char* hidden : {"\u00AD", "\u061C", "\u180E", "\u200B", "\u200E", "\u200F", "\u2028",
                             "\u2029", "\u202A", "\u202E", "\u2060", "\u2066", "\u2069", "\u206F",
                             "\uFEFF", "\uFFF9", "\U0001D173", "\U000E0001", "\U000E0041"}) {
    const std::string shown = Shorten(std::string("x") + hidden + "y");
    EXPECT_TRUE(shown.starts_with("x<U+") && shown.ends_with(">y")) << shown;
    EXPECT_FALSE(IsPlainText(hidden)) << shown;
  }
  for (const char* control : {"\x01", "\n", "\x1B", "\x7F", "\u0080", "\u009B", "\u009F"}) {
    EXPECT_EQ(Shorten(std::string("x") + control + "y"), "x y");
    EXPECT_FALSE(IsPlainText(control));
  }
  // Joiners belong to words, and no-break spaces and accents show.
  for (const char* plain : {"", "a b", "\u00A0", "\u00E4", "a\u0308", "\u0645\u06CC\u200C\u062E",
                            "\u2027", "\u202F", "\u2070", "\U0001F468\u200D\U0001F467", "\uFE0F"}) {
    EXPECT_EQ(Shorten(plain), plain);
    EXPECT_TRUE(IsPlainText(plain)) << plain;
  }
  EXPECT_FALSE(IsPlainText("\xFF"));
  // The longer spelling counts for the length.
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "\u202E";
  EXPECT_LE(Shorten(many, 50).size(), 50u);
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
}  // namespace beamline::text_test
