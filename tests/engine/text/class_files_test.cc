// Which classes' files are read without a tokenizer.json, and what a class tells its model of two
// texts: as transformers 5.24 answers for the same folders.
#include "engine/text/class_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/text/byte_alphabet.h"
#include "engine/text/tokenizer.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::class_files_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClassFilesTest : public ::testing::Test {
 protected:
  static json NameOf(const char* tokenizer_class) {
    return tokenizer_class == nullptr ? json::object() : json{{"tokenizer_class", tokenizer_class}};
  }

  void WriteWords() {
    folder_.Write("vocab.txt",
                  "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ndog\ncat\n##s\n<s>\n</s>\n<pad>\n<mask>\n");
  }
  void WriteMerges() {
    json vocab = json::object();
    for (const std::string& spelling : text::ByteSpellings()) vocab[spelling] = vocab.size();
    for (const char* token : {"<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<mask>", "[CLS]",
                              "[SEP]", "[UNK]", "[PAD]", "[MASK]"}) {
      vocab[token] = vocab.size();
    }
    folder_.WriteJson("vocab.json", vocab);
    folder_.Write("merges.txt", "#version: 0.2\n");
  }
  static json Bert() {
    const json vocab = {{"[PAD]", 0}, {"[UNK]", 1}, {"[CLS]", 2}, {"[SEP]", 3},
                        {"dog", 5},   {"cat", 6},   {"Dog", 7}};
    const auto role = [](const char* token, int id) { return json::array({token, id}); };
    return {{"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"post_processor",
             {{"type", "BertProcessing"}, {"cls", role("[CLS]", 2)}, {"sep", role("[SEP]", 3)}}},
            {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}}};
  }

  auto Load(const json& config, const json& model_config) {
    folder_.WriteJson("tokenizer_config.json", config);
    folder_.WriteJson("config.json", model_config);
    return LoadTokenizer(folder_.path());
  }
  std::string Error(const json& config, const json& model_config) {
    return std::string(Load(config, model_config).status().message());
  }
  std::vector<int32_t> Ids(const json& config, const json& model_config, const std::string& text) {
    const auto loaded = Load(config, model_config);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    std::vector<int32_t> ids;
    if (!loaded.ok()) return ids;
    const auto tokens = (*loaded)->Encode(text, {});
    for (const Token& token : *tokens) ids.push_back(token.id);
    return ids;
  }
  // Of "dog" and "cat".
  std::vector<int32_t> PairTypes(const json& config, const std::string& model_type) {
    const auto loaded = Load(config, {{"model_type", model_type}});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (!loaded.ok()) return {};
    const int32_t first = 5, second = 6;
    const auto pair = (*loaded)->JoinPair({&first, 1}, {&second, 1}, Truncation::kNone, 0);
    return pair.has_value() ? pair->type_ids : std::vector<int32_t>();
  }

  TemporaryFolder folder_;
};

TEST_F(ClassFilesTest, AVocabTxtOfAnotherClassIsRefused) {
  WriteWords();
  const json bert = {{"model_type", "bert"}};
  for (const char* name :
       {"BertJapaneseTokenizer", "KoBertTokenizer", "PhobertTokenizer", "RoFormerTokenizer",
        "HerbertTokenizer", "FunnelTokenizer", "RobertaTokenizer", "PreTrainedTokenizerFast",
        "TokenizersBackend", "GPT2Tokenizer", "NeverSeenTokenizer"}) {
    SCOPED_TRACE(name);
    const std::string is = "tokenizer_class is \"" + std::string(name) +
                           "\"; accepted for vocab.txt without a tokenizer.json: BertTokenizer, ";
    EXPECT_THAT(Error(NameOf(name), bert), HasSubstr("/tokenizer_config.json: " + is));
    EXPECT_THAT(Error(json::object(), {{"model_type", "bert"}, {"tokenizer_class", name}}),
                HasSubstr("/config.json: " + is));
  }
  EXPECT_THAT(Error(json::object(), {{"model_type", "roberta"}}),
              HasSubstr("model_type is \"roberta\", whose tokenizer class is RobertaTokenizer; "));
  EXPECT_THAT(
      Error(json::object(), {{"model_type", "modernbert"}}),
      HasSubstr("model_type is \"modernbert\", whose tokenizer class is TokenizersBackend; "));
}

