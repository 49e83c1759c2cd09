// The ids that transformers 5 gives where tokenizer.json and tokenizer_config.json differ.
#include "engine/text/tokenizer_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/text/byte_alphabet.h"
#include "engine/text/tokenizer.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::tokenizer_class_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json Template(const std::string& cls, int cls_id, const std::string& sep, int sep_id) {
  return {{"type", "BertProcessing"},
          {"cls", json::array({cls, cls_id})},
          {"sep", json::array({sep, sep_id})}};
}

class TokenizerClassTest : public ::testing::Test {
 protected:
  // A tokenizer.json of BERT that lowercases or not.
  static json Bert(bool lowercase) {
    const json vocab = {{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3},
                        {"dog", 5},   {"Dog", 6},   {"é", 7},     {"e", 8},
                        {"É", 9},     {"##s", 10},  {"-", 11}};
    return {{"normalizer", {{"type", "BertNormalizer"}, {"lowercase", lowercase}}},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"post_processor", Template("[CLS]", 2, "[SEP]", 3)},
            {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}}};
  }
  // One of RoBERTa without merges: a byte's id is its place in the alphabet and 4.
  static json Roberta(bool prefix_space) {
    json vocab = {{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"<unk>", 3}};
    for (const std::string& spelling : text::ByteSpellings()) vocab[spelling] = vocab.size();
    json processor = Template("<s>", 0, "</s>", 2);
    processor["type"] = "RobertaProcessing";
    return {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}}},
            {"post_processor", processor},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}}}};
  }

  std::vector<int32_t> Ids(const json& tokenizer, const json& config, const std::string& model_type,
                           const std::string& text) const {
    folder_.WriteJson("tokenizer.json", tokenizer);
    folder_.WriteJson("tokenizer_config.json", config);
    folder_.WriteJson("config.json", {{"model_type", model_type}});
    const auto loaded = LoadTokenizer(folder_.path());
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    std::vector<int32_t> ids;
    if (!loaded.ok()) return ids;
    const auto tokens = (*loaded)->Encode(text, {});
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    for (const Token& token : *tokens) ids.push_back(token.id);
    return ids;
  }

  TemporaryFolder folder_;
};

TEST_F(TokenizerClassTest, BertLowercasesAsItsConfigSays) {
  const std::string text = "Dog É é";
  const json none = json::object();
  EXPECT_THAT(Ids(Bert(true), none, "bert", text), ElementsAre(2, 5, 8, 8, 3));
  EXPECT_THAT(Ids(Bert(false), none, "bert", text), ElementsAre(2, 5, 8, 8, 3));
  const json cased = {{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", false}};
  EXPECT_THAT(Ids(Bert(true), cased, "bert", text), ElementsAre(2, 6, 9, 7, 3));
  const json accents = {{"tokenizer_class", "BertTokenizerFast"}, {"strip_accents", false}};
  EXPECT_THAT(Ids(Bert(false), accents, "bert", text), ElementsAre(2, 5, 7, 7, 3));
  json bare = Bert(false);
  bare["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  bare.erase("post_processor");
  EXPECT_THAT(Ids(bare, cased, "bert", "dog-dog"), ElementsAre(2, 5, 11, 5, 3));
}

TEST_F(TokenizerClassTest, OtherClassesTakeTheFileAsItIs) {
  const json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"do_lower_case", true}};
  EXPECT_THAT(Ids(Bert(false), config, "bert", "Dog É é"), ElementsAre(2, 6, 9, 7, 3));
  EXPECT_THAT(Ids(Bert(false), json::object(), "marian", "Dog É é"), ElementsAre(2, 6, 9, 7, 3));
}

TEST_F(TokenizerClassTest, RobertaAndGpt2PrefixASpaceAsTheirConfigSays) {
  const int a = Roberta(false)["model"]["vocab"]["a"],
            space = Roberta(false)["model"]["vocab"]["Ġ"];
  const json none = json::object(), prefix = {{"add_prefix_space", true}};
  EXPECT_THAT(Ids(Roberta(true), none, "roberta", "a"), ElementsAre(0, a, 2));
  EXPECT_THAT(Ids(Roberta(false), prefix, "roberta", "a"), ElementsAre(0, space, a, 2));
  json gpt2 = Roberta(true);
  gpt2.erase("post_processor");
  EXPECT_THAT(Ids(gpt2, none, "gpt2", "a"), ElementsAre(a));
  EXPECT_THAT(Ids(gpt2, prefix, "gpt2", "a"), ElementsAre(space, a));
}

TEST_F(TokenizerClassTest, XlmRobertaSplitsAtSpaces) {
  const json vocab = json::parse(
      R"([["<s>",0],["<pad>",0],["</s>",0],["<unk>",0],["▁a",-1],["a",-2],["▁",-3],["b",-2.5],["▁A",-1]])");
  json tokenizer = {{"normalizer", {{"type", "Lowercase"}}},
                    {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "▁"}}},
                    {"post_processor", Template("<s>", 0, "</s>", 2)},
                    {"model", {{"type", "Unigram"}, {"unk_id", 3}, {"vocab", vocab}}}};
  EXPECT_THAT(Ids(tokenizer, json::object(), "xlm-roberta", "A  b"), ElementsAre(0, 8, 6, 7, 2));
  const json bare = {{"add_prefix_space", false}};
  EXPECT_THAT(Ids(tokenizer, bare, "xlm-roberta", "A  b"), ElementsAre(0, 3, 7, 2));
}

