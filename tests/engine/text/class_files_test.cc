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
                           "\"; vocab.txt without a tokenizer.json are read for BertTokenizer";
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
    EXPECT_THAT(Error(NameOf(name), {{"model_type", "gpt2"}}),
                AllOf(HasSubstr("tokenizer_class is \"" + std::string(name) + "\"; "),
                      HasSubstr("vocab.json with merges.txt without a tokenizer.json")));
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
              HasSubstr("tokenizer_class is \"ReformerTokenizer\"; source.spm with target.spm"));
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

}  // namespace
}  // namespace beamline::class_files_test
