#include "engine/models/generation_defaults.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "engine/api/request_limits.h"
#include "engine/models/config_fields.h"
#include "engine/models/generation_keys.h"
#include "fmt/format.h"

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
             return WholeNumber(id, 0, vocab_size - 1).has_value();
           });
  };
  if (!value.is_array() || value.empty() || !std::all_of(value.begin(), value.end(), is_word)) {
    fields.Fault("bad_words_ids",
                 fmt::format("one or more lists of token ids below {} are expected", vocab_size));
    return words;
  }
  for (const nlohmann::json& word : value) words.push_back(word.get<TokenIds>());
  return words;
}

// Reads one string or a list of them.
std::vector<std::string> ReadStopStrings(ConfigFields& fields, const nlohmann::json& source) {
  if (!fields.Has("stop_strings")) return {};
  const nlohmann::json& value = source["stop_strings"];
  const nlohmann::json list = value.is_array() ? value : nlohmann::json::array({value});
  constexpr RequestLimit kLimit = LimitOf("limits.stop");
  std::vector<std::string> strings;
  if (list.empty()) fields.Fault("stop_strings", "one or more strings are expected");
  for (const nlohmann::json& string : list) {
    const size_t bytes = string.is_string() ? string.get_ref<const std::string&>().size() : 0;
    if (bytes == 0 || bytes > kLimit.entry_size->max || list.size() > kLimit.size->max) {
      fields.Fault("stop_strings", fmt::format("at most {} strings of 1 to {} bytes are expected",
                                               kLimit.size->max, kLimit.entry_size->max));
      return {};
    }
    strings.push_back(string.get<std::string>());
  }
  return strings;
}

TokenIds ReadEosTokens(ConfigFields& fields) {
  TokenIds ids = fields.Ids("eos_token_id");
  // transformers pads with the first end token if there is no pad token.
  if (ids.empty() && !fields.Has("pad_token_id")) {
    fields.Fault("eos_token_id", "without pad_token_id one or more token ids are expected");
  }
  constexpr size_t kMost = LimitOf("limits.stop_token_ids").size->max;
  if (ids.size() > kMost) {
    fields.Fault("eos_token_id", fmt::format("at most {} ids are expected", kMost));
  }
  return ids;
}

// Reads the number of answers and the decoding method.
void ReadMethod(ConfigFields& fields, GenerationDefaults& defaults) {
  defaults.num_beams = fields.Int("num_beams", 1, kMaxNumSequences, 1);
  defaults.do_sample = fields.Bool("do_sample", false);
  defaults.num_return_sequences = fields.Int("num_return_sequences", 1, kMaxNumSequences, 1);
  if (defaults.do_sample && defaults.num_beams > 1) {
    fields.Fault("do_sample",
                 fmt::format("with num_beams {} only false is supported", defaults.num_beams));
  }
  if (!defaults.do_sample && defaults.num_return_sequences > defaults.num_beams) {
    fields.Fault(
        "num_return_sequences",
        fmt::format("without do_sample at most num_beams, {}, is expected", defaults.num_beams));
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
  if (fields.Has("eos_token_id")) defaults.eos_token_ids = ReadEosTokens(fields);
  for (const int32_t id : defaults.eos_token_ids) {
    if (id >= vocab_size) {
      fields.Fault("eos_token_id", fmt::format("ids from 0 to {} are expected", vocab_size - 1));
    }
  }
  if (defaults.bos_token_id >= vocab_size) defaults.bos_token_id = -1;
  defaults.bos_token_id =
      fields.OptionalInt("bos_token_id", -1, vocab_size - 1).value_or(defaults.bos_token_id);
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
    } else if (defaults.decoder_start_token_id == spec.encoder->padding_id) {
      // Positions would start after it.
      fields.Fault("decoder_start_token_id", "another id than the padding's is expected");
    }
  }
  if (fields.Has("suppress_tokens") && !source["suppress_tokens"].is_array()) {
    fields.Fault("suppress_tokens", "a list of token ids is expected");
  }
  defaults.suppress_tokens = fields.Ids("suppress_tokens");
  for (const int32_t id : defaults.suppress_tokens) {
    if (id >= vocab_size) fields.Fault("suppress_tokens", "ids of the vocabulary are expected");
  }
  defaults.bad_words_ids = ReadBadWords(fields, source, vocab_size);

  defaults.stop_strings = ReadStopStrings(fields, source);

  ReadMethod(fields, defaults);
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
  RefuseOtherMethods(fields, source);
  if (has_file) RefuseUnknownKeys(fields, source);
  BEAMLINE_RETURN_IF_ERROR(fields.status());
  return defaults;
}

}  // namespace beamline
