// What transformers' tokenizer classes of encoder-decoders and of DeBERTa answer
// (tests/engine/text/translators, by tools/make_translator_fixtures.py), and what is refused.
#include "engine/text/translator_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::translator_classes_test {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string FolderOf(const std::string& name) {
  return std::string(BEAMLINE_SOURCE_DIR) + "/tests/engine/text/translators/" + name;
}

std::vector<int32_t> Ids(const Tokenizer& tokenizer, const std::string& text,
                         const EncodeTextOptions& options) {
  const auto tokens = tokenizer.Encode(text, options);
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  std::vector<int32_t> ids;
  if (!tokens.ok()) return ids;
  for (const Token& token : *tokens) ids.push_back(token.id);
  return ids;
}

class TranslatorClassesTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TranslatorClassesTest, RowsAreTheReferences) {
  const auto tokenizer = LoadTokenizer(FolderOf(GetParam()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::ifstream file(FolderOf(GetParam()) + "/rows.jsonl");
  int num_rows = 0;
  for (std::string line; std::getline(file, line); ++num_rows) {
    const json row = json::parse(line);
    const auto text = row["text"].get<std::string>();
    SCOPED_TRACE(text);
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(Ids(**tokenizer, text, {}), ids);
    EXPECT_EQ(Ids(**tokenizer, text, {.as_target = true}),
              row["target_ids"].get<std::vector<int32_t>>());
    if (row.contains("language")) {
      EXPECT_EQ(Ids(**tokenizer, text, {.language = row["language"].get<std::string>()}),
                row["language_ids"].get<std::vector<int32_t>>());
    }
    const auto all = (*tokenizer)->Decode(ids, /*skip_special_tokens=*/false);
    const auto some = (*tokenizer)->Decode(ids, /*skip_special_tokens=*/true);
    ASSERT_TRUE(all.ok() && some.ok());
    EXPECT_EQ(*all, row["decoded"].get<std::string>());
    EXPECT_EQ(*some, row["decoded_skip"].get<std::string>());
  }
  EXPECT_GT(num_rows, 50);
}

INSTANTIATE_TEST_SUITE_P(Classes, TranslatorClassesTest,
                         ::testing::Values("bart", "t5", "t5_model", "pegasus", "mbart",
                                           "mbart_model", "mbart50", "mbart50_model", "nllb",
                                           "m2m100", "m2m100_bpe", "deberta_v2", "deberta_v2_punct",
                                           "deberta_v2_model", "deberta", "deberta_files"),
                         [](const auto& one) { return std::string(one.param); });

TEST(TranslatorLanguagesTest, AreThoseOfTheVocabulary) {
  const auto m2m = LoadTokenizer(FolderOf("m2m100"));
  ASSERT_TRUE(m2m.ok()) << m2m.status();
  EXPECT_EQ((*m2m)->languages().size(), 100u);
  EXPECT_THAT((*m2m)->languages(), Contains("ceb"));
  EXPECT_EQ((*m2m)->LanguageId("xx"), std::nullopt);
  EXPECT_EQ((*m2m)->TokenText((*m2m)->LanguageId("de").value_or(-1)), "__de__");
  const auto mbart = LoadTokenizer(FolderOf("mbart"));
  ASSERT_TRUE(mbart.ok()) << mbart.status();
  EXPECT_EQ((*mbart)->languages().size(), 25u);
  const auto t5 = LoadTokenizer(FolderOf("t5"));
  ASSERT_TRUE(t5.ok()) << t5.status();
  EXPECT_THAT((*t5)->languages(), IsEmpty());
}

// A folder's files with other settings.
std::string Error(const std::string& name, const json& settings, bool with_pieces = true) {
  const TemporaryFolder folder;
  json config = json::parse(std::ifstream(FolderOf(name) + "/tokenizer_config.json"));
  config.update(settings);
  folder.WriteJson("tokenizer_config.json", config);
  for (const char* file : {"config.json", "tokenizer.json", "vocab.json"}) {
    std::ifstream stream(FolderOf(name) + "/" + file);
    if (stream) folder.WriteJson(file, json::parse(stream));
  }
  for (const char* file : {"spiece.model", "sentencepiece.bpe.model"}) {
    std::ifstream stream(FolderOf(name) + "/" + file, std::ios::binary);
    if (!stream) continue;
    folder.Write(file, with_pieces ? std::string(std::istreambuf_iterator<char>(stream), {})
                                   : std::string("\x7f"));
  }
  return std::string(LoadTokenizer(folder.path()).status().message());
}

TEST(TranslatorLanguagesTest, SettingsOfNobodyAreNamed) {
  EXPECT_THAT(Error("mbart", {{"src_lang", "xx_XX"}}),
              HasSubstr("\"src_lang\" is \"xx_XX\", a language that the vocabulary does not have"));
  EXPECT_THAT(Error("nllb", {{"tgt_lang", "en"}}), HasSubstr("\"tgt_lang\" is \"en\""));
  EXPECT_THAT(Error("m2m100", {{"language_codes", "flores"}}),
              HasSubstr("\"language_codes\" is \"flores\"; accepted: \"m2m100\", \"wmt21\""));
  EXPECT_THAT(Error("m2m100", {{"sp_model_kwargs", {{"alpha", 1}}}}), HasSubstr("sp_model_kwargs"));
  EXPECT_THAT(Error("m2m100", {{"eos_token", "<end>"}}), HasSubstr("<end>"));
  EXPECT_THAT(Error("t5", {{"eos_token", "<end>"}}),
              HasSubstr("the end token \"<end>\" is not in the vocabulary"));
  EXPECT_THAT(Error("t5_model", {{"extra_ids", -1}}), HasSubstr("extra_ids"));
  EXPECT_THAT(Error("t5_model", json::object(), false), HasSubstr("spiece.model"));
  EXPECT_THAT(Error("m2m100", json::object(), false), HasSubstr("sentencepiece.bpe.model"));
  EXPECT_EQ(Error("t5_model", {{"extra_ids", 0}}), "");
}

}  // namespace
}  // namespace beamline::translator_classes_test
