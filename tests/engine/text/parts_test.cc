// The parts that the fixtures do not reach on their own.
#include <random>
#include <string>
#include <vector>

#include "engine/text/decoders.h"
#include "engine/text/literal_replacer.h"
#include "engine/text/oniguruma.h"
#include "engine/text/precompiled_charsmap.h"
#include "engine/text/regex.h"
#include "engine/text/sentencepiece_file.h"
#include "gtest/gtest.h"
#include "tests/test_seed.h"

namespace beamline::text::parts_test {
namespace {

std::string ReplaceAll(std::string text, const std::string& pattern, const std::string& content) {
  for (size_t at = text.find(pattern); at != std::string::npos;
       at = text.find(pattern, at + content.size())) {
    text.replace(at, pattern.size(), content);
  }
  return text;
}

TEST(LiteralReplacerTest, StreamEqualsWhole) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto word = [&](size_t size) {
    std::string text;
    while (text.size() < size) text += "ab "[random() % 3];
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string pattern = word(1 + random() % 4), content = word(random() % 3);
    LiteralReplacer replacer(pattern, content);
    std::string whole, replaced;
    for (int j = 0; j < 8; ++j) {
      const std::string part = word(random() % 6);
      whole += part;
      replacer.Push(part, &replaced);
    }
    replacer.Finish(&replaced);
    EXPECT_EQ(replaced, ReplaceAll(whole, pattern, content)) << whole << " / " << pattern;
  }
}

std::string Decoded(const char* component, const std::vector<std::string>& tokens) {
  const auto json = nlohmann::json::parse(component);
  DecodeChain chain;
  EXPECT_TRUE(AddDecoder(JsonNode(json, "decoder"), &chain).ok());
  std::string text;
  for (const std::string& token : tokens) chain.Push(token, &text);
  chain.Finish(&text);
  return text;
}

TEST(DecodersTest, StripTakesAtMostSoManyFromEachEnd) {
  const char* strip = R"({"type": "Strip", "content": "x", "start": 1, "stop": 2})";
  EXPECT_EQ(Decoded(strip, {"xxaxxx", "bx", "xxxx", "x", ""}), "xaxbx");
  const char* fused = R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
      {"type": "Strip", "content": "x", "start": 1, "stop": 2}]})";
  EXPECT_EQ(Decoded(fused, {"xxa", "xx", "x", "b", "xx", "x"}), "xaxxxbx");
}

TEST(DecodersTest, ByteFallbackIsAllOrNothing) {
  const char* bytes = R"({"type": "ByteFallback"})";
  EXPECT_EQ(Decoded(bytes, {"a", "<0xC3>", "<0xA9>", "b"}), "a\u00e9b");
  EXPECT_EQ(Decoded(bytes, {"<0xC3>", "<0xA9>", "<0xC3>", "b"}), "\uFFFD\uFFFD\uFFFDb");
  EXPECT_EQ(Decoded(bytes, {"<0xE2>", "<0x82>"}), "\uFFFD\uFFFD");
  EXPECT_EQ(Decoded(bytes, {"<0x4G>", "<0x41>"}), "<0x4G>A");
}

TEST(DecodersTest, BpeMarksBecomeSpacesButTheLast) {
  EXPECT_EQ(Decoded(R"({"type": "BPEDecoder", "suffix": "</w>"})", {"a", "b</w>", "c</w>"}),
            "ab c");
}

TEST(OnigurumaTest, TranslatesWhatPcreReadsDifferently) {
  EXPECT_EQ(*TranslatePattern(R"(\p{Han}\p{Lu}\P{^Letter})"), R"(\p{sc:Han}\p{Lu}\P{^L})");
  EXPECT_EQ(*TranslatePattern(R"([^\s\p{N}]\S\\s)"),
            R"([^\p{White_Space}\p{N}]\P{White_Space}\\s)");
  EXPECT_EQ(*TranslatePattern(R"(\h[[:alpha:]\h])"), R"([0-9a-fA-F][[:alpha:]0-9a-fA-F])");
  EXPECT_FALSE(TranslatePattern("[a-z&&[^x]]").ok());
  EXPECT_FALSE(TranslatePattern("[a[bc]]").ok());
}

TEST(RegexTest, FindsEmptyMatchesOnce) {
  const auto regex = Regex::Compile("b*");
  std::vector<RegexMatch> matches;
  ASSERT_TRUE(regex->FindAll("abb\u00e9", &matches).ok());
  std::vector<std::pair<size_t, size_t>> bounds;
  for (const RegexMatch& match : matches) bounds.emplace_back(match.begin, match.end);
  EXPECT_EQ(bounds, (std::vector<std::pair<size_t, size_t>>{{0, 0}, {1, 3}, {5, 5}}));
}

TEST(RegexTest, GivesUpOnEndlessBacktracking) {
  const auto regex = Regex::Compile("(a|aa|a?)+$|(a*)*b");
  std::vector<RegexMatch> matches;
  const absl::Status status = regex->FindAll(std::string(200000, 'a') + "c", &matches);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

// What an unknown piece decodes to goes into answers, which hold UTF-8 alone.
TEST(SentencePieceFileTest, ASurfaceThatIsNotUtf8IsRefused) {
  const std::string piece("\x0A\x07\x0A\x03<u>\x18\x02");
  const std::string surface("\x12\x04\xE2\x02\x01");
  EXPECT_TRUE(ParseSentencePieceFile(piece + surface + "?").ok());
  const auto file = ParseSentencePieceFile(piece + surface + "\xFF");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(file.status().message()), "what the unknown piece decodes to is not UTF-8");
}

}  // namespace
}  // namespace beamline::text::parts_test
