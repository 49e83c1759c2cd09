// A SentencePiece model alone, of models whose tokenizers have no class of their own.
#include "engine/text/scored_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::scored_model_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A piece of a SentencePiece model, and its type.
using Piece = std::pair<const char*, int>;

class ScoredModelTest : public ::testing::Test {
 protected:
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

// Pieces as of Llama 2 with scores, of which that of "ab" is not in the order of ids; `trainer`
// and `normalizer` are fields of its settings.
std::string ScoredModel(const std::string& trainer, const std::string& normalizer) {
  const auto field = [](int number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) +
           bytes;
  };
  const std::vector<Piece> pieces = {{"<unk>", 2}, {"<s>", 3}, {"</s>", 3},   {"[I]", 4},
                                     {"▁", 1},     {"a", 1},   {"b", 1},      {"c", 1},
                                     {"bc", 1},    {"ab", 1},  {"abc", 1},    {"▁a", 1},
                                     {"[", 1},     {"I", 1},   {"<0xC3>", 6}, {"<0xA9>", 6}};
  std::string model;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const float score = pieces[id].first == std::string("ab") ? -1 : -static_cast<float>(id);
    const auto* bytes = reinterpret_cast<const char*>(&score);
    model += field(1, field(1, pieces[id].first) + "\x15" + std::string(bytes, sizeof(score)) +
                          "\x18" + static_cast<char>(pieces[id].second));
  }
  return model + field(2, std::string("\x18\x02") + trainer) + field(3, normalizer);
}

// Ids as transformers 5.24 has them of the same files.
TEST_F(ScoredModelTest, ModelsWithoutAClassTakeTheSentencePieceModelAtItsWord) {
  const std::string bytes = "\x98\x02\x01", keep_spaces("\x20\x00", 2);
  const json older = {{"tokenizer_class", "LlamaTokenizer"},
                      {"legacy", true},
                      {"add_bos_token", true},
                      {"add_eos_token", true}};
  const json newer = {{"tokenizer_class", "LlamaTokenizer"}, {"legacy", false}};
  folder_.Write("tokenizer.model", ScoredModel(bytes, keep_spaces));
  for (const char* model_type : {"mistral", "mixtral", "phi3"}) {
    EXPECT_THAT(IdsOfFolder(json::object(), model_type, "abc ab[I]é"),
                ElementsAre(4, 10, 4, 9, 3, 14, 15));
    EXPECT_THAT(IdsOfFolder(newer, model_type, "a</s>a"), ElementsAre(11, 2, 5));
    EXPECT_THAT(IdsOfFolder(newer, model_type, "[I] a"), ElementsAre(4, 3, 11));
    EXPECT_THAT(IdsOfFolder(older, model_type, "a</s>a"), ElementsAre(1, 11, 2, 11, 2));
    EXPECT_THAT(IdsOfFolder(older, model_type, "  ab "), ElementsAre(1, 4, 4, 4, 9, 4, 2));
    EXPECT_THAT(IdsOfFolder(older, model_type, "a\n  a"), ElementsAre(1, 11, 0, 4, 11, 2));
  }
  EXPECT_THAT(IdsOfFolder({{"legacy", nullptr}}, "mistral", "  ab "), ElementsAre(4, 4, 9, 4));
  const auto tokenizer = LoadTokenizer(folder_.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const std::vector<int32_t> ids = {11, 10, 14, 15, 3, 2, 5, 4, 8};
  EXPECT_EQ((*tokenizer)->Decode(ids, true).value_or(""), "aabcé[I]a bc");
  json added = newer;
  added["added_tokens_decoder"]["16"] = {
      {"content", "<|e|>"}, {"special", true}, {"normalized", true}, {"rstrip", true}};
  added["legacy"] = true;
  EXPECT_THAT(IdsOfFolder(added, "phi3", "abx<|e|>a"), ElementsAre(4, 9, 0, 16, 11));
  added["added_tokens_decoder"]["3"] = {{"content", "[J]"}, {"special", true}};
  folder_.WriteJson("tokenizer_config.json", added);
  EXPECT_THAT(std::string(LoadTokenizer(folder_.path()).status().message()),
              HasSubstr("token 3 of added_tokens_decoder is \"[J]\"; accepted: \"[I]\""));
  // Models that take spaces away, and that put none before the text.
  folder_.Write("tokenizer.model", ScoredModel("", ""));
  EXPECT_THAT(IdsOfFolder(json::object(), "mistral", "abc ab[I]é"), ElementsAre(4, 10, 4, 9, 3, 0));
  EXPECT_THAT(IdsOfFolder(json::object(), "mistral", "  ab "), ElementsAre(4, 9));
  EXPECT_THAT(IdsOfFolder(newer, "mistral", " a"), ElementsAre(5));
  folder_.Write("tokenizer.model", ScoredModel(bytes, std::string("\x18\x00", 2) + keep_spaces));
  EXPECT_THAT(IdsOfFolder(json::object(), "phi3", "a</s>a"), ElementsAre(5, 2, 5));
  EXPECT_THAT(IdsOfFolder(json::object(), "phi3", "  ab "), ElementsAre(4, 4, 9, 4));
}

}  // namespace
}  // namespace beamline::scored_model_test
