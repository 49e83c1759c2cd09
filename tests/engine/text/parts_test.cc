// The parts that the fixtures do not reach on their own.
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/stop_check.h"
#include "engine/text/counted_pattern.h"
#include "engine/text/decoders.h"
#include "engine/text/literal_replacer.h"
#include "engine/text/oniguruma.h"
#include "engine/text/precompiled_charsmap.h"
#include "engine/text/regex.h"
#include "engine/text/sentencepiece_file.h"
#include "engine/text/sentencepiece_model.h"
#include "gtest/gtest.h"
#include "tests/scratch_path.h"
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

TEST(CountedPatternTest, CallsOutBehindWhatRepeats) {
  const auto counted = [](std::string_view pattern) { return AddCallouts(pattern).pattern; };
  EXPECT_EQ(counted(R"('s| ?\p{L}+|\s+(?!\S)|\s+)"), R"('s| ?\p{L}+(?C)|\s+(?C)(?!\S)|\s+(?C))");
  EXPECT_EQ(counted("(?s).*?b|.+?c++"), "(?s).*?(?C)b|.+?(?C)c++(?C)");
  EXPECT_EQ(counted(R"(a{2}\x{20}{3,}\p{L}{1,2}+x{,}b{c})"),
            R"(a{2}(?C)\x{20}{3,}(?C)\p{L}{1,2}+(?C)x{,}b{c})");
  EXPECT_EQ(counted(R"([*+]+[]*+][^]*][[:alpha:]*]\*\[*)"),
            R"([*+]+(?C)[]*+][^]*][[:alpha:]*]\*\[*(?C))");
  EXPECT_EQ(counted(R"((?#a*b)(?:a*)+\Qa*b\E*)"), R"((?#a*b)(?:a*(?C))+(?C)\Qa*b\E*(?C))");
  EXPECT_FALSE(AddCallouts(R"(a+\d+(?:x))").has_back_references);
  EXPECT_TRUE(AddCallouts(R"((a+)\1)").has_back_references);
  EXPECT_TRUE(AddCallouts(R"((?<n>a+)\k<n>)").has_back_references);
  std::string alternatives = "a";
  for (int i = 0; i < 16; ++i) alternatives += "|b";
  EXPECT_EQ(counted(alternatives), alternatives.substr(0, 32) + "(?C16)b");
  EXPECT_EQ(counted(std::string(250, 'a')), std::string(200, 'a') + "(?C)" + std::string(50, 'a'));
}

// What a search may cost: patterns that read much of the text at each of its bytes.
TEST(RegexTest, CountsWhatItReads) {
  std::string words, literal = "a";
  for (int i = 0; i < 3000; ++i) words += "|ac" + std::to_string(i);
  for (int i = 0; i < 3000; ++i) literal += "aaaaaaaaaa";
  for (const std::string& pattern :
       {std::string("(?s).*?b|."), std::string("[^b]*b|."), std::string("[^b]*+b|."),
        std::string("(?:aa)*b|."), std::string("(?:[^b]{1000})+b|."), std::string("[^b]{60000}b|."),
        std::string("(?s)(.*)\\1b|."), std::string("a+?(?=b)|."), std::string("(?<!a)b|.*c|."),
        std::string("(?x) a * ? b | ."), "(?:ab" + words + ")", literal + "b|."}) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status();
    TextWork work(200000);
    std::vector<RegexMatch> matches;
    const absl::Status status = regex->FindAll(std::string(200000, 'a'), &matches, &work);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pattern.substr(0, 40);
    EXPECT_EQ(status, work.status()) << pattern.substr(0, 40);
    EXPECT_LT(work.spent(), 100'000'000u);
  }
  // Published ones take little.
  std::string text;
  while (text.size() < 1000000) text += "The quick brown fox, it's 12345 times   as lazy!\n";
  const auto gpt2 = Regex::Compile(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
  TextWork work(text.size());
  std::vector<RegexMatch> matches;
  EXPECT_TRUE(gpt2->FindAll(text, &matches, &work).ok());
  EXPECT_LT(work.spent(), 4 * text.size());
}

TEST(RegexTest, IsStoppedFromOutside) {
  int asked = 0;
  const StopWhen stop(
      [&asked] { return ++asked < 3 ? absl::OkStatus() : absl::CancelledError("nobody waits"); });
  // One match that takes long, and many that take a little.
  for (const char* pattern : {"(a*)*(a*)*[bd]", "[^b]*b|."}) {
    asked = 0;
    std::vector<RegexMatch> matches;
    EXPECT_EQ(Regex::Compile(pattern)->FindAll(std::string(20000, 'a') + "c", &matches),
              absl::CancelledError("nobody waits"));
    EXPECT_EQ(asked, 3);
  }
}

