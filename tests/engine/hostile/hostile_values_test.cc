// Files of the right form with values that no model has: each is found at load, and named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/checkpoint/checkpoint_file.h"
#include "fmt/format.h"
#include "tests/engine/hostile/hostile_folder.h"
#include "tests/sanitized.h"

namespace beamline::hostile_values_test {
namespace {

using nlohmann::json;

struct Value {
  const char* model;
  const char* file;
  const char* pointer;  // what is replaced
  json value;           // by what; null: taken away
  const char* message;  // part of the error; empty: the model loads
};

class HostileValuesTest : public testing::TestWithParam<Value> {};

TEST_P(HostileValuesTest, IsNamed) {
  const Value& value = GetParam();
  HostileFolder folder(value.model);
  folder.Patch(value.file, value.pointer, value.value);
  const absl::Status status = folder.Load();
  if (*value.message == '\0') {
    EXPECT_TRUE(status.ok()) << status;
    return;
  }
  ExpectShortErrorWith(status, value.message);
  ExpectShortErrorWith(status, value.file);
}

std::string NameOf(const testing::TestParamInfo<Value>& info) {
  std::string name = std::to_string(info.index) + "_" + info.param.model + info.param.pointer;
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

constexpr char kEmbed[] = "embed-en", kTranslate[] = "translate-en-de", kWrite[] = "write-en";
constexpr char kClassify[] = "../tests/golden/classifiers/bert-5x6-labels";
constexpr char kConfig[] = "config.json", kGeneration[] = "generation_config.json";

INSTANTIATE_TEST_SUITE_P(
    Config, HostileValuesTest,
    testing::Values(
        Value{kEmbed, kConfig, "/model_type", nullptr, "model_type is missing; served are bert, "},
        Value{kEmbed, kConfig, "/model_type", 7, "model_type is 7; a string"},
        Value{kEmbed, kConfig, "/model_type", "mamba", "model_type is \"mamba\"; served are bert"},
        Value{kEmbed, kConfig, "/model_type", std::string(3000000, 'x'), "; served are bert, "},
        Value{kEmbed, kConfig, "/architectures", json::array({"BertForMultipleChoice"}),
              "architectures is [\"BertForMultipleChoice\"]; served are BertModel, "},
        Value{kClassify, kConfig, "/id2label/2", nullptr, "\"2\" is the first that is not"},
        Value{kClassify, kConfig, "/id2label/5", "six",
              "5 is expected, the rows of tensor \"class"},
        Value{kClassify, kConfig, "/id2label", json::array(), "id2label is []; an object"},
        Value{kClassify, kConfig, "/num_labels", 4, "num_labels is 4; 5 is expected"},
        Value{kClassify, kConfig, "/problem_type", "ranking", "problem_type is \"ranking\"; "},
        Value{kClassify, kConfig, "/problem_type", "regression", ""},
        Value{kClassify, kConfig, "/sentence_transformers", json{{"activation_fn", "os.system"}},
              "activation_fn is \"os.system\"; supported are Sigmoid and Identity"},
        Value{kEmbed, kConfig, "/architectures", json::array({"BertForNextSentencePrediction"}),
              "BertForNextSentencePrediction"},
        Value{kEmbed, kConfig, "/architectures", "BertModel", "architectures is \"BertModel\""},
        Value{kEmbed, kConfig, "/architectures", json::array({"BertModel", 5}), "architectures"},
        Value{kEmbed, kConfig, "/architectures", json::array({""}), "architectures is [\"\"]"},
        Value{kEmbed, kConfig, "/architectures", json::array(), ""},
        Value{kEmbed, kConfig, "/architectures", nullptr, ""},
        Value{kEmbed, kConfig, "/architectures", json::array({"BertForMaskedLM"}), ""},
        Value{kWrite, kConfig, "/architectures", json::array({"GPT2DoubleHeadsModel"}),
              "served are GPT2LMHeadModel"},
        Value{kWrite, kConfig, "/architectures", json::array({"GPT2ForSequenceClassification"}),
              "no tensor \"score.weight\""},
        Value{kTranslate, kConfig, "/architectures", json::array({"MarianForCausalLM"}),
              "served are MarianMTModel"},
        Value{kEmbed, kConfig, "/max_position_embeddings", 1 << 20,
              "max_position_embeddings is 1048576; 256 is expected"},
        Value{kEmbed, kConfig, "/vocab_size", 7169, "vocab_size is 7169; 7168 is expected"},
        Value{kEmbed, kConfig, "/pad_token_id", 7168, "pad_token_id is 7168; a whole number"},
        Value{kWrite, kConfig, "/n_positions", 1 << 20, "n_positions is 1048576; 512 is expected"},
        Value{kWrite, kConfig, "/n_layer", 1 << 20, "model.safetensors: no tensor"},
        Value{kTranslate, kConfig, "/max_position_embeddings", 1 << 20,
              "max_position_embeddings is 1048576; a whole number from 1 to 16384"},
        Value{kTranslate, kConfig, "/max_position_embeddings", 0, "max_position_embeddings is 0"},
        Value{kTranslate, kConfig, "/d_model", 1 << 20, "config.json"},
        Value{kWrite, kConfig, "/is_encoder_decoder", true, "is_encoder_decoder is true; only"},
        Value{kWrite, kConfig, "/hidden_size", 64, "hidden_size is 64; it is n_embd's other name"},
        Value{kWrite, kConfig, "/hidden_size", 192, ""},
        Value{kWrite, kConfig, "/num_hidden_layers", 4, "num_hidden_layers is 4; it is n_layer's"},
        Value{kWrite, kConfig, "/num_attention_heads", 1, "num_attention_heads is 1; it is n_head"},
        Value{kWrite, kConfig, "/max_position_embeddings", 1024,
              "max_position_embeddings is 1024; it is n_positions's other name, which is 512"},
        Value{kTranslate, kConfig, "/is_encoder_decoder", false, "is_encoder_decoder is false"},
        Value{kTranslate, kConfig, "/hidden_size", 64, "hidden_size is 64; it is d_model's other"},
        Value{kTranslate, kConfig, "/num_hidden_layers", 99,
              "num_hidden_layers is 99; it is encoder_layers's other name"},
        Value{kTranslate, kConfig, "/num_attention_heads", 1,
              "num_attention_heads is 1; it is encoder_attention_heads's other name"},
        Value{kTranslate, kConfig, "/d_model", 252, "expected by config.json, found"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Generation, HostileValuesTest,
    testing::Values(
        Value{kWrite, kGeneration, "/eos_token_id", 6000, "eos_token_id is 6000; ids from 0 to"},
        Value{kWrite, kGeneration, "/eos_token_id", {5999, 6000}, "eos_token_id is [5999,6000]"},
        Value{kWrite, kGeneration, "/eos_token_id", -1, "eos_token_id is -1"},
        Value{kWrite, kGeneration, "/bos_token_id", 6000, "bos_token_id is 6000"},
        Value{kWrite, kGeneration, "/pad_token_id", 6000, "pad_token_id is 6000"},
        Value{kTranslate, kGeneration, "/decoder_start_token_id", 8000, "decoder_start_token_id"},
        Value{kTranslate, kGeneration, "/forced_eos_token_id", 8000, "forced_eos_token_id is 8000"},
        Value{kTranslate, kGeneration, "/forced_bos_token_id", -2, "forced_bos_token_id is -2"},
        Value{kTranslate, kGeneration, "/bad_words_ids", {{8000}}, "bad_words_ids is [[8000]]"},
        Value{kTranslate, kGeneration, "/num_beams", 0, "num_beams is 0"},
        Value{kTranslate, kGeneration, "/num_beams", 65, "num_beams is 65"},
        Value{kTranslate, kGeneration, "/length_penalty", 11, "length_penalty is 11; accepted"},
        Value{kTranslate, kGeneration, "/max_length", 0, "max_length is 0"},
        Value{kTranslate, kGeneration, "/max_length", 1, "max_length is 1; accepted: at least 2"},
        Value{kTranslate, kGeneration, "/max_length", -5, "max_length is -5"},
        Value{kWrite, kGeneration, "/max_new_tokens", 0, "max_new_tokens is 0"},
        Value{kWrite, kGeneration, "/temperature", -1, "temperature is -1; accepted: above 0"},
        Value{kWrite, kGeneration, "/temperature", 0, "temperature is 0; accepted: above 0"},
        Value{kWrite, kGeneration, "/top_k", -5, "top_k is -5"},
        Value{kWrite, kGeneration, "/top_p", 0, "top_p is 0"},
        Value{kWrite, kGeneration, "/top_p", 1.5, "top_p is 1.5; accepted"},
        Value{kWrite, kGeneration, "/min_p", -0.5, "min_p is -0.5; accepted"},
        Value{kWrite, kGeneration, "/typical_p", 2, "typical_p is 2; accepted"},
        Value{kWrite, kGeneration, "/repetition_penalty", 0, "repetition_penalty is 0; accepted"},
        Value{kWrite, kGeneration, "/no_repeat_ngram_size", -5, "no_repeat_ngram_size is -5"},
        Value{kWrite, kGeneration, "/temperature", std::string(200000, 'x'), "temperature is"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Tokenizers, HostileValuesTest,
    testing::Values(
        Value{kWrite, "tokenizer.json", "/model/type", std::string(100000, 'y'), "unknown model"},
        Value{kWrite, "tokenizer.json", "/model/vocab/a", -1, "token \"a\" has the id -1"},
        Value{kWrite, "tokenizer.json", "/model/merges/0", json::array({"a"}), "entry 0"},
        Value{kWrite, "tokenizer.json", "/added_tokens/0/id", 1 << 30, "added_tokens[0].id"},
        Value{kEmbed, "tokenizer.json", "/model/continuing_subword_prefix", 5,
              "continuing_subword_prefix"},
        Value{kWrite, "tokenizer.json", "/post_processor", 1, "post_processor"},
        Value{kTranslate, "vocab.json", "/<unk>", nullptr, "the unknown token"},
        Value{kTranslate, "vocab.json", "/<unk>", "x", "token \"<unk>\" has the id"},
        Value{kEmbed, "tokenizer_config.json", "/model_max_length", "x", "model_max_length"},
        Value{kWrite, "special_tokens_map.json", "/eos_token", 5, "\"eos_token\" is 5, expected a"},
        Value{kTranslate, "special_tokens_map.json", "/eos_token", "", "\"eos_token\" is \"\""},
        Value{kTranslate, "special_tokens_map.json", "/pad_token", std::string(70000, 'q'),
              "a token of 70000 bytes; accepted: at most 65535"},
        Value{kTranslate, "tokenizer_config.json", "/extra_special_tokens",
              json::array({std::string(70000, 'q')}), "a token of 70000 bytes"},
        Value{kEmbed, "special_tokens_map.json", "/cls_token", "[NEW]",
              "\"cls_token\" is \"[NEW]\""},
        Value{kEmbed, "tokenizer_config.json", "/sep_token", json::object(), "\"sep_token\" is {}"},
        // special_tokens_map.json has another.
        Value{kTranslate, "tokenizer_config.json", "/eos_token", "", ""},
        Value{kTranslate, "special_tokens_map.json", "/eos_token", {{"content", ""}}, "eos_token"},
        Value{kEmbed, "tokenizer.json", "/added_tokens/0/content", std::string(70000, 'q'),
              "a token of 70000 bytes; accepted: at most 65535"},
        Value{kTranslate, "tokenizer_config.json", "/separate_vocabs", 3, "separate_vocabs"}),
    NameOf);

TEST(HostileValueFoldersTest, IdsBeyondTheVocabularyOfAConfigWithoutGenerationConfig) {
  HostileFolder folder("write-en");
  folder.files().Remove("generation_config.json");
  folder.Patch("config.json", "/eos_token_id", 6000);
  ExpectShortErrorWith(folder.Load(), "/config.json: eos_token_id is 6000; ids from 0 to 5999");
}

TEST(HostileValueFoldersTest, DefaultsOfAConfigWithoutGenerationConfig) {
  HostileFolder folder("write-en");
  folder.files().Remove("generation_config.json");
  folder.Patch("config.json", "/temperature", -1);
  ExpectShortErrorWith(folder.Load(), "/config.json: temperature is -1; accepted: above 0");
}

// Each was once compared with all before it, for minutes.
TEST(HostileValueFoldersTest, HundredsOfThousandsOfSpecialTokens) {
  constexpr int kCount = kSanitized ? 5000 : 200000;
  json names = json::array(), added = json::object();
  for (int i = 0; i < kCount; ++i) {
    names.push_back("<t" + std::to_string(i) + ">");
    added[std::to_string(i)] = {{"content", "<a" + std::to_string(i) + ">"}};
  }
  for (const char* model : {kWrite, kEmbed, kTranslate}) {
    const HostileFolder folder(model);
    const auto start = std::chrono::steady_clock::now();
    folder.files().WriteJson("special_tokens_map.json", {{"additional_special_tokens", names}});
    EXPECT_TRUE(folder.Load().ok());
    folder.files().WriteJson("tokenizer_config.json", {{"added_tokens_decoder", added}});
    EXPECT_EQ(folder.Load().ok(), std::string(model) == kTranslate);  // the others' are too many
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << model;
  }
}

TEST(HostileValueFoldersTest, TheDocumentsStateTheLimitsOfFiles) {
  std::ifstream file(BEAMLINE_SOURCE_DIR "/docs/checkpoints.md");
  std::string page;
  for (std::string word; file >> word;) page += word + " ";
  EXPECT_THAT(page, testing::HasSubstr(fmt::format(
                        "JSON up to {} MiB, a tokenizer's files up to {} MiB; JSON has at most {} "
                        "values and names, nested at most {} deep",
                        kMaxConfigFileBytes >> 20, kMaxTokenizerFileBytes >> 20, kMaxJsonValues,
                        kMaxJsonDepth)));
}

// As large as the file may be, of the values that take the most memory for a byte.
TEST(HostileValueFoldersTest, MillionsOfValues) {
  struct Values {
    const char* file;
    size_t bytes;
    std::string_view value;
  };
  if (kSanitized) GTEST_SKIP() << "takes minutes; json_values_test has the limit itself";
  constexpr size_t kTokenizerBytes = kMaxTokenizerFileBytes - 64;
  for (const auto& [file, bytes, value] :
       {Values{"config.json", kMaxConfigFileBytes - 64, "[]"},
        Values{"tokenizer.json", kTokenizerBytes, "{}"},
        Values{"tokenizer_config.json", kTokenizerBytes, "\"\""}}) {
    const HostileFolder folder("write-en");
    std::string text = "{\"x\":[";
    while (text.size() < bytes) text.append(value).append(",");
    folder.files().Write(file, text.append("0]}"));
    ExpectShortErrorWith(folder.Load(), fmt::format("{}: more than 8388608 values", file));
  }
}

TEST(HostileValueFoldersTest, ATokenizerLargerThanTheVocabularyNamesTheConfig) {
  HostileFolder folder("write-en");
  json tokenizer = folder.ReadJson("tokenizer.json");
  tokenizer["added_tokens"].push_back({{"id", 6100}, {"content", "<new>"}, {"special", true}});
  folder.files().WriteJson("tokenizer.json", tokenizer);
  ExpectShortErrorWith(folder.Load(), "/config.json: vocab_size is 6000; at least 6101");
}

// The weights file of `folder` with another header, and bytes before and behind the data.
struct Weights {
  explicit Weights(const HostileFolder& folder) {
    const std::string bytes = folder.Read("model.safetensors");
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof(size));
    header = json::parse(bytes.substr(8, size));
    data = bytes.substr(8 + size);
  }
  std::string Bytes(const std::string& behind_header = "") const {
    return SafetensorsBytes(header.dump() + behind_header, 0) + data;
  }

  json header;
  std::string data;
};

TEST(HostileValueFoldersTest, WeightsThatAreNoNumbers) {
  for (const uint16_t bits : {uint16_t{0x7FC0}, uint16_t{0xFF80}}) {  // NaN, -infinity: bfloat16
    for (const char* tensor :
         {"embeddings.word_embeddings.weight", "encoder.layer.3.output.dense.weight",
          "encoder.layer.0.attention.self.key.bias", "encoder.layer.1.output.LayerNorm.weight"}) {
      const HostileFolder folder("embed-en");
      Weights weights(folder);
      ASSERT_EQ(weights.header[tensor]["dtype"], "BF16");
      const size_t end = weights.header[tensor]["data_offsets"][1];
      std::memcpy(weights.data.data() + end - sizeof(bits), &bits, sizeof(bits));
      folder.files().Write("model.safetensors", weights.Bytes());
      ExpectShortErrorWith(folder.Load(), std::string("/model.safetensors: tensor \"") + tensor +
                                              "\" holds NaN or infinity");
    }
  }
}

TEST(HostileValuesTest, HeadersOfWeights) {
  const HostileFolder folder("embed-en");
  const Weights whole(folder);
  const char* const tensor = "embeddings.LayerNorm.bias";
  const auto expect = [&](const std::string& bytes, const std::string& part) {
    folder.files().Write("model.safetensors", bytes);
    ExpectShortErrorWith(folder.Load(), "/model.safetensors: " + part);
  };
  std::string huge = whole.Bytes();
  std::memset(huge.data(), 0x7F, 8);
  expect(huge, "the header claims ");
  expect(whole.Bytes(std::string(1, '\0')), "not valid JSON at byte");
  expect(whole.Bytes("{}"), "not valid JSON at byte");
  expect(whole.Bytes() + "x", "1 bytes follow");
  Weights changed = whole;
  changed.header["embeddings.LayerNorm.weight"]["data_offsets"] =
      changed.header[tensor]["data_offsets"];
  expect(changed.Bytes(), "tensor \"embeddings.LayerNorm.");
  changed = whole;
  changed.header[tensor]["shape"] = {int64_t{1} << 62, 8};
  expect(changed.Bytes(), "tensor \"embeddings.LayerNorm.bias\": the byte size");
  changed = whole;
  changed.header[std::string(2000000, 'n')] = 1;
  expect(changed.Bytes(), "tensor \"nnn");
  changed = whole;
  changed.header[tensor]["dtype"] = "I8";
  expect(changed.Bytes(), "tensor \"embeddings.LayerNorm.bias\": shape and dtype");
  changed = whole;
  const json stored = changed.header[tensor];
  changed.header.erase(tensor);
  changed.header["classifier.bias"] = stored;
  expect(changed.Bytes(), "tensor \"classifier.bias\" is of a classifier");
  changed.header.erase("classifier.bias");
  changed.header["other"] = stored;
  expect(changed.Bytes(), "no tensor \"embeddings.LayerNorm.bias\"");
}

struct OtherFormat {
  std::vector<const char*> removed;
  std::vector<const char*> added;
  const char* message;
};

TEST(HostileValuesTest, SaysWhatAFolderHoldsInstead) {
  const char* const weights = "model.safetensors";
  const OtherFormat formats[] = {
      {{weights}, {}, "neither model.safetensors nor model.safetensors.index.json"},
      {{weights}, {"pytorch_model.bin"}, "pytorch_model.bin is not read, convert"},
      {{weights}, {"pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"}, "00001"},
      {{weights}, {"tf_model.h5"}, "tf_model.h5 is not read, convert"},
      {{weights}, {"flax_model.msgpack"}, "flax_model.msgpack is not read"},
      {{weights}, {"model.onnx"}, "model.onnx is not read"},
      {{weights}, {"onnx/model.onnx"}, "onnx is not read"},
      {{weights}, {"model-Q4_K_M.gguf"}, "model-Q4_K_M.gguf is not read"},
      {{weights, "config.json"}, {"model-Q4_K_M.gguf"}, "model-Q4_K_M.gguf is not read"},
      {{weights},
       {"model-00001-of-00002.safetensors"},
       "model-00001-of-00002.safetensors is there"},
      {{weights, "config.json"}, {"0_Transformer/config.json"}, "0_Transformer is where"},
      {{weights, "config.json"}, {"snapshots/3f9/config.json"}, "snapshots is there: name the"},
      {{weights, "config.json"}, {"adapter_config.json"}, "adapter_config.json: a LoRA"},
      {{}, {"adapter_config.json"}, "adapter_config.json: a LoRA or PEFT adapter"},
      {{"tokenizer.json", "vocab.txt"},
       {"sentencepiece.bpe.model"},
       "sentencepiece.bpe.model: a SentencePiece model alone"},
      {{"tokenizer.json", "vocab.txt"}, {}, "no tokenizer.json, no source.spm"},
  };
  for (const OtherFormat& format : formats) {
    SCOPED_TRACE(format.message);
    const HostileFolder folder("embed-en");
    for (const char* name : format.removed) folder.files().Remove(name);
    for (const char* name : format.added) folder.files().Write(name, "{}");
    ExpectShortErrorWith(folder.Load(), format.message);
  }
}

// Who serves a mamba in a .bin wants to hear of the mamba.
TEST(HostileValuesTest, TheFamilyComesBeforeTheWeights) {
  HostileFolder folder("embed-en");
  folder.Patch("config.json", "/model_type", "mamba");
  folder.files().Remove("model.safetensors");
  ExpectShortErrorWith(folder.Load(), "/config.json: model_type is \"mamba\"");
}

}  // namespace
}  // namespace beamline::hostile_values_test
