#include "engine/models/generation_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/models/models.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::generation_keys_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The attributes of transformers 5.23's GenerationConfig, those of one call left out.
constexpr const char* kKeysOfTransformers[] = {"max_length",
                                               "max_new_tokens",
                                               "min_length",
                                               "min_new_tokens",
                                               "early_stopping",
                                               "max_time",
                                               "stop_strings",
                                               "do_sample",
                                               "num_beams",
                                               "use_mtp",
                                               "use_cache",
                                               "cache_implementation",
                                               "cache_config",
                                               "max_cache_len",
                                               "temperature",
                                               "top_k",
                                               "top_p",
                                               "min_p",
                                               "top_h",
                                               "typical_p",
                                               "epsilon_cutoff",
                                               "eta_cutoff",
                                               "repetition_penalty",
                                               "encoder_repetition_penalty",
                                               "length_penalty",
                                               "no_repeat_ngram_size",
                                               "bad_words_ids",
                                               "renormalize_logits",
                                               "forced_bos_token_id",
                                               "forced_eos_token_id",
                                               "remove_invalid_values",
                                               "exponential_decay_length_penalty",
                                               "suppress_tokens",
                                               "begin_suppress_tokens",
                                               "sequence_bias",
                                               "token_healing",
                                               "guidance_scale",
                                               "watermarking_config",
                                               "num_return_sequences",
                                               "output_attentions",
                                               "output_hidden_states",
                                               "output_scores",
                                               "output_logits",
                                               "return_dict_in_generate",
                                               "pad_token_id",
                                               "bos_token_id",
                                               "eos_token_id",
                                               "encoder_no_repeat_ngram_size",
                                               "decoder_start_token_id",
                                               "is_assistant",
                                               "num_assistant_tokens",
                                               "num_assistant_tokens_schedule",
                                               "assistant_confidence_threshold",
                                               "prompt_lookup_num_tokens",
                                               "max_matching_ngram_size",
                                               "assistant_early_exit",
                                               "assistant_lookbehind",
                                               "target_lookbehind",
                                               "assistant_ensemble_weight",
                                               "speculation_type",
                                               "compile_config",
                                               "disable_compile",
                                               "continuous_batching_config",
                                               "low_memory",
                                               "penalty_alpha",
                                               "dola_layers",
                                               "diversity_penalty",
                                               "num_beam_groups",
                                               "constraints",
                                               "force_words_ids",
                                               "prefill_chunk_size",
                                               "transformers_version"};

// What is wrong with a GPT-2 of this generation_config.json.
std::string Error(const json& generation) {
  const TemporaryFolder folder;
  folder.WriteJson("config.json", {{"model_type", "gpt2"}});
  folder.WriteJson("generation_config.json", generation);
  folder.Write("model.safetensors", SafetensorsOf({}));
  const auto checkpoint = Checkpoint::Open(folder.path());
  if (!checkpoint.ok()) return std::string(checkpoint.status().message());
  return std::string(DescribeModel(**checkpoint).status().message());
}

TEST(GenerationKeysTest, RefuseOtherMethodsByName) {
  const std::vector<std::pair<std::string, json>> refused = {
      {"top_h", 0.4},
      {"token_healing", true},
      {"dola_layers", "high"},
      {"max_time", 2.5},
      {"is_assistant", true},
      {"begin_suppress_tokens", {3}},
      {"exponential_decay_length_penalty", {5, 1.1}},
      {"cache_implementation", "quantized"},
      {"penalty_alpha", 0.6},
      {"guidance_scale", 1.5},
      {"forced_decoder_ids", {{1, 2}}},
      {"num_return_sequences", 2},
      {"stop_strings", {"a", ""}},
      {"made_up", 1},
      // What transformers raises an error for.
      {"eos_token_id", json::array()},
      {"constraints", json::array()},
      {"force_words_ids", json::array()},
      {"dola_layers", json::array()},
      {"sequence_bias", json::object()},
      {"exponential_decay_length_penalty", json::array()},
      {"bad_words_ids", json::array()},
      {"stop_strings", json::array()},
      {"suppress_tokens", 5},
      {"begin_suppress_tokens", 5},
      {"compile_config", json::object()},
      {"cache_implementation", "bogus"},
      {"cache_implementation", ""},
      {"use_mtp", true},
      // Not empty: a watermark of the defaults.
      {"watermarking_config", json::object()}};
  for (const auto& [key, value] : refused) {
    EXPECT_THAT(Error({{key, value}}), HasSubstr("generation_config.json: " + key + " is ")) << key;
  }
  EXPECT_THAT(Error({{"do_sample", true}, {"num_beams", 2}}), HasSubstr("do_sample is true"));
  EXPECT_EQ(Error({{"do_sample", true}, {"num_return_sequences", 2}}), "");
}

TEST(GenerationKeysTest, TakeWhatChangesNoAnswer) {
  const json harmless = {{"top_h", nullptr},
                         {"token_healing", false},
                         {"made_up", nullptr},
                         {"_from_model_config", true},
                         {"transformers_version", "5.23.0"},
                         {"use_cache", false},
                         {"cache_implementation", "static"},
                         {"output_scores", true},
                         {"prompt_lookup_num_tokens", 3},
                         {"remove_invalid_values", true},
                         {"begin_suppress_tokens", json::array()},
                         {"suppress_tokens", json::array()},
                         {"eos_token_id", json::array()},
                         {"pad_token_id", 3},
                         {"use_mtp", false},
                         {"constraints", nullptr},
                         {"penalty_alpha", 0.0}};
  EXPECT_EQ(Error(harmless), "");
}

TEST(GenerationKeysTest, KnowEveryKeyOfTransformers) {
  for (const char* key : kKeysOfTransformers) {
    EXPECT_EQ(Error({{key, "?"}}).find("not known"), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace beamline::generation_keys_test