// A text may go on beginning with a piece at each of its bytes.
TEST(SentencePieceModelTest, LongPiecesAreRefused) {
  const std::string unknown("\x0A\x07\x0A\x03<u>\x18\x02");
  for (const size_t size : {512, 513}) {
    const auto two_bytes = [](size_t value) {
      return std::string{static_cast<char>(0x80 | (value & 0x7F)), static_cast<char>(value >> 7)};
    };
    const std::string piece = "\x0A" + two_bytes(size) + std::string(size, 'a');
    const std::string path = ScratchPath("long_piece.spm");
    std::ofstream(path, std::ios::binary) << unknown << "\x0A" << two_bytes(piece.size()) << piece;
    const absl::Status status = SentencePieceModel::Load(CheckpointPath(path)).status();
    if (size == 512) {
      EXPECT_TRUE(status.ok()) << status;
    } else {
      EXPECT_EQ(status,
                absl::InvalidArgumentError(path + ": a piece of 513 bytes; accepted: at most 512"));
    }
  }
}

// A field of a protobuf message.
std::string Field(int number, const std::string& bytes) {
  std::string field(1, static_cast<char>(number << 3 | 2));
  size_t size = bytes.size();
  for (; size >= 0x80; size >>= 7) field += static_cast<char>(0x80 | (size & 0x7F));
  return field + static_cast<char>(size) + bytes;
}

// A model with the pieces "<u>", "a" and `piece`, and a character map: "a" is a node of its trie.
absl::StatusOr<std::unique_ptr<SentencePieceModel>> ModelWithMap(
    const std::string& piece, const std::vector<std::pair<size_t, uint32_t>>& nodes,
    const std::string& replacements) {
  std::string model = Field(1, Field(1, "<u>") + "\x18\x02");
  for (const std::string& text : {std::string("a"), piece}) model += Field(1, Field(1, text));
  if (!nodes.empty()) {
    std::vector<uint32_t> units(512);
    for (const auto& [node, unit] : nodes) units[node] = unit;
    const auto trie_bytes = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
    std::string map(reinterpret_cast<const char*>(&trie_bytes), sizeof(trie_bytes));
    map.append(reinterpret_cast<const char*>(units.data()), trie_bytes);
    model += Field(3, Field(2, map + replacements));
  }
  const std::string path = ScratchPath("model.spm");
  std::ofstream(path, std::ios::binary) << model;
  return SentencePieceModel::Load(CheckpointPath(path));
}

TEST(SentencePieceModelTest, WhatATextTakesIsBounded) {
  const std::string text(100000, 'a');
  // "a" leads back to itself: each byte reads the whole rest.
  constexpr uint32_t kCircle = uint32_t{'a'} << 10 | 'a';
  const auto circle = ModelWithMap("b", {{'a', kCircle}}, "b");
  ASSERT_TRUE(circle.ok()) << circle.status();
  EXPECT_TRUE((*circle)->Encode("aaa").ok());
  EXPECT_EQ((*circle)->Encode(text).status().message(),
            "the tokenizer takes more than 59154432 steps for this text of 100000 bytes; a text of "
            "other or fewer characters may take fewer");
  // "a" becomes a thousand times as much.
  constexpr uint32_t kLeaf = uint32_t{0x100} << 10 | 1 << 8 | 'a';
  const auto growing = ModelWithMap("b", {{'a', kLeaf}, {'a' ^ 0x100, 0}},
                                    std::string(1000, 'b') + std::string(1, '\0'));
  ASSERT_TRUE(growing.ok()) << growing.status();
  EXPECT_TRUE((*growing)->Encode("aaa").ok());
  EXPECT_EQ((*growing)->Encode(text).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*growing)->Encode(std::string(600000, 'a')).status().message(),
            "the tokenizer's normalizer makes more than 19200000 bytes of this text");
}

TEST(SentencePieceModelTest, LongWorkEndsWhereItsResultIsNotWanted) {
  const auto model = ModelWithMap(std::string(500, 'a') + "b", {}, "");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string text(20000, 'a');
  EXPECT_TRUE((*model)->Encode(text).ok());
  const StopWhen stop([] { return absl::CancelledError("not wanted"); });
  EXPECT_EQ((*model)->Encode(text).status(), absl::CancelledError("not wanted"));
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
