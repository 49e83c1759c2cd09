#include "engine/models/generation_defaults.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "engine/models/config_fields.h"
#include "kernels/status.h"

namespace beamline {
namespace {

constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();

std::optional<EarlyStopping> ReadEarlyStopping(ConfigFields& fields, const nlohmann::json& source) {
  if (!fields.Has("early_stopping")) return std::nullopt;
  const nlohmann::json& value = source["early_stopping"];
  if (value == true) return EarlyStopping::kEager;
  if (value == false) return EarlyStopping::kHeuristic;
  if (value == "never") return EarlyStopping::kExhaustive;
  fields.Fault("early_stopping", "true, false or \"never\" is expected");
  return std::nullopt;
}

std::vector<TokenIds> ReadBadWords(ConfigFields& fields, const nlohmann::json& source,
                                   int32_t vocab_size) {
  std::vector<TokenIds> words;
  if (!fields.Has("bad_words_ids")) return words;
  const nlohmann::json& value = source["bad_words_ids"];
  const auto is_word = [&](const nlohmann::json& word) {
    return word.is_array() && !word.empty() &&
           std::all_of(word.begin(), word.end(), [&](const nlohmann::json& id) {
             return id.is_number_unsigned() &&
                    id.get<uint64_t>() < static_cast<uint64_t>(vocab_size);
           });
  };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), is_word)) {
    fields.Fault("bad_words_ids",
                 fmt::format("lists of token ids below {} are expected", vocab_size));
    return words;
  }
  for (const nlohmann::json& word : value) words.push_back(word.get<TokenIds>());
  return words;
}

// Decoding methods of transformers that would make other answers than Beamline's.
void RejectUnknownMethods(ConfigFields& fields) {
  for (const char* name :
       {"begin_suppress_tokens", "forced_decoder_ids", "sequence_bias", "constraints",
        "force_words_ids", "exponential_decay_length_penalty", "watermarking_config"}) {
    if (fields.Has(name)) fields.Fault(name, "not supported");
  }
  for (const auto& [name, off] : {std::pair<const char*, float>{"encoder_no_repeat_ngram_size", 0},
                                  {"encoder_repetition_penalty", 1},
                                  {"num_beam_groups", 1},
                                  {"diversity_penalty", 0},
                                  {"epsilon_cutoff", 0},
                                  {"eta_cutoff", 0},
                                  {"guidance_scale", 1},
                                  {"penalty_alpha", 0}}) {
    if (fields.Float(name, off) != off)
      fields.Fault(name, fmt::format("only {} is supported", off));
  }
}

}  // namespace

absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const Checkpoint& checkpoint,
                                                          const TransformerSpec& spec,
                                                          GenerationDefaults family) {
  const bool has_file = !checkpoint.generation_config().empty();
  const nlohmann::json& source = has_file ? checkpoint.generation_config() : checkpoint.config();
  ConfigFields fields(source, has_file ? "generation_config.json" : "config.json");
  const int32_t vocab_size = spec.vocab_size;
  const auto token_id = [&](const char* name) {
    return fields.OptionalInt(name, 0, vocab_size - 1);
  };

  GenerationDefaults defaults = has_file ? GenerationDefaults() : std::move(family);
  // The family's own end token may be outside of a smaller vocabulary, a file's may not.
  std::erase_if(defaults.eos_token_ids, [&](int32_t id) { return id >= vocab_size; });
  if (fields.Has("eos_token_id")) defaults.eos_token_ids = fields.Ids("eos_token_id");
  for (const int32_t id : defaults.eos_token_ids) {
    if (id >= vocab_size) {
      fields.Fault("eos_token_id", fmt::format("ids from 0 to {} are expected", vocab_size - 1));
    }
  }
  fields.OptionalInt("bos_token_id", -1, vocab_size - 1);
  defaults.pad_token_id =
      fields.OptionalInt("pad_token_id", -1, vocab_size - 1).value_or(defaults.pad_token_id);
  if (const auto id = token_id("forced_bos_token_id")) defaults.forced_bos_token_id = id;
  if (const auto id = token_id("forced_eos_token_id")) defaults.forced_eos_token_id = id;
  if (spec.encoder.has_value()) {
    std::optional<int32_t> start = token_id("decoder_start_token_id");
    if (!start.has_value() && defaults.decoder_start_token_id < 0) start = token_id("bos_token_id");
    if (start.has_value()) defaults.decoder_start_token_id = *start;
    if (defaults.decoder_start_token_id < 0 || defaults.decoder_start_token_id >= vocab_size) {
      fields.Fault("decoder_start_token_id",
                   fmt::format("an id from 0 to {} is expected", vocab_size - 1));
    }
  }
  defaults.suppress_tokens = fields.Ids("suppress_tokens");
  for (const int32_t id : defaults.suppress_tokens) {
    if (id >= vocab_size) fields.Fault("suppress_tokens", "ids of the vocabulary are expected");
  }
  defaults.bad_words_ids = ReadBadWords(fields, source, vocab_size);

  defaults.num_beams = fields.Int("num_beams", 1, 64, 1);
  defaults.do_sample = fields.Bool("do_sample", false);
  defaults.temperature = fields.OptionalFloat("temperature");
  defaults.top_k = fields.OptionalInt("top_k", 0, kMaxInt);
  defaults.top_p = fields.OptionalFloat("top_p");
  defaults.min_p = fields.OptionalFloat("min_p");
  defaults.typical_p = fields.OptionalFloat("typical_p");
  defaults.length_penalty = fields.OptionalFloat("length_penalty");
  defaults.repetition_penalty = fields.OptionalFloat("repetition_penalty");
  defaults.no_repeat_ngram_size = fields.OptionalInt("no_repeat_ngram_size", 0, kMaxInt);
  defaults.early_stopping = ReadEarlyStopping(fields, source);
  defaults.renormalize_logits = fields.Bool("renormalize_logits", false);
  defaults.max_new_tokens = fields.OptionalInt("max_new_tokens", 1, kMaxInt);
  defaults.max_length = fields.OptionalInt("max_length", 1, kMaxInt);
  defaults.min_new_tokens = fields.OptionalInt("min_new_tokens", 0, kMaxInt);
  defaults.min_length = fields.OptionalInt("min_length", 0, kMaxInt);
  RejectUnknownMethods(fields);
  BEAMLINE_RETURN_IF_ERROR(fields.status());
  return defaults;
}

}  // namespace beamline
