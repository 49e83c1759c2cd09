// The ids that transformers 5 gives where tokenizer.json and tokenizer_config.json differ.
// Long because every class has its files, its settings and its ids here.
#include "engine/text/tokenizer_class.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/text/byte_alphabet.h"
#include "engine/text/tokenizer.h"
#include "fmt/format.h"
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

  // One of Llama 2 as its checkpoints have it.
  static json Llama() {
    json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
    for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = vocab.size();
    for (const char* piece : {"▁", "a", "b", "▁a", "ab", "▁ab", "<", ">", "s"}) {
      vocab[piece] = vocab.size();
    }
    const json merges = {"▁ a", "a b", "▁a b", "▁ ab"};
    json added = json::array();
    for (const char* token : {"<unk>", "<s>", "</s>"}) {
      added.push_back({{"id", vocab[token]}, {"content", token}, {"special", true}});
    }
    const json normalizers = {
        {{"type", "Prepend"}, {"prepend", "▁"}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}};
    const json single = {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}};
    return {{"added_tokens", added},
            {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
            {"post_processor",
             {{"type", "TemplateProcessing"},
              {"single", single},
              {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}}}}}}},
            {"decoder",
             {{"type", "Sequence"},
              {"decoders",
               {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}},
                {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
            {"model",
             {{"type", "BPE"},
              {"unk_token", "<unk>"},
              {"fuse_unk", true},
              {"byte_fallback", true},
              {"vocab", vocab},
              {"merges", merges}}}};
  }
  // One over bytes, whose ids are theirs, and four words; cut as GPT-2 does.
  static json Bytes() {
    json vocab = json::object();
    for (const std::string& spelling : text::ByteSpellings()) vocab[spelling] = vocab.size();
    for (const char* word : {"12", "ab", "Ġa", "Ġab", "<|endoftext|>"}) vocab[word] = vocab.size();
    const json merges = {"1 2", "a b", "Ġ a", "Ġa b", "Ġ ab"};
    return {{"added_tokens",
             {{{"id", vocab["<|endoftext|>"]}, {"content", "<|endoftext|>"}, {"special", true}}}},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
            {"decoder", {{"type", "ByteLevel"}}},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
  }

  std::vector<int32_t> Ids(const json& tokenizer, const json& config, const std::string& model_type,
                           const std::string& text) const {
    folder_.WriteJson("tokenizer.json", tokenizer);
    return IdsOfFolder(config, model_type, text);
  }
  // Of whatever files of a tokenizer there are.
  std::vector<int32_t> IdsOfFolder(const json& config, const std::string& model_type,
                                   const std::string& text) const {
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

// Over a file that does otherwise.
TEST_F(TokenizerClassTest, AlbertNormalizesAsItsConfigSays) {
  const char* const pieces[] = {"<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "▁", "▁cafe",
                                "▁café", "\"",    "▁\"",   "a",     "é",      "e", "▁Cafe",
                                "fi",    "ﬁ",     "c",     "f",     "▁c",     "x"};
  json vocab = json::array(), added = json::array();
  for (const char* const piece : pieces) {
    const size_t id = vocab.size();
    vocab.push_back({piece, id < 5 ? 0.0 : -2.0 - 0.1 * static_cast<double>(id)});
    if (id < 5) added.push_back({{"id", id}, {"content", piece}, {"special", true}});
  }
  const json albert = {{"added_tokens", added},
                       {"normalizer", {{"type", "Lowercase"}}},
                       {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                       {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}}}};
  const std::string quoted = "``Café''  café", ligature = "Cafe ﬁ x";
  EXPECT_THAT(Ids(albert, json::object(), "albert", quoted),
              ElementsAre(2, 9, 16, 10, 17, 12, 8, 6, 3));
  EXPECT_THAT(Ids(albert, json::object(), "albert", ligature), ElementsAre(2, 6, 5, 14, 5, 19, 3));
  const json accents = {{"tokenizer_class", "AlbertTokenizer"}, {"keep_accents", true}};
  EXPECT_THAT(Ids(albert, accents, "albert", quoted), ElementsAre(2, 9, 16, 10, 17, 11, 8, 7, 3));
  EXPECT_THAT(Ids(albert, accents, "albert", ligature), ElementsAre(2, 6, 5, 15, 5, 19, 3));
  const json cased = {{"tokenizer_class", "AlbertTokenizerFast"},
                      {"do_lower_case", false},
                      {"add_prefix_space", false}};
  EXPECT_THAT(Ids(albert, cased, "albert", quoted),
              ElementsAre(2, 8, 1, 10, 17, 12, 8, 16, 10, 17, 12, 3));
  EXPECT_THAT(Ids(albert, cased, "albert", ligature), ElementsAre(2, 1, 10, 17, 12, 14, 19, 3));
}

TEST_F(TokenizerClassTest, MpNetHasBertsWordsBetweenRobertasTokens) {
  const json vocab = {{"<s>", 0},  {"<pad>", 1}, {"</s>", 2},   {"[UNK]", 3}, {"<mask>", 4},
                      {"dog", 5},  {"Dog", 6},   {"é", 7},      {"e", 8},     {"É", 9},
                      {"##s", 10}, {"-", 11},    {"[CLS]", 12}, {"[SEP]", 13}};
  const json mpnet = {{"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                      {"post_processor", Template("[CLS]", 12, "[SEP]", 13)},
                      {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"vocab", vocab}}}};
  const std::string text = "Dog-dogs É é";
  EXPECT_THAT(Ids(mpnet, json::object(), "mpnet", text), ElementsAre(0, 5, 11, 5, 10, 8, 8, 2));
  const json cased = {{"tokenizer_class", "MPNetTokenizer"}, {"do_lower_case", false}};
  EXPECT_THAT(Ids(mpnet, cased, "mpnet", text), ElementsAre(0, 6, 11, 5, 10, 9, 7, 2));
  const json tokens = {{"tokenizer_class", "MPNetTokenizer"},
                       {"strip_accents", false},
                       {"cls_token", "[CLS]"},
                       {"sep_token", "[SEP]"}};
  EXPECT_THAT(Ids(mpnet, tokens, "mpnet", text), ElementsAre(12, 5, 11, 5, 10, 7, 7, 13));
}

TEST_F(TokenizerClassTest, LlamaPutsASpaceBeforeTheTextAlone) {
  const json none = json::object(), llama = {{"tokenizer_class", "LlamaTokenizerFast"}};
  const auto with = [&](const char* key, const json& value) {
    json config = llama;
    config[key] = value;
    return config;
  };
  const std::string again = "a</s>ab", space = " ab";
  EXPECT_THAT(Ids(Llama(), llama, "llama", "ab ab"), ElementsAre(1, 264, 264));
  EXPECT_THAT(Ids(Llama(), llama, "llama", space), ElementsAre(1, 264));
  EXPECT_THAT(Ids(Llama(), llama, "llama", again), ElementsAre(1, 262, 2, 263));
  EXPECT_THAT(Ids(Llama(), llama, "llama", "é"), ElementsAre(1, 259, 198, 172));
  EXPECT_THAT(Ids(Llama(), with("legacy", nullptr), "llama", again), ElementsAre(1, 262, 2, 263));
  EXPECT_THAT(Ids(Llama(), with("legacy", true), "llama", again), ElementsAre(1, 262, 2, 264));
  EXPECT_THAT(Ids(Llama(), with("add_prefix_space", false), "llama", again),
              ElementsAre(1, 260, 2, 263));
  // The file's template stays, whatever these say.
  EXPECT_THAT(Ids(Llama(), with("add_bos_token", false), "llama", "ab ab"),
              ElementsAre(1, 264, 264));
  EXPECT_THAT(Ids(Llama(), with("add_eos_token", true), "llama", "ab ab"),
              ElementsAre(1, 264, 264));
  const json code = {{"tokenizer_class", "CodeLlamaTokenizer"}, {"legacy", true}};
  EXPECT_THAT(Ids(Llama(), code, "llama", again), ElementsAre(1, 262, 2, 263));
  // Files that are taken as they are.
  for (const char* model_type : {"llama", "mistral"}) {
    const json& config = std::string(model_type) == "llama" ? none : llama;
    EXPECT_THAT(Ids(Llama(), config, model_type, space), ElementsAre(1, 259, 264));
    EXPECT_THAT(Ids(Llama(), config, model_type, again), ElementsAre(1, 262, 2, 264));
  }
  const auto loaded = LoadTokenizer(folder_.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->Decode(std::vector<int32_t>{264, 264, 198, 172}, true).value(), "ab abé");
}

TEST_F(TokenizerClassTest, Qwen2CutsDigitsApartAndComposesCharacters) {
  const json none = json::object(), llama = {{"tokenizer_class", "LlamaTokenizerFast"}};
  const json fast = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  const std::string digits = "12 ab", accent = "cafe\u0301";
  // Qwen 2's files may name another class, Qwen 3's are taken at their word.
  for (const auto& [config, model_type] :
       {std::pair(none, "qwen2"), {fast, "qwen2"}, {llama, "qwen2"}, {none, "qwen3"}}) {
    EXPECT_THAT(Ids(Bytes(), config, model_type, digits), ElementsAre(49, 50, 259));
    EXPECT_THAT(Ids(Bytes(), config, model_type, accent), ElementsAre(99, 97, 102, 195, 169));
  }
  for (const auto& [config, model_type] :
       {std::pair(fast, "qwen3"), {llama, "qwen3"}, {llama, "llama"}}) {
    EXPECT_THAT(Ids(Bytes(), config, model_type, digits), ElementsAre(256, 259));
    EXPECT_THAT(Ids(Bytes(), config, model_type, accent), ElementsAre(99, 97, 102, 101, 204, 129));
  }
  const json prefix = {{"tokenizer_class", "Qwen2Tokenizer"}, {"add_prefix_space", true}};
  EXPECT_THAT(Ids(Bytes(), prefix, "qwen2", "ab's"), ElementsAre(259, 32, 39, 115));
}

// A piece of a SentencePiece model, and its type.
using Piece = std::pair<const char*, int>;

std::string SentencePieceModel(const std::vector<Piece>& pieces, int model_type) {
  const auto field = [](int number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) +
           bytes;
  };
  std::string model;
  for (const auto& [text, type] : pieces) {
    model += field(1, field(1, text) + "\x18" + static_cast<char>(type));
  }
  return model + field(2, std::string("\x18") + static_cast<char>(model_type));
}