TEST_F(TokenizerClassTest, ClassesTakeTheTemplateOfTheirConfig) {
  const json other = {{"cls_token", "dog"}, {"sep_token", "[PAD]"}, {"unk_token", "e"}};
  EXPECT_THAT(Ids(Bert(true), other, "bert", "e cat"), ElementsAre(5, 8, 8, 0));
  json roberta = Roberta(false);
  roberta["post_processor"] = {{"type", "ByteLevel"}};
  EXPECT_THAT(Ids(roberta, json::object(), "roberta", ""), ElementsAre(0, 2));
  json added = Bert(true);
  added["added_tokens"] = json::array({{{"id", 12}, {"content", "<c>"}, {"special", true}}});
  EXPECT_THAT(Ids(added, {{"cls_token", "<c>"}}, "bert", "e"), ElementsAre(12, 8, 3));

  folder_.WriteJson("tokenizer_config.json", {{"cls_token", "<none>"}});
  EXPECT_THAT(std::string(LoadTokenizer(folder_.path()).status().message()),
              HasSubstr("\"cls_token\" is \"<none>\", which tokenizer.json does not have"));
}

// transformers takes the word of special_tokens_map.json where tokenizer_config.json has no
// added_tokens_decoder.
TEST_F(TokenizerClassTest, TheMapOfSpecialTokensCountsWhereNoneAreListed) {
  const json of_bert = {{"tokenizer_class", "BertTokenizer"}};
  const auto ids = [&](const json& config, const json& map) {
    folder_.WriteJson("special_tokens_map.json", map);
    return Ids(Bert(true), config, "bert", "dog e");
  };
  EXPECT_THAT(ids(of_bert, json::object()), ElementsAre(2, 5, 8, 3));
  EXPECT_THAT(ids(of_bert, {{"cls_token", "-"}, {"sep_token", "e"}}), ElementsAre(11, 5, 8, 8));
  json config = of_bert;
  config["cls_token"] = "dog";
  EXPECT_THAT(ids(config, {{"cls_token", "-"}}), ElementsAre(11, 5, 8, 3));
  EXPECT_THAT(ids(config, {{"cls_token", {{"content", "-"}}}}), ElementsAre(11, 5, 8, 3));
  config = of_bert;
  config["added_tokens_decoder"] = json::object();
  EXPECT_THAT(ids(config, {{"cls_token", "-"}}), ElementsAre(2, 5, 8, 3));
  config["added_tokens_decoder"] = {{"2", {{"content", "[CLS]"}, {"special", true}}}};
  EXPECT_THAT(ids(config, {{"cls_token", "-"}}), ElementsAre(2, 5, 8, 3));
}

TEST_F(TokenizerClassTest, XlmRobertaKeepsTheFirstSpaceThatItDidNotAdd) {
  const json vocab =
      json::parse(R"([["<s>",0],["<pad>",0],["</s>",0],["<unk>",0],["▁a",-1],["a",-2]])");
  const json tokenizer = {{"decoder", {{"type", "Metaspace"}, {"replacement", "▁"}}},
                          {"model", {{"type", "Unigram"}, {"unk_id", 3}, {"vocab", vocab}}}};
  for (const auto& [prefix_space, text] : {std::pair(true, "a a"), std::pair(false, " a a")}) {
    Ids(tokenizer, {{"add_prefix_space", prefix_space}}, "xlm-roberta", "a");
    const auto loaded = LoadTokenizer(folder_.path());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->Decode(std::vector<int32_t>{4, 4}, true).value(), text);
  }
}

TEST_F(TokenizerClassTest, SpecialTokensThatTheFileLacksComeBehind) {
  const json config = {
      {"mask_token", {{"content", "<m>"}, {"lstrip", true}}},
      {"extra_special_tokens", {"<x>"}},
      {"pad_token", "<p>"},
  };
  EXPECT_THAT(Ids(Bert(true), config, "bert", "e <m><x>e<p>"), ElementsAre(2, 8, 13, 14, 8, 12, 3));
  const auto loaded = LoadTokenizer(folder_.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->vocab_size(), 15);
  EXPECT_EQ((*loaded)->source_vocab_size(), 12);
  EXPECT_EQ((*loaded)->Decode(std::vector<int32_t>{8, 14}, false).value(), "e <x>");
}

TEST_F(TokenizerClassTest, ConfiguredTokensThatTheFileLacksComeBehindInTheirOrder) {
  const json config = {
      {"added_tokens_decoder", {{"10", {{"content", "<b>"}}}, {"6", {{"content", "<a>"}}}}}};
  EXPECT_THAT(Ids(Bert(true), config, "bert", "<b>e<a>dog"), ElementsAre(2, 13, 8, 12, 5, 3));
}

TEST_F(TokenizerClassTest, SplitSpecialTokensAreRefused) {
  folder_.WriteJson("tokenizer.json", Bert(true));
  folder_.WriteJson("tokenizer_config.json", {{"split_special_tokens", true}});
  EXPECT_THAT(std::string(LoadTokenizer(folder_.path()).status().message()),
              HasSubstr("\"split_special_tokens\" is true; only false is supported"));
}

TEST_F(TokenizerClassTest, TypesOfTokensAreRefused) {
  json tokenizer = Bert(false);
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", json::array({{{"Sequence", {{"id", "A"}, {"type_id", 1}}}}})}};
  folder_.WriteJson("tokenizer.json", tokenizer);
  EXPECT_THAT(std::string(LoadTokenizer(folder_.path()).status().message()),
              HasSubstr("\"type_id\" is 1; only 0 is supported"));
}

}  // namespace
}  // namespace beamline::tokenizer_class_test
