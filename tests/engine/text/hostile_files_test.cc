// Wrong and hostile tokenizer files get an error that names the place and the fault.
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/text/pipeline_tokenizer.h"
#include "engine/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/sanitized.h"
#include "tests/test_seed.h"

namespace beamline::hostile_files_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kRoot = BEAMLINE_SOURCE_DIR;

json SmallBpe() {
  return json::parse(R"({
    "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
    "normalizer": null, "pre_tokenizer": {"type": "ByteLevel"}, "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
}

absl::Status MakeStatus(const json& file) {
  return text::PipelineTokenizer::Make(file, "x/tokenizer.json", text::TokenizerConfig()).status();
}

struct Fault {
  const char* pointer;  // what is replaced
  const char* value;    // by what
  const char* message;  // part of the error
};

class FaultTest : public testing::TestWithParam<Fault> {};

TEST_P(FaultTest, IsNamed) {
  json file = SmallBpe();
  file[json::json_pointer(GetParam().pointer)] = json::parse(GetParam().value);
  const absl::Status status = MakeStatus(file);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("x/tokenizer.json: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Faults, FaultTest,
    testing::Values(
        Fault{"/model", "null", "\"model\" is missing"},
        Fault{"/model", "[]", "model: is array, expected an object"},
        Fault{"/model/type", "\"Markov\"", "unknown model type \"Markov\""},
        Fault{"/model/type", "7", "expected a string"},
        Fault{"/model/vocab", "[1]", "model.vocab: is array"},
        Fault{"/model/vocab/a", "-1", "token \"a\" has the id -1"},
        Fault{"/model/vocab/a", "1e3", "token \"a\""},
        Fault{"/model/vocab/a", "4294967296", "4294967296"},
        Fault{"/model/vocab/a", "1", "both have the id 1"},
        Fault{"/model/merges", "{}", "model.merges: is object"},
        Fault{"/model/merges/0", "[\"a\"]", "entry 0"},
        Fault{"/model/merges/0", "\"a  b\"", "entry 0"},
        Fault{"/model/merges/0", "[\"a\", \"z\"]", "\"z\" is not in the vocabulary"},
        Fault{"/model/merges/0", "[\"b\", \"b\"]", "\"bb\" is not in the vocabulary"},
        Fault{"/model/unk_token", "\"<unk>\"", "unk_token \"<unk>\""},
        Fault{"/model/dropout", "0.1", "dropout"},
        Fault{"/model/byte_fallback", "\"yes\"", "expected true or false"},
        Fault{"/added_tokens", "{}", "added_tokens: is object"},
        Fault{"/added_tokens/0/id", "1e9", "added_tokens[0].id"},
        Fault{"/added_tokens/0/id", "18446744073709551615", "added_tokens[0].id"},
        Fault{"/added_tokens/0/content", "\"a\"", "in the model's vocabulary 0"},
        Fault{"/normalizer", "{\"type\": \"Rot13\"}", "unknown normalizer type \"Rot13\""},
        Fault{"/normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"X\"}]}",
              "normalizer.normalizers[0]: unknown normalizer type \"X\""},
        Fault{"/normalizer",
              "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(\"}, \"content\": \"\"}",
              "normalizer.pattern"},
        Fault{"/normalizer", "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"!!\"}",
              "base64"},
        Fault{"/normalizer", "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"/////w==\"}",
              "claims a trie of 4294967295 bytes"},
        Fault{"/pre_tokenizer", "{\"type\": \"Cut\"}", "unknown pre_tokenizer type \"Cut\""},
        Fault{"/pre_tokenizer", "{}", "\"type\" is missing"},
        Fault{"/pre_tokenizer", "\"ByteLevel\"", "expected an object"},
        Fault{"/pre_tokenizer",
              "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a{100001}\"}, \"behavior\": "
              "\"Isolated\"}",
              "pattern a{100001}: too big number for repeat range"},
        Fault{"/pre_tokenizer",
              "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Eaten\"}",
              "Eaten"},
        Fault{"/pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"ab\"}",
              "one character"},
        Fault{"/decoder", "{\"type\": \"CTC\"}", "unknown decoder type \"CTC\""},
        Fault{"/decoder", "{\"type\": \"Strip\", \"content\": \" \", \"start\": -1, \"stop\": 0}",
              "start"},
        Fault{"/post_processor", "{\"type\": \"Wrap\"}", "unknown post_processor type \"Wrap\""},
        Fault{"/post_processor",
              "{\"type\": \"BertProcessing\", \"cls\": [\"<s>\", 3], \"sep\": [\"</s>\", 9]}",
              "id below 4"},
        Fault{"/post_processor", "{\"type\": \"TemplateProcessing\", \"single\": []}", "0 times"},
        Fault{
            "/post_processor",
            "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"X\"}}]}",
            "special_tokens"}));

TEST(HostileFilesTest, TheUnchangedFileLoads) { EXPECT_TRUE(MakeStatus(SmallBpe()).ok()); }

absl::Status LoadText(const std::string& tokenizer_json) {
  std::string name = (fs::temp_directory_path() / "hostile_XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  std::ofstream(folder / "tokenizer.json", std::ios::binary) << tokenizer_json;
  const absl::Status status = LoadTokenizer(folder.string()).status();
  fs::remove_all(folder);
  return status;
}

json Sequence(int count, const json& step) {
  return {{"type", "Sequence"}, {"normalizers", std::vector<json>(count, step)}};
}

json Replace(const std::string& content) {
  return {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", content}};
}

// What a normalizer may do to a text is the file's choice; the memory that it takes is not.
TEST(HostileFilesTest, NormalizersThatMakeMuchOfLittle) {
  const json normalizers[] = {
      Sequence(64, Replace("aa")),                    // 2^64 bytes
      Sequence(4, Sequence(16, Replace("aa"))),       // the same, in parts
      Sequence(2, Replace(std::string(10000, 'a'))),  // 10^8
      Replace(std::string(20 << 20, 'b')),            // too much at once
      Sequence(40, {{"type", "Prepend"}, {"prepend", std::string(1 << 20, 'x')}}),
      Sequence(40, {{"type", "ByteLevel"}}),  // doubles what it has respelled
  };
  for (const json& normalizer : normalizers) {
    json file = SmallBpe();
    file["normalizer"] = normalizer;
    const auto tokenizer =
        text::PipelineTokenizer::Make(file, "x/tokenizer.json", text::TokenizerConfig());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    std::vector<const char*> texts = {"a\xC3\xA9", "b <s> a\xC3\xA9<s>", "a"};
    if (kSanitized) texts.resize(1);
    for (const char* text : texts) {
      const auto tokens = (*tokenizer)->Encode(text, {});
      if (tokens.ok()) {
        EXPECT_STREQ(text, "a");  // which ByteLevel leaves as it is
        continue;
      }
      EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument);
      // What is written is counted as well, and may be too much before it is too long.
      EXPECT_THAT(std::string(tokens.status().message()),
                  testing::AnyOf(HasSubstr("more than 16777216 bytes"),
                                 HasSubstr("the tokenizer takes more than")));
    }
  }
}

// Many pieces, each of which becomes large but not too large.
TEST(HostileFilesTest, NormalizersThatMakeMuchOfEachPiece) {
  json file = SmallBpe();
  file["normalizer"] = Replace(std::string(1 << 20, 'b'));
  const auto tokenizer =
      text::PipelineTokenizer::Make(file, "x/tokenizer.json", text::TokenizerConfig());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::string text;
  for (int i = 0; i < 10000; ++i) text += "a<s>";
  const auto tokens = (*tokenizer)->Encode(text, {});
  EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument) << tokens.status();
}

// Growth that languages need is no attack.
TEST(HostileFilesTest, NormalizersThatMakeSomeOfLittle) {
  json file = SmallBpe();
  file["normalizer"] = Sequence(10, Replace("aa"));
  const auto tokenizer =
      text::PipelineTokenizer::Make(file, "x/tokenizer.json", text::TokenizerConfig());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto tokens = (*tokenizer)->Encode("aba", {});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ(tokens->size(), 2048u);  // of the 1,024 before the b the last one joins it
}

// Chains of thousands cost what a text is not worth, each by each of its bytes.
TEST(HostileFilesTest, LongChainsAreCounted) {
  json files[4] = {SmallBpe(), SmallBpe(), SmallBpe(), SmallBpe()};
  files[0]["normalizer"] = Sequence(5000, {{"type", "Lowercase"}});
  files[1]["normalizer"] = Sequence(5000, Replace("a"));
  json& splits = files[2]["pre_tokenizer"];
  splits = {{"type", "Sequence"}, {"pretokenizers", json::array()}};
  for (int i = 0; i < 5000; ++i) splits["pretokenizers"].push_back({{"type", "Whitespace"}});
  files[3]["pre_tokenizer"] = {{"type", "Split"},
                               {"pattern", {{"Regex", "(?m).*?b|."}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
  for (const json& file : files) {
    const auto tokenizer =
        text::PipelineTokenizer::Make(file, "x/tokenizer.json", text::TokenizerConfig());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_TRUE((*tokenizer)->Encode("aaa", {}).ok());
    const auto tokens = (*tokenizer)->Encode(std::string(200000, 'a'), {});
    EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument) << tokens.status();
    EXPECT_THAT(std::string(tokens.status().message()),
                HasSubstr("takes more than 84754432 steps for this text of 200000 bytes"));
  }
}

// Tokens that a text goes on beginning with, but does not have.
TEST(HostileFilesTest, LongTokensAreCounted) {
  const std::string almost = std::string(60000, 'a') + "b";
  json added = SmallBpe();
  added["added_tokens"].push_back({{"id", 4}, {"content", almost}, {"special", true}});
  json unigram = SmallBpe();
  unigram["model"] = json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [
      ["<unk>", 0.0], ["a", -1.0], ["b", -1.0]]})");
  unigram["model"]["vocab"].push_back(json::array({almost, -1.0}));
  unigram["added_tokens"] = json::array();
  for (const json& file : {added, unigram}) {
    const auto tokenizer =
        text::PipelineTokenizer::Make(file, "x/tokenizer.json", text::TokenizerConfig());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_TRUE((*tokenizer)->Encode("aaab", {}).ok());
    const auto tokens = (*tokenizer)->Encode(std::string(200000, 'a'), {});
    EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument) << tokens.status();
    EXPECT_THAT(std::string(tokens.status().message()), HasSubstr("takes more than"));
  }
}

// Each word's piece is worth its cost, all of them together are not.
TEST(HostileFilesTest, LongPiecesAreCountedForTheWholeText) {
  json unigram = SmallBpe();
  unigram["model"] = json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [
      ["<unk>", 0.0], ["a", -1.0], ["b", -1.0]]})");
  unigram["model"]["vocab"].push_back(json::array({std::string(60000, 'a') + "b", -1.0}));
  unigram["added_tokens"] = json::array();
  unigram["pre_tokenizer"] = {{"type", "Whitespace"}};
  const auto tokenizer =
      text::PipelineTokenizer::Make(unigram, "x/tokenizer.json", text::TokenizerConfig());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto words = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += std::string(1000, 'a') + std::to_string(i) + " ";
    return text;
  };
  EXPECT_TRUE((*tokenizer)->Encode(words(50), {}).ok());
  const auto tokens = (*tokenizer)->Encode(words(400), {});
  EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument) << tokens.status();
  EXPECT_THAT(std::string(tokens.status().message()), HasSubstr("takes more than"));
}