TEST_F(ClassFilesTest, AVocabTxtIsReadAsItsClassDoes) {
  WriteWords();
  for (const char* name : {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer",
                           "ElectraTokenizerFast", "MobileBertTokenizer", "ConvBertTokenizer"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(Ids(NameOf(name), {{"model_type", "roberta"}}, "Dogs [MASK]"),
                ElementsAre(2, 5, 7, 4, 3));
  }
  for (const char* model_type : {"bert", "distilbert", "electra", "nomic_bert"}) {
    EXPECT_THAT(Ids(json::object(), {{"model_type", model_type}}, "Dog"), ElementsAre(2, 5, 3));
  }
  EXPECT_THAT(Ids(json::object(), {{"model_type", "mpnet"}}, "dogs  <mask>"),
              ElementsAre(8, 5, 7, 11, 9));
  EXPECT_THAT(PairTypes(json::object(), "mpnet"), ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST_F(ClassFilesTest, MergesOfAnotherClassAreRefused) {
  WriteMerges();
  for (const char* name : {"HerbertTokenizer", "PhobertTokenizer", "CLIPTokenizer",
                           "CodeGenTokenizer", "LlamaTokenizer", "PreTrainedTokenizerFast"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(
        Error(NameOf(name), {{"model_type", "gpt2"}}),
        AllOf(HasSubstr("tokenizer_class is \"" + std::string(name) + "\"; "),
              HasSubstr("accepted for vocab.json with merges.txt without a tokenizer.json: ")));
  }
  for (const char* model_type : {"falcon", "bloom", "phi3", "mistral", "bert"}) {
    EXPECT_THAT(Error(json::object(), {{"model_type", model_type}}),
                HasSubstr("model_type is \"" + std::string(model_type) + "\", whose tokenizer"));
  }
  for (const char* model_type :
       {"gpt2", "opt", "gpt_neox", "qwen3", "roberta", "deberta", "bart"}) {
    SCOPED_TRACE(model_type);
    EXPECT_TRUE(Load(json::object(), {{"model_type", model_type}}).ok());
  }
}

TEST_F(ClassFilesTest, ATranslatorsModelsOfAnotherClassAreRefused) {
  folder_.Write("source.spm", "this is no model");
  EXPECT_THAT(Error(NameOf("ReformerTokenizer"), {{"model_type", "marian"}}),
              HasSubstr("tokenizer_class is \"ReformerTokenizer\"; accepted for source.spm with"));
  EXPECT_THAT(Error(json::object(), {{"model_type", "t5"}}),
              HasSubstr("model_type is \"t5\", whose tokenizer class is T5Tokenizer"));
  // The file is read, and is no model.
  EXPECT_THAT(Error(json::object(), {{"model_type", "marian"}}), HasSubstr("source.spm"));
  EXPECT_THAT(Error(NameOf("MarianTokenizer"), {{"model_type", "bart"}}), HasSubstr("source.spm"));
}

// As transformers before 5: what the class is counts where there is no file.
TEST_F(ClassFilesTest, TheFileGoesBeforeAnotherClass) {
  WriteWords();
  folder_.Write("source.spm", "this is no model");
  folder_.WriteJson("tokenizer.json", Bert());
  for (const char* name : {"BertJapaneseTokenizer", "KoBertTokenizer", "NeverSeenTokenizer"}) {
    EXPECT_THAT(Ids(NameOf(name), {{"model_type", "bert"}}, "Dog cat"), ElementsAre(2, 7, 6, 3));
  }
}

TEST_F(ClassFilesTest, TypesOfPairsAreTheClasss) {
  folder_.WriteJson("tokenizer.json", Bert());
  for (const char* name : {"PreTrainedTokenizerFast", "TokenizersBackend", "DistilBertTokenizer",
                           "NeverSeenTokenizer", "BertJapaneseTokenizer"}) {
    SCOPED_TRACE(name);
    json config = NameOf(name);
    EXPECT_THAT(PairTypes(config, "bert"), ElementsAre(0, 0, 0, 0, 0));
    config["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
    EXPECT_THAT(PairTypes(config, "bert"), ElementsAre(0, 0, 0, 1, 1));
  }
  for (const char* name : {"BertTokenizer", "BertTokenizerFast", "ElectraTokenizer",
                           "LayoutLMTokenizer", static_cast<const char*>(nullptr)}) {
    json config = NameOf(name);
    EXPECT_THAT(PairTypes(config, "bert"), ElementsAre(0, 0, 0, 1, 1));
    config["model_input_names"] = {"input_ids", "attention_mask"};
    EXPECT_THAT(PairTypes(config, "bert"), ElementsAre(0, 0, 0, 0, 0));
  }
  EXPECT_THAT(PairTypes(json::object(), "modernbert"), ElementsAre(0, 0, 0, 0, 0));
}

// Of before added_tokens_decoder, which goes before it.
TEST_F(ClassFilesTest, AddedTokensJsonAddsTokens) {
  const json bert = {{"model_type", "bert"}};
  folder_.WriteJson("added_tokens.json", {{"newtok", 13}, {"[X]", 12}, {"[MASK]", 4}});
  WriteWords();
  // Looked for in the text that is lowercased, but for special ones.
  EXPECT_THAT(Ids(json::object(), bert, "dog NEWTOK [x]"), ElementsAre(2, 5, 13, 12, 3));
  const json special = {{"additional_special_tokens", {"[X]"}}};
  EXPECT_THAT(Ids(special, bert, "dog NEWTOK [X] [x]"), ElementsAre(2, 5, 13, 12, 1, 1, 1, 3));
  EXPECT_THAT(Ids({{"added_tokens_decoder", json::object()}}, bert, "newtok dog"),
              ElementsAre(2, 1, 5, 3));
  // Beside a tokenizer.json that lacks them, behind all that it has.
  folder_.WriteJson("tokenizer.json", Bert());
  for (const char* name : {"BertTokenizer", "PreTrainedTokenizerFast"}) {
    EXPECT_THAT(Ids(NameOf(name), bert, "dog newtok [X]"), ElementsAre(2, 5, 10, 9, 3));
  }
  folder_.Remove("tokenizer.json");
  folder_.Remove("vocab.txt");
  WriteMerges();
  EXPECT_THAT(Ids(json::object(), {{"model_type", "deberta"}}, "newtok[X]"),
              ElementsAre(262, 268, 267, 263));
  folder_.WriteJson("added_tokens.json", {{"newtok", "13"}});
  EXPECT_THAT(Error(json::object(), bert),
              HasSubstr("added_tokens.json: \"newtok\" is \"13\", expected an id from 0 to"));
}

// How a token is looked for is as its configuration says, whose plain name says nothing.
TEST_F(ClassFilesTest, AMaskTakesTheSpaceBeforeItAsConfigured) {
  WriteMerges();
  const int space = ' ', a = 'a', b = 'b';  // a byte is its own id
  for (const char* model_type : {"roberta", "bart"}) {
    SCOPED_TRACE(model_type);
    const json model = {{"model_type", model_type}};
    const auto apart = ElementsAre(257, a, space, 261, space, b, 258);
    const auto together = ElementsAre(257, a, 261, space, b, 258);
    EXPECT_THAT(Ids(json::object(), model, "a <mask> b"), apart);
    EXPECT_THAT(Ids({{"mask_token", "<mask>"}}, model, "a <mask> b"), apart);
    const json token = {{"content", "<mask>"}, {"lstrip", true}, {"special", true}};
    EXPECT_THAT(Ids({{"mask_token", token}}, model, "a <mask> b"), together);
    EXPECT_THAT(Ids({{"added_tokens_decoder", {{"261", token}}}}, model, "a <mask> b"), together);
    folder_.WriteJson("special_tokens_map.json", {{"mask_token", token}});
    EXPECT_THAT(Ids(json::object(), model, "a <mask> b"), together);
    folder_.Remove("special_tokens_map.json");
  }
}

TEST_F(ClassFilesTest, SpecialTokensOfTheConfigurationGoBeforeTheMap) {
  folder_.Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
  const json bert = {{"model_type", "bert"}};
  const auto ids = [&](const json& config, const json& map) {
    folder_.WriteJson("special_tokens_map.json", map);
    return Ids(config, bert, "CFG MAP EXT");
  };
  const json map = {{"additional_special_tokens", {"MAP"}}};
  const json older = {{"additional_special_tokens", {"CFG"}}};
  const json both = {{"additional_special_tokens", {"CFG"}}, {"extra_special_tokens", {"EXT"}}};
  EXPECT_THAT(ids(json::object(), map), ElementsAre(2, 1, 5, 1, 3));
  EXPECT_THAT(ids(older, map), ElementsAre(2, 5, 1, 1, 3));
  EXPECT_THAT(ids({{"additional_special_tokens", json::array()}}, map), ElementsAre(2, 1, 1, 1, 3));
  EXPECT_THAT(ids({{"additional_special_tokens", nullptr}}, map), ElementsAre(2, 1, 1, 1, 3));
  EXPECT_THAT(ids({{"extra_special_tokens", {"EXT"}}}, map), ElementsAre(2, 1, 1, 5, 3));
  EXPECT_THAT(ids(both, map), ElementsAre(2, 1, 1, 5, 3));
  EXPECT_THAT(ids({{"extra_special_tokens", {{"a_token", "EXT"}}}}, map),
              ElementsAre(2, 1, 6, 5, 3));
  EXPECT_THAT(ids(older, {{"extra_special_tokens", {"MAP"}}}), ElementsAre(2, 5, 6, 1, 3));
}

// What the file says of lengths and of the middle of words is not the class's.
TEST_F(ClassFilesTest, WordsOfBertHaveUpTo100Characters) {
  json tokenizer = Bert();
  tokenizer["model"]["max_input_chars_per_word"] = 3;
  tokenizer["model"]["continuing_subword_prefix"] = "";
  tokenizer["model"]["vocab"]["##a"] = 8;
  tokenizer["model"]["vocab"]["a"] = 9;
  folder_.WriteJson("tokenizer.json", tokenizer);
  const json bert = {{"model_type", "bert"}};
  EXPECT_THAT(Ids(NameOf("BertTokenizer"), bert, "aaaa"), ElementsAre(2, 9, 8, 8, 8, 3));
  EXPECT_THAT(Ids(NameOf("BertTokenizer"), bert, std::string(100, 'a')).size(), 102);
  EXPECT_THAT(Ids(NameOf("BertTokenizer"), bert, std::string(101, 'a')), ElementsAre(2, 1, 3));
  EXPECT_THAT(Ids(NameOf("TokenizersBackend"), bert, "aaaa"), ElementsAre(2, 1, 3));
}

}  // namespace
}  // namespace beamline::class_files_test