// As Llama 2 has it: pieces that merge in the order of their ids.
std::string LlamaModel(int model_type) {
  return SentencePieceModel({{"<unk>", 2},
                             {"<s>", 3},
                             {"</s>", 3},
                             {"[I]", 4},
                             {"▁", 1},
                             {"a", 1},
                             {"b", 1},
                             {"c", 1},
                             {"bc", 1},
                             {"ab", 1},
                             {"abc", 1},
                             {"▁a", 1},
                             {"[", 1},
                             {"I", 1},
                             {"<0xC3>", 6},
                             {"<0xA9>", 6}},
                            model_type);
}

// Ids as transformers 5.24 has them of the same files.
TEST_F(TokenizerClassTest, GemmaMergesTheSentencePieceModelInTheOrderOfIds) {
  const std::vector<Piece> pieces = {{"<pad>", 3},  {"<eos>", 3},  {"<bos>", 3},
                                     {"<unk>", 2},  {"<mask>", 4}, {"<start_of_turn>", 4},
                                     {"▁", 1},      {"a", 1},      {"b", 1},
                                     {"c", 1},      {"bc", 1},     {"ab", 1},
                                     {"abc", 1},    {"▁a", 1},     {"a▁", 1},
                                     {"[", 1},      {"\n", 1},     {"\n\n", 1},
                                     {"<0xC3>", 6}, {"<0xA9>", 6}};
  folder_.Write("tokenizer.model", SentencePieceModel(pieces, 2));
  json config = {{"tokenizer_class", "GemmaTokenizer"}};
  EXPECT_THAT(IdsOfFolder(config, "gemma", "abc ab<mask>é"), ElementsAre(12, 6, 11, 4, 18, 19));
  EXPECT_THAT(IdsOfFolder(config, "gemma", " a  a"), ElementsAre(13, 6, 13));
  EXPECT_THAT(IdsOfFolder(config, "gemma2", "a<eos>a"), ElementsAre(7, 1, 7));
  EXPECT_THAT(IdsOfFolder(json::object(), "gemma3_text", "a<pad> b"), ElementsAre(7, 0, 6, 8));
  config["add_bos_token"] = true;
  EXPECT_THAT(IdsOfFolder(config, "gemma", "<start_of_turn>a\n\n\n[x"),
              ElementsAre(2, 5, 7, 17, 16, 15, 3));
  config["add_eos_token"] = true;
  EXPECT_THAT(IdsOfFolder(config, "gemma", "bcabc"), ElementsAre(2, 10, 12, 1));
  const auto tokenizer = LoadTokenizer(folder_.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  // Pieces of roles are special, those that a user defined are not.
  EXPECT_EQ((*tokenizer)->Decode(std::vector<int32_t>{5, 7, 4, 7, 0}, true).value_or(""),
            "<start_of_turn>aa");
  const int32_t first = 7, second = 8;
  const auto pair = (*tokenizer)->JoinPair({&first, 1}, {&second, 1}, Truncation::kNone, 0);
  ASSERT_TRUE(pair.has_value());
  EXPECT_THAT(pair->ids, ElementsAre(2, 7, 1, 2, 8, 1));
}

TEST_F(TokenizerClassTest, LlamaMergesTheSentencePieceModelInTheOrderOfIds) {
  folder_.Write("tokenizer.model", LlamaModel(2));
  const json llama = {{"tokenizer_class", "LlamaTokenizer"}};
  json config = llama;
  EXPECT_THAT(IdsOfFolder(config, "llama", "abc ab[I]é"), ElementsAre(4, 10, 4, 9, 3, 14, 15));
  EXPECT_THAT(IdsOfFolder(config, "llama", "bcabc"), ElementsAre(4, 8, 10));
  config["add_bos_token"] = true;
  EXPECT_THAT(IdsOfFolder(config, "llama", "a"), ElementsAre(1, 11));
  config["add_eos_token"] = true;
  EXPECT_THAT(IdsOfFolder(config, "llama", "a</s>a"), ElementsAre(1, 11, 2, 5, 2));
  const auto error = [&] { return std::string(LoadTokenizer(folder_.path()).status().message()); };
  folder_.WriteJson("tokenizer_config.json", {{"tokenizer_class", "XLNetTokenizer"}});
  EXPECT_THAT(error(), HasSubstr("a SentencePiece model alone does not say"));
  folder_.WriteJson("tokenizer_config.json", llama);
  folder_.Write("tokenizer.model", LlamaModel(1));
  EXPECT_THAT(error(), HasSubstr("tokenizer.model: SentencePiece model type 1; accepted: 2 (BPE)"));
}

TEST_F(TokenizerClassTest, AnotherRegularExpressionIsRefused) {
  folder_.WriteJson("tokenizer.json", Bytes());
  folder_.WriteJson("tokenizer_config.json", {{"fix_mistral_regex", true}});
  EXPECT_THAT(std::string(LoadTokenizer(folder_.path()).status().message()),
              HasSubstr("\"fix_mistral_regex\" is true; only false is supported"));
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

// "é" in two characters is one behind NFC: bytes 195 and 169.
TEST_F(TokenizerClassTest, GptNeoXComposesAndHasNoTemplate) {
  const std::string text = "ab ab e\u0301";
  json tokenizer = Bytes();
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<|endoftext|>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
      {"special_tokens", {{"<|endoftext|>", {{"id", "<|endoftext|>"}, {"ids", {260}}}}}}};
  const auto ids = ElementsAre(257, 259, 32, 195, 169);
  EXPECT_THAT(Ids(Bytes(), json::object(), "gpt_neox", text), ids);
  EXPECT_THAT(Ids(tokenizer, {{"tokenizer_class", "GPTNeoXTokenizerFast"}, {"add_bos_token", true}},
                  "gpt_neox", text),
              ids);
  EXPECT_THAT(Ids(tokenizer, {{"add_prefix_space", true}}, "gpt_neox", text),
              ElementsAre(259, 259, 32, 195, 169));
  EXPECT_THAT(Ids(tokenizer, {{"tokenizer_class", "PreTrainedTokenizerFast"}}, "gpt_neox", text),
              ElementsAre(260, 257, 259, 32, 101, 204, 129));
}

// Of those that have GPT-2's class without saying so, and of those that have none.
TEST_F(TokenizerClassTest, DecodersHaveTheClassOfTheirModelType) {
  json tokenizer = Bytes();
  tokenizer["normalizer"] = {{"type", "NFC"}};
  const std::string text = "ab ab e\u0301";
  for (const char* const model_type : {"gptj", "gpt_neo", "opt", "starcoder2"}) {
    EXPECT_THAT(Ids(tokenizer, json::object(), model_type, text),
                ElementsAre(257, 259, 32, 101, 204, 129))
        << model_type;
  }
  for (const char* const model_type : {"falcon", "phi3"}) {
    EXPECT_THAT(Ids(tokenizer, {{"add_prefix_space", true}}, model_type, text),
                ElementsAre(257, 259, 32, 195, 169))
        << model_type;
  }
  EXPECT_THAT(Ids(tokenizer, {{"tokenizer_class", "GPT2Tokenizer"}}, "phi3", text),
              ElementsAre(257, 259, 32, 195, 169));
}

TEST_F(TokenizerClassTest, OptsFilesHaveABeginningAsTheirConfigSays) {
  json vocab = Bytes()["model"]["vocab"];
  vocab["</s>"] = 261;
  vocab["<pad>"] = 262;
  folder_.WriteJson("vocab.json", vocab);
  folder_.Write("merges.txt", "#version: 0.2\n1 2\na b\nĠ a\nĠa b\nĠ ab\n");
  const json config = {{"tokenizer_class", "GPT2Tokenizer"},
                       {"add_bos_token", true},
                       {"bos_token", "</s>"},
                       {"eos_token", "</s>"},
                       {"unk_token", "</s>"},
                       {"pad_token", "<pad>"}};
  EXPECT_THAT(IdsOfFolder(config, "opt", "ab ab e\u0301"),
              ElementsAre(261, 257, 259, 32, 101, 204, 129));
  EXPECT_THAT(IdsOfFolder({{"add_bos_token", true}, {"bos_token", "</s>"}}, "opt", "ab"),
              ElementsAre(261, 257));
}

TEST_F(TokenizerClassTest, GemmaPutsNoSpaceBeforeAText) {
  json vocab = {{"<pad>", 0}, {"<eos>", 1}, {"<bos>", 2}, {"<unk>", 3}, {"<mask>", 4}};
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = vocab.size();
  for (const char* piece : {"▁", "a", "b", "▁a", "ab", "▁ab", "<", ">", "s", "▁▁"}) {
    vocab[piece] = vocab.size();
  }
  json added = json::array();
  for (const char* token : {"<pad>", "<eos>", "<bos>", "<unk>", "<mask>"}) {
    added.push_back({{"id", vocab[token]}, {"content", token}, {"special", true}});
  }
  json tokenizer = Llama();
  tokenizer["added_tokens"] = added;
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<bos>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
      {"special_tokens", {{"<bos>", {{"id", "<bos>"}, {"ids", {2}}}}}}};
  tokenizer["model"]["vocab"] = vocab;
  tokenizer["model"]["merges"] = {"▁ a", "a b", "▁a b", "▁ ab", "▁ ▁"};
  tokenizer["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  tokenizer["normalizer"] = nullptr;
  const std::string text = "ab  ab é<eos>zs";
  const auto ids = ElementsAre(2, 265, 261, 266, 261, 200, 174, 1, 127, 269);
  for (const char* const model_type : {"gemma", "gemma3_text"}) {
    EXPECT_THAT(Ids(tokenizer, json::object(), model_type, text), ids) << model_type;
  }
  EXPECT_THAT(Ids(tokenizer, {{"tokenizer_class", "GemmaTokenizerFast"}, {"add_bos_token", false}},
                  "gemma", text),
              ids);
  EXPECT_THAT(Ids(tokenizer, {{"tokenizer_class", "PreTrainedTokenizerFast"}}, "gemma", text),
              ElementsAre(2, 266, 261, 266, 261, 200, 174, 1, 127, 269));
}

}  // namespace
}  // namespace beamline::tokenizer_class_test