TEST(HostileFilesTest, AddedTokensThatAreNormalizedAtLengthAreRefused) {
  json file = SmallBpe();
  json& normalizer = file["normalizer"];
  normalizer = {{"type", "Sequence"}, {"normalizers", json::array()}};
  for (int i = 0; i < 5000; ++i) normalizer["normalizers"].push_back({{"type", "Lowercase"}});
  for (int i = 0; i < 300; ++i) {
    file["added_tokens"].push_back(
        {{"id", 4 + i}, {"content", "t" + std::to_string(i)}, {"normalized", true}});
    if (i == 9) {
      EXPECT_TRUE(MakeStatus(file).ok()) << MakeStatus(file);
    }
  }
  EXPECT_THAT(std::string(MakeStatus(file).message()),
              HasSubstr("added_tokens: the tokenizer takes more than"));
}

TEST(HostileFilesTest, BrokenJsonIsRefused) {
  for (const std::string& file :
       {std::string(), std::string("{"), std::string("\xFF\xFE"), std::string("[1, 2]"),
        std::string(3000000, '['), "{\"model\": " + std::string(100, '{'), std::string("null"),
        std::string(
            "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"\\ud800\": 0}, \"merges\": []}}")}) {
    const absl::Status status = LoadText(file);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << file.substr(0, 40);
    EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer.json"));
  }
}

