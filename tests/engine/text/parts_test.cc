// The parts that the fixtures do not reach on their own.
#include <chrono>
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

TEST(RegexTest, FindsEmptyMatchesOnce) {
  const auto regex = Regex::Compile("b*");
  std::vector<RegexMatch> matches;
  ASSERT_TRUE(regex->FindAll("abb\u00e9", &matches).ok());
  std::vector<std::pair<size_t, size_t>> bounds;
  for (const RegexMatch& match : matches) bounds.emplace_back(match.begin, match.end);
  EXPECT_EQ(bounds, (std::vector<std::pair<size_t, size_t>>{{0, 0}, {1, 3}, {5, 5}}));
}

TEST(RegexTest, RefusesWhatTakesLongToCompile) {
  std::string calls;
  for (int i = 0; i < 40; ++i) {
    calls += "(?<a" + std::to_string(i) + ">\\g<a" + std::to_string(i + 1) + ">\\g<a" +
             std::to_string(i + 1) + ">)";
  }
  calls += "(?<a40>a)";
  EXPECT_EQ(Regex::Compile(calls).status().message(),
            "pattern " + calls + ": 80 calls of groups (\\g); at most 32 are accepted");
  EXPECT_EQ(Regex::Compile(std::string(16385, 'a')).status().message(),
            "pattern of 16385 bytes; at most 16384 are accepted");
  EXPECT_EQ(Regex::Compile(std::string(5000, '(')).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Regex::Compile("(?i)" + std::string(16000, 's')).ok());
}

TEST(RegexTest, RefusesMatchesThatBeginBeforeTheLast) {
  const auto regex = Regex::Compile(R"((?<=\Kb)c|b)");
  std::vector<RegexMatch> matches;
  EXPECT_EQ(
      regex->FindAll("abc", &matches).message(),
      "a match of the tokenizer's regular expression begins before byte 2, where the last ended");
}

TEST(RegexTest, GivesUpOnEndlessBacktracking) {
  const auto regex = Regex::Compile("(a|aa|a?)+$|(a*)*b");
  std::vector<RegexMatch> matches;
  const absl::Status status = regex->FindAll(std::string(200000, 'a') + "c", &matches);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

std::string Counted(std::string_view pattern) { return AddCallouts(pattern).pattern; }

TEST(CountedPatternTest, CallsOutAfterWhatRepeats) {
  EXPECT_EQ(Counted(R"('s| ?\p{L}+|\s+(?!\S)|\s+)"), R"('s| ?\p{L}+(?{})|\s+(?{})(?!\S)|\s+(?{}))");
  EXPECT_EQ(Counted("(?m).*?b|.+?c++"), "(?m).*?(?{})b|.+?(?{})(?{})c++(?{})");
  EXPECT_EQ(Counted(R"(a{2}\x{20}{3,}\p{L}{1,2}+x{,}b{c}d{,3}{2}e)"),
            R"(a{2}(?{})\x{20}{3,}(?{})(?{})\p{L}{1,2}+(?{})x{,}b{c}(?:d{,3}(?{})){2}(?{})e)");
  // Not in a class, nor in a comment.
  EXPECT_EQ(Counted(R"([*+]+[]*+][^]*][[:alpha:]*[b*]]\*\[*)"),
            R"([*+]+(?{})[]*+][^]*][[:alpha:]*[b*]]\*\[*(?{}))");
  EXPECT_EQ(Counted(R"((?#a*b)a(?#\)*)*(?#c*)+\Qa*b\E*)"),
            R"((?#a*b)a(?#\)*)*(?#c*)+(?{})\Qa*(?{})b\E*(?{}))");
  EXPECT_EQ(Counted("(?x)a * # [b*\n ? c|(?-x: +)d +"),
            "(?x)a * # [b*\n ? (?{})c|(?-x: +)(?{})d +(?{})");
  // A group that ends with a repeat may be a repeat of a repeat; one that looks ends elsewhere.
  EXPECT_EQ(Counted("(?:a*)*b(?=c*)d(?<n>e*|f)"), "(?:a*)*(?{})b(?{})(?=c*(?{}))d(?<n>e*(?{})|f)");
  EXPECT_EQ(Counted(R"((?<=ab|c)d\g<1>e)"), R"((?<=ab|c)d\g<1>(?{})e)");
  // Where nothing is given back.
  EXPECT_EQ(Counted("ab*+c(?>d*e)f?+g(?~h)"),
            "a(?{})b*+(?{})c(?{})(?>d*(?{})e)(?{})f?+(?{})g(?~(?{})h)(?{})");
  EXPECT_EQ(Counted("a*(*MAX{3})(?{b*})(?{{c}*}}[t]X)d"), "a*(?{})(*MAX{3})(?{b*})(?{{c}*}}[t]X)d");
}

TEST(CountedPatternTest, CallsOutWhereMuchIsRead) {
  EXPECT_EQ(Counted("a[b]{101}c"), "a(?:[b](?{})){101}(?{})c");
  EXPECT_EQ(Counted("a(?:b|c){101,}"), "a(?:(?:b|c)(?{})){101,}(?{})");
  EXPECT_EQ(Counted("(?:a{9}){2}"), "(?:(?:a{9})(?{})){2}(?{})");
  EXPECT_EQ(Counted("(?:[a]bc){50}"), "(?:(?:[a]bc)(?{})){50}(?{})");
  std::string classes, literal(201, 'a');
  for (int i = 0; i < 65; ++i) classes += "[a]";
  EXPECT_EQ(Counted(classes), classes.substr(0, 192) + "(?{})[a]");
  EXPECT_EQ(Counted("." + literal), ".(?{})" + literal);
  EXPECT_EQ(AddCallouts(literal).longest_literal, 201u);
  EXPECT_FALSE(AddCallouts(R"(a+\d+(?:x)(?<!a{3}))").reads_far);
  EXPECT_EQ(Counted(R"((a+)\1b)"), R"((a+)(?{})(?{})\1(?{})b)");
  EXPECT_EQ(Counted("b(?<=a*)c"), "b(?{})(?<=a*)c");
  EXPECT_TRUE(AddCallouts(R"(\X)").reads_clusters);
  for (const char* pattern :
       {"(?~a)", R"((a+)\1)", R"((?<n>a+)\k<n>)", "(?<=a+)b", "(?<!a{101})b", "(?<=a(?>b{1,})c)d",
        "(?<!(?:a{90}){90}b)c", R"((?<n>a+)(?<=\g<n>b)c)"}) {
    EXPECT_TRUE(AddCallouts(pattern).reads_far) << pattern;
  }
}

// Whatever the version of Oniguruma.
TEST(RegexTest, ClassesHaveTheMembersOfTheReference) {
  const auto found = [](const char* pattern) {
    std::vector<RegexMatch> matches;
    EXPECT_TRUE(Regex::Compile(pattern)->FindAll("a+\u00b2\u20ac-", &matches).ok());
    std::string bounds;
    for (const RegexMatch& match : matches) bounds += std::to_string(match.begin);
    return bounds;
  };
  EXPECT_EQ(found("[[:punct:]]"), "147");
  EXPECT_EQ(found("[a[:punct:]]"), "0147");
  EXPECT_EQ(found("[[:^punct:]]"), "02");
  EXPECT_EQ(found("(?P)[[:punct:]]"), "17");
  EXPECT_EQ(found(R"(\p{Word})"), "02");
  EXPECT_EQ(found(R"(\P{w_ORD}|[\p{^ word}])"), "147");
  EXPECT_EQ(found(R"(\P{^Word})"), "02");
  std::vector<RegexMatch> lines;
  ASSERT_TRUE(Regex::Compile(R"(\R+|(?<!\R)b)")->FindAll("a\n\r\n\nb", &lines).ok());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].begin, 1u);
  EXPECT_EQ(lines[0].end, 5u);
}

