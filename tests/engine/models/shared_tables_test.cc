// Which table and which head count where a checkpoint stores several. That such answers are
// transformers' show the golden checkpoints "-own-head".
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/models/models.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::shared_tables_test {
namespace {

using nlohmann::json;

TransformerSpec Spec(const json& config, const std::vector<NamedShape>& tensors) {
  const TemporaryFolder folder;
  folder.WriteJson("config.json", config);
  folder.Write("model.safetensors", SafetensorsOf(tensors));
  const auto checkpoint = Checkpoint::Open(folder.path());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  if (!checkpoint.ok()) return {};
  const auto description = DescribeModel(**checkpoint);
  EXPECT_TRUE(description.ok()) << description.status();
  return description.ok() ? description->spec : TransformerSpec();
}

json Translator(const std::string& model_type) {
  return {{"model_type", model_type},
          {"decoder_start_token_id", 2},
          {"eos_token_id", 2},
          {"vocab_size", 3},
          {"d_model", 16}};
}

// As transformers 5 ties: what is stored with other values is a head of its own.
TEST(SharedTablesTest, AHeadOfItsOwnCountsUnderTiedEmbeddings) {
  const std::map<std::string, std::string> tables = {
      {"gpt2", "transformer.wte"},
      {"gptj", "transformer.wte"},
      {"gpt_neo", "transformer.wte"},
      {"gpt_neox", "gpt_neox.embed_in"},
      {"bloom", "transformer.word_embeddings"},
      {"falcon", "transformer.word_embeddings"},
      {"opt", "model.decoder.embed_tokens"},
  };
  for (const char* family :
       {"gpt2",  "gptj",   "gpt_neo",     "gpt_neox",  "bloom",    "falcon",
        "opt",   "llama",  "mistral",     "qwen2",     "qwen3",    "mixtral",
        "olmo",  "olmo2",  "olmoe",       "phi3",      "smollm3",  "starcoder2",
        "gemma", "gemma2", "gemma3_text", "qwen2_moe", "qwen3_moe"}) {
    SCOPED_TRACE(family);
    const auto found = tables.find(family);
    const std::string table =
        (found == tables.end() ? "model.embed_tokens" : found->second) + ".weight";
    const json config = {{"model_type", family},
                         {"vocab_size", 3},
                         {"eos_token_id", 2},
                         {"tie_word_embeddings", true}};
    const auto head_of = [&](const std::vector<NamedShape>& tensors) {
      return Spec(config, tensors).head;
    };
    EXPECT_EQ(head_of({{table, {3, 13}}}), table);
    EXPECT_EQ(head_of({{table, {3, 13}}, {"lm_head.weight", {3, 13}}}), table);
    // Its shape alone tells that it is another one; goldens have one with other values.
    EXPECT_EQ(head_of({{table, {3, 13}}, {"lm_head.weight", {4, 13}}}), "lm_head.weight");
  }
}

// Where "shared" is missing transformers ties to the first of its list, the head but for T5.
TEST(SharedTablesTest, ATableStandsInForTheSharedOne) {
  const std::string encoder = "encoder.embed_tokens.weight";
  const std::string decoder = "decoder.embed_tokens.weight";
  const std::string head = "lm_head.weight", logits_bias = "final_logits_bias";
  for (const char* family : {"marian", "bart"}) {
    SCOPED_TRACE(family);
    const json config = Translator(family);
    TransformerSpec spec =
        Spec(config, {{"model." + encoder, {3, 16}}, {head, {4, 16}}, {logits_bias, {1, 3}}});
    EXPECT_EQ(spec.encoder->token_table, "model." + encoder);
    EXPECT_EQ(spec.decoder->token_table, head);
    EXPECT_EQ(spec.head, head);
    spec =
        Spec(config,
             {{"model." + encoder, {3, 16}}, {"model." + decoder, {4, 16}}, {logits_bias, {1, 3}}});
    EXPECT_EQ(spec.encoder->token_table, "model." + encoder);
    EXPECT_EQ(spec.decoder->token_table, "model." + decoder);
    EXPECT_EQ(spec.head, "model." + decoder);
  }
  const TransformerSpec t5 = Spec(Translator("t5"), {{encoder, {3, 16}}, {decoder, {4, 16}}});
  EXPECT_EQ(t5.decoder->token_table, decoder);
  EXPECT_EQ(t5.head, encoder);
}

TEST(SharedTablesTest, AHeadOfMarianCounts) {
  const std::string table = "model.decoder.embed_tokens.weight", head = "lm_head.weight";
  for (const bool shared : {true, false}) {
    SCOPED_TRACE(shared);
    json config = Translator("marian");
    config["decoder_vocab_size"] = 3;
    config["share_encoder_decoder_embeddings"] = shared;
    const auto head_of = [&](std::vector<NamedShape> tensors) {
      tensors.push_back({"final_logits_bias", {1, 3}});
      return Spec(config, tensors).head;
    };
    EXPECT_EQ(head_of({{table, {3, 13}}, {head, {4, 13}}}), head);
    EXPECT_EQ(Spec(config, {{"final_logits_bias", {1, 3}}, {table, {3, 13}}}).head, table);
  }
}

}  // namespace
}  // namespace beamline::shared_tables_test