// Damaged copies of a real file either fail with a status or make a tokenizer that works.
TEST(HostileFilesTest, DamagedFilesNeverCrash) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (const char* name : {"llama2", "unigram_bytes", "wordpiece", "roberta", "char_bpe"}) {
    std::ifstream file(kRoot / "tests/engine/text/fixtures" / name / "tokenizer.json");
    const json original = json::parse(file);
    const json flat = original.flatten();
    std::vector<std::string> pointers;
    for (const auto& [pointer, value] : flat.items()) pointers.push_back(pointer);
    const json values = json::parse(R"([null, -1, 1e300, 99999999999, "", "x", [], {}, true])");
    for (int i = 0; i < 60; ++i) {
      json damaged = original;
      damaged[json::json_pointer(pointers[random() % pointers.size()])] =
          values[random() % values.size()];
      // Some place near the top, where the settings are.
      const size_t top = random() % std::min<size_t>(pointers.size(), 60);
      damaged[json::json_pointer(pointers[top])] = values[random() % values.size()];
      auto tokenizer =
          text::PipelineTokenizer::Make(damaged, "x/tokenizer.json", text::TokenizerConfig());
      if (!tokenizer.ok()) continue;
      const auto tokens = (*tokenizer)->Encode("Hello, wörld! <mask> </s> 123 \u4e2d", {});
      if (!tokens.ok()) continue;
      std::vector<int32_t> ids;
      for (const Token& token : *tokens) ids.push_back(token.id);
      EXPECT_TRUE((*tokenizer)->Decode(ids, true).ok());
    }
  }
}

}  // namespace
}  // namespace beamline::hostile_files_test