// What a search may cost: patterns that read much of the text at each of its bytes.
TEST(RegexTest, CountsWhatItReads) {
  std::string words, literal = "a", classes;
  for (int i = 0; i < 2000; ++i) words += "|ac" + std::to_string(i);
  for (int i = 0; i < 1500; ++i) literal += "aaaaaaaaaa";
  for (int i = 0; i < 5000; ++i) classes += "[a]";
  for (const std::string& pattern : {std::string("(?m).*?b|."),
                                     std::string("[^b]*b|."),
                                     std::string("[^b]*+b|."),
                                     std::string("(?:aa)*b|."),
                                     std::string("(?:[^b]{1000})+b|."),
                                     std::string("[^b]{60000}b|."),
                                     std::string("(?:(?:[^b]{100}){100}){100}|."),
                                     std::string("(?:[^b]{90}){90}b|."),
                                     std::string("(?:[^b][^b][^b][^b]){100}b|."),
                                     std::string("(?<=a(?>[^b]{1,})d)[a-e]|."),
                                     std::string("(?m)(.*)\\1b|."),
                                     std::string("a+?(?=b)|."),
                                     std::string("(?<!a)b|.*c|."),
                                     std::string("(?x) a * ? b | ."),
                                     "(?:ab" + words + ")",
                                     literal + "b|.",
                                     classes + "b|.",
                                     std::string("(?<=a.*)b|."),
                                     std::string("(?<!a{50000})a"),
                                     std::string("(?=a*)b|."),
                                     std::string("(?:a(?=[^b]*+))*+b|."),
                                     std::string("(?~b)b|."),
                                     std::string("(?:a?){30}(?:a?){30}b|."),
                                     std::string("(?:a|aa)+$b")}) {
    const auto regex = Regex::Compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status();
    TextWork work(1000);  // what a short text may cost, so that the search ends soon
    std::vector<RegexMatch> matches;
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = regex->FindAll(std::string(200000, 'a'), &matches, &work);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pattern.substr(0, 40);
    EXPECT_LT(work.spent(), 100'000'000u);
    EXPECT_LT(seconds.count(), 20) << pattern.substr(0, 40);
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
    EXPECT_EQ(Regex::Compile(pattern)->FindAll(std::string(20000, 'a') + "cd", &matches),
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
