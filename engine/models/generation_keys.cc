#include "engine/models/generation_keys.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

// Keys that generation_defaults.cc reads.
constexpr std::string_view kRead[] = {
    "bad_words_ids",
    "bos_token_id",
    "decoder_start_token_id",
    "do_sample",
    "early_stopping",
    "eos_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "min_new_tokens",
    "min_p",
    "no_repeat_ngram_size",
    "num_beams",
    "num_return_sequences",
    "pad_token_id",
    "renormalize_logits",
    "repetition_penalty",
    "stop_strings",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
};

// Keys that change how transformers computes or what it returns, but not the tokens: metadata,
// outputs, caches, compilation, and drafts verified by the model itself. Keys starting with "_" are
// internal.
constexpr std::string_view kHarmless[] = {
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_ensemble_weight",
    "assistant_lookbehind",
    "cache_config",
    "continuous_batching_config",
    "disable_compile",
    "low_memory",
    "max_cache_len",
    "max_matching_ngram_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "prefill_chunk_size",
    "prompt_lookup_num_tokens",
    "remove_invalid_values",
    "return_dict_in_generate",
    "speculation_type",
    "target_lookbehind",
    "transformers_version",
    "trust_remote_code",
    "use_cache",
};

// Rejected unless null. For most of these transformers rejects an empty list as well, and an empty
// watermarking_config means one with default values.
constexpr std::string_view kRefused[] = {
    "compile_config",      "constraints", "dola_layers",   "exponential_decay_length_penalty",
    "force_words_ids",     "max_time",    "sequence_bias", "top_h",
    "watermarking_config",
};

// Rejected unless null or empty.
constexpr std::string_view kRefusedLists[] = {
    "begin_suppress_tokens",
    "forced_decoder_ids",
    "generation_kwargs",
};

// Rejected if true.
constexpr std::string_view kRefusedTrue[] = {
    "force_bos_token_to_be_generated",
    "is_assistant",
    "token_healing",
    "use_mtp",
};

// Rejected unless they have the neutral value.
constexpr std::pair<std::string_view, float> kNeutral[] = {
    {"diversity_penalty", 0.0f},
    {"encoder_no_repeat_ngram_size", 0.0f},
    {"encoder_repetition_penalty", 1.0f},
    {"epsilon_cutoff", 0.0f},
    {"eta_cutoff", 0.0f},
    {"guidance_scale", 1.0f},
    {"num_beam_groups", 1.0f},
    {"penalty_alpha", 0.0f},
};

constexpr std::string_view kCacheImplementation = "cache_implementation";
// The lossless cache implementations of transformers (all except "quantized").
constexpr std::string_view kCaches[] = {
    "dynamic",          "hybrid",           "hybrid_chunked",
    "offloaded",        "offloaded_hybrid", "offloaded_hybrid_chunked",
    "offloaded_static", "sliding_window",   "static",
};

bool IsKnown(std::string_view key) {
  const auto is_in = [key](const auto& names) {
    return std::find(std::begin(names), std::end(names), key) != std::end(names);
  };
  return key.starts_with('_') || key == kCacheImplementation || is_in(kRead) || is_in(kHarmless) ||
         is_in(kRefused) || is_in(kRefusedLists) || is_in(kRefusedTrue) ||
         std::any_of(std::begin(kNeutral), std::end(kNeutral),
                     [key](const auto& entry) { return entry.first == key; });
}

}  // namespace

void RefuseOtherMethods(ConfigFields& fields, const nlohmann::json& source) {
  for (const std::string_view name : kRefused) {
    if (fields.Has(name)) fields.Fault(name, "not supported");
  }
  for (const std::string_view name : kRefusedLists) {
    if (fields.Has(name) && !source.find(name)->empty()) fields.Fault(name, "not supported");
  }
  for (const std::string_view name : kRefusedTrue) fields.RequireBool(name, false, false);
  for (const auto& [name, neutral] : kNeutral) {
    if (fields.Float(name, neutral) != neutral) {
      fields.Fault(name, fmt::format("only {} is supported", neutral));
    }
  }
  const std::string cache = fields.String(kCacheImplementation, std::string(kCaches[0]));
  if (std::find(std::begin(kCaches), std::end(kCaches), cache) == std::end(kCaches)) {
    fields.Fault(kCacheImplementation, fmt::format("supported are {}", fmt::join(kCaches, ", ")));
  }
}

void RefuseUnknownKeys(ConfigFields& fields, const nlohmann::json& source) {
  for (const auto& [key, value] : source.items()) {
    if (value.is_null() || IsKnown(key)) continue;
    fields.Fault(key, "not known; a key that does not change answers can be taken out of the file");
  }
}

}  // namespace beamline
