#include "engine/decoding/resolved_decoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string_view>
#include <variant>

#include "base/field_error.h"
#include "base/status.h"
#include "engine/api/request_limits.h"
#include "engine/decoding/bad_words.h"
#include "engine/decoding/option_checks.h"
#include "engine/decoding/stop_matcher.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// The request's value, else the model's default, else the library's default. Validated under its
// name at that source.
template <typename T>
absl::StatusOr<T> Choose(const RequestLimit& limit, const std::optional<T>& requested,
                         const std::optional<T>& model_default, T library_default) {
  if (requested.has_value()) {
    BEAMLINE_RETURN_IF_ERROR(CheckValue(limit, *requested));
    return *requested;
  }
  const T value = model_default.value_or(library_default);
  if (CheckValue(limit, value).ok()) return value;
  const std::string_view name = limit.field.substr(limit.field.rfind('.') + 1);
  BEAMLINE_RETURN_IF_ERROR(CheckValue(limit, fmt::format("{}{}", kDefaultsFile, name), value));
  return value;
}

Decoding DefaultDecoding(const GenerationDefaults& defaults) {
  if (defaults.num_beams > 1) return BeamOptions{.width = defaults.num_beams};
  if (defaults.do_sample) return SamplingOptions{};
  return GreedyOptions{};
}

// A search returns at most its width, even if the model's default is larger.
absl::Status ResolveNumSequences(std::string_view field, std::optional<int32_t> requested,
                                 int32_t most, const GenerationDefaults& defaults,
                                 ResolvedDecoding& decoding) {
  decoding.num_sequences = requested.value_or(std::min(defaults.num_return_sequences, most));
  return CheckInt(field, decoding.num_sequences, 1, most);
}

// A temperature of 0 means greedy decoding in a request. As the model's default it is rejected, as
// in transformers.
absl::Status ResolveTemperature(const SamplingOptions& options, const GenerationDefaults& defaults,
                                ResolvedDecoding& decoding) {
  constexpr RequestLimit kLimit = LimitOf("decoding.sampling.temperature");
  if (!options.temperature.has_value()) {
    decoding.temperature = defaults.temperature.value_or(1.0f);
    return CheckFloat(fmt::format("{}temperature", kDefaultsFile), decoding.temperature,
                      static_cast<float>(kLimit.value->min), static_cast<float>(kLimit.value->max),
                      Lower::kExcluded);
  }
  decoding.temperature = *options.temperature;
  BEAMLINE_RETURN_IF_ERROR(CheckValue(kLimit, decoding.temperature));
  if (decoding.temperature > 0) return absl::OkStatus();
  if (options.num_sequences.value_or(1) > 1) {
    return FieldError("decoding.sampling.num_sequences", fmt::to_string(*options.num_sequences),
                      "1 with temperature 0, of which all answers would be the same");
  }
  decoding.kind = DecodingKind::kGreedy;
  decoding.num_sequences = 1;
  return absl::OkStatus();
}

absl::Status ResolveSampling(const SamplingOptions& options, const GenerationDefaults& defaults,
                             ResolvedDecoding& decoding) {
  decoding.kind = DecodingKind::kSampling;
  BEAMLINE_RETURN_IF_ERROR(ResolveNumSequences("decoding.sampling.num_sequences",
                                               options.num_sequences, kMaxNumSequences, defaults,
                                               decoding));
  BEAMLINE_RETURN_IF_ERROR(ResolveTemperature(options, defaults, decoding));
  BEAMLINE_ASSIGN_OR_RETURN(
      decoding.top_k, Choose(LimitOf("decoding.sampling.top_k"), options.top_k, defaults.top_k, 0));
  BEAMLINE_ASSIGN_OR_RETURN(decoding.top_p, Choose(LimitOf("decoding.sampling.top_p"),
                                                   options.top_p, defaults.top_p, 1.0f));
  BEAMLINE_ASSIGN_OR_RETURN(decoding.min_p, Choose(LimitOf("decoding.sampling.min_p"),
                                                   options.min_p, defaults.min_p, 0.0f));
  BEAMLINE_ASSIGN_OR_RETURN(
      decoding.typical_p,
      Choose(LimitOf("decoding.sampling.typical_p"), options.typical_p, defaults.typical_p, 1.0f));

  if (options.seed.has_value()) {
    decoding.seed = *options.seed;
  } else {
    std::random_device device;
    decoding.seed = (static_cast<uint64_t>(device()) << 32) | device();
  }
  return absl::OkStatus();
}

absl::Status ResolveBeam(const BeamOptions& options, const GenerationDefaults& defaults,
                         ResolvedDecoding& decoding) {
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("decoding.beam.width"), options.width));
  BEAMLINE_RETURN_IF_ERROR(ResolveNumSequences("decoding.beam.num_sequences", options.num_sequences,
                                               options.width, defaults, decoding));
  BEAMLINE_RETURN_IF_ERROR(
      CheckInt("decoding.beam.num_groups", options.num_groups, 1, options.width));
  if (options.width % options.num_groups != 0) {
    return FieldError("decoding.beam.num_groups", std::to_string(options.num_groups),
                      fmt::format("a divisor of the width {}", options.width));
  }
  // transformers applies the diversity penalty before this normalisation, Beamline after it.
  if (options.num_groups > 1 && defaults.renormalize_logits) {
    return FieldError("decoding.beam.num_groups", std::to_string(options.num_groups),
                      "1, for generation_config.json: renormalize_logits is true");
  }
  BEAMLINE_RETURN_IF_ERROR(
      CheckValue(LimitOf("decoding.beam.diversity_penalty"), options.diversity_penalty));
  BEAMLINE_ASSIGN_OR_RETURN(decoding.length_penalty,
                            Choose(LimitOf("decoding.beam.length_penalty"), options.length_penalty,
                                   defaults.length_penalty, 1.0f));
  // With one beam transformers decodes greedily: edits act on logits, and the first end token ends.
  decoding.kind = options.width > 1 ? DecodingKind::kBeam : DecodingKind::kGreedy;
  decoding.beam_width = options.width;
  decoding.num_beam_groups = options.num_groups;
  decoding.diversity_penalty = options.diversity_penalty;
  decoding.renormalize = defaults.renormalize_logits;
  decoding.early_stopping =
      options.early_stopping.value_or(defaults.early_stopping.value_or(EarlyStopping::kHeuristic));
  return absl::OkStatus();
}

absl::Status ResolveLimits(const LimitOptions& limits, const GenerationDefaults& defaults,
                           const DecodingLimits& model, ResolvedDecoding& decoding) {
  if (limits.max_new_tokens.has_value()) {
    const absl::Status status = CheckValueUpTo(LimitOf("limits.max_new_tokens"),
                                               *limits.max_new_tokens, model.max_total_tokens);
    std::optional<FieldFault> fault = GetFieldFault(status);
    if (fault.has_value() && model.by_setting) {
      fault->accepted += ", by max_model_len";
      return FieldError(*fault);
    }
    BEAMLINE_RETURN_IF_ERROR(status);
  }
  BEAMLINE_RETURN_IF_ERROR(CheckValueUpTo(LimitOf("limits.min_new_tokens"),
                                          limits.min_new_tokens.value_or(0),
                                          limits.max_new_tokens.value_or(model.max_total_tokens)));

  BEAMLINE_RETURN_IF_ERROR(CheckTexts(LimitOf("limits.stop"), limits.stop));
  decoding.stop = limits.stop.empty() ? defaults.stop_strings : limits.stop;
  BEAMLINE_RETURN_IF_ERROR(
      CheckIds(LimitOf("limits.stop_token_ids"), limits.stop_token_ids, model.vocab_size));
  decoding.stop_token_ids = limits.stop_token_ids;
  decoding.include_stop = limits.include_stop;
  decoding.all_eos_token_ids = defaults.eos_token_ids;
  // As in transformers, the first end token serves as pad token if the model has none.
  decoding.pad_token_id = defaults.pad_token_id;
  if (decoding.pad_token_id < 0 && !defaults.eos_token_ids.empty()) {
    decoding.pad_token_id = defaults.eos_token_ids.front();
  }
  if (!limits.ignore_eos) decoding.eos_token_ids = defaults.eos_token_ids;
  return absl::OkStatus();
}

// As in transformers, min_length counts the prompt, min_new_tokens overrides it, and a minimum
// above the maximum bans all end tokens.
int32_t DefaultMinNewTokens(const GenerationDefaults& defaults, int32_t prompt_tokens,
                            int32_t max_new_tokens) {
  const int32_t wanted = defaults.min_new_tokens.value_or(
      std::max(defaults.min_length.value_or(0) - prompt_tokens, 0));
  return std::min(wanted, max_new_tokens);
}

absl::Status ResolvePenalties(const ShapingOptions& shaping, const GenerationDefaults& defaults,
                              ResolvedDecoding& decoding) {
  BEAMLINE_ASSIGN_OR_RETURN(decoding.repetition_penalty,
                            Choose(LimitOf("shaping.repetition_penalty"),
                                   shaping.repetition_penalty, defaults.repetition_penalty, 1.0f));
  BEAMLINE_RETURN_IF_ERROR(
      CheckValue(LimitOf("shaping.presence_penalty"), shaping.presence_penalty));
  decoding.presence_penalty = shaping.presence_penalty;
  BEAMLINE_RETURN_IF_ERROR(
      CheckValue(LimitOf("shaping.frequency_penalty"), shaping.frequency_penalty));
  decoding.frequency_penalty = shaping.frequency_penalty;
  BEAMLINE_ASSIGN_OR_RETURN(decoding.no_repeat_ngram_size,
                            Choose(LimitOf("shaping.no_repeat_ngram_size"),
                                   shaping.no_repeat_ngram_size, defaults.no_repeat_ngram_size, 0));
  return absl::OkStatus();
}

// The model's bans apply in addition to the request's.
absl::Status ResolveBans(const ShapingOptions& shaping, const GenerationDefaults& defaults,
                         const Tokenizer& tokenizer, int32_t vocab_size,
                         ResolvedDecoding& decoding) {
  decoding.bad_words = defaults.bad_words_ids;
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<TokenIds> words,
                            ResolveBadWords(shaping.bad_words, tokenizer, vocab_size));
  decoding.bad_words.insert(decoding.bad_words.end(), words.begin(), words.end());

  BEAMLINE_RETURN_IF_ERROR(
      CheckIds(LimitOf("shaping.suppress_tokens"), shaping.suppress_tokens, vocab_size));
  decoding.suppress_tokens = defaults.suppress_tokens;
  decoding.suppress_tokens.insert(decoding.suppress_tokens.end(), shaping.suppress_tokens.begin(),
                                  shaping.suppress_tokens.end());
  return absl::OkStatus();
}

absl::Status ResolveBiases(const ShapingOptions& shaping, int32_t vocab_size,
                           ResolvedDecoding& decoding) {
  constexpr RequestLimit kLimit = LimitOf("shaping.logit_bias");
  BEAMLINE_RETURN_IF_ERROR(CheckEntries(kLimit, shaping.logit_bias.size()));
  for (const auto& [id, bias] : shaping.logit_bias) {
    // Errors name the entry by its id, because logit_bias is a map in the API.
    const std::string entry = fmt::format("shaping.logit_bias[{}]", id);
    if (id < 0 || id >= vocab_size) {
      return FieldError({.field = entry,
                         .value = fmt::to_string(id),
                         .accepted = fmt::format("0 to {}", vocab_size - 1),
                         .text = fmt::format("{} has the id {}", kLimit.field, id)});
    }
    BEAMLINE_RETURN_IF_ERROR(CheckValue(kLimit, entry, bias));
  }
  decoding.logit_bias = shaping.logit_bias;
  return absl::OkStatus();
}

bool IsSuppressed(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// As in transformers, which has no token left to choose if the forced one is suppressed.
absl::Status CheckForcedToken(std::string_view field, int32_t forced,
                              const ResolvedDecoding& decoding) {
  BEAMLINE_RETURN_IF_ERROR(CheckInt(field, forced, 0, decoding.vocab_size - 1));
  if (!IsSuppressed(decoding.suppress_tokens, forced)) return absl::OkStatus();
  return FieldError(field, fmt::to_string(forced),
                    "ids that suppress_tokens, the request's and the model's, leave");
}

// For the model's forced tokens; if the request suppresses one, the error names the request's
// field.
absl::Status CheckDefaultForcedToken(std::string_view name, int32_t forced,
                                     const ShapingOptions& shaping,
                                     const ResolvedDecoding& decoding) {
  if (CheckForcedToken(name, forced, decoding).ok()) return absl::OkStatus();
  const absl::Status status =
      CheckForcedToken(fmt::format("{}{}", kDefaultsFile, name), forced, decoding);
  if (!IsSuppressed(shaping.suppress_tokens, forced)) return status;
  return InField("shaping.suppress_tokens", "", status);
}

// REQUIRES: ResolveBans was called before.
absl::Status ResolveForcedTokens(const GenerateRequest& request, const GenerationDefaults& defaults,
                                 const Tokenizer& tokenizer, ResolvedDecoding& decoding) {
  const ShapingOptions& shaping = request.shaping;
  if (const auto language = tokenizer.LanguageId(request.target_language)) {
    decoding.forced_bos = *language;
    BEAMLINE_RETURN_IF_ERROR(CheckForcedToken("target_language", *language, decoding));
  } else if (defaults.forced_bos_token_id.has_value()) {
    decoding.forced_bos = *defaults.forced_bos_token_id;
    BEAMLINE_RETURN_IF_ERROR(
        CheckDefaultForcedToken("forced_bos_token_id", decoding.forced_bos, shaping, decoding));
  }
  if (shaping.forced_eos.has_value()) {
    decoding.forced_eos = *shaping.forced_eos;
    return CheckForcedToken("shaping.forced_eos", decoding.forced_eos, decoding);
  }
  if (defaults.forced_eos_token_id.has_value()) {
    decoding.forced_eos = *defaults.forced_eos_token_id;
    return CheckDefaultForcedToken("forced_eos_token_id", decoding.forced_eos, shaping, decoding);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ResolvedDecoding> ResolveDecoding(const GenerateRequest& request,
                                                 const GenerationDefaults& defaults,
                                                 const Tokenizer& tokenizer,
                                                 const DecodingLimits& limits) {
  ResolvedDecoding decoding;
  decoding.vocab_size = limits.vocab_size;
  decoding.output = request.output;
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("output.logprobs"), request.output.logprobs));
  decoding.output.return_logprobs |= request.output.logprobs > 0;
  BEAMLINE_RETURN_IF_ERROR(CheckValue(LimitOf("priority"), request.priority));

  const Decoding chosen = std::holds_alternative<std::monostate>(request.decoding)
                              ? DefaultDecoding(defaults)
                              : request.decoding;
  if (const auto* sampling = std::get_if<SamplingOptions>(&chosen)) {
    BEAMLINE_RETURN_IF_ERROR(ResolveSampling(*sampling, defaults, decoding));
  } else if (const auto* beam = std::get_if<BeamOptions>(&chosen)) {
    BEAMLINE_RETURN_IF_ERROR(ResolveBeam(*beam, defaults, decoding));
  }
  BEAMLINE_RETURN_IF_ERROR(ResolveLimits(request.limits, defaults, limits, decoding));
  BEAMLINE_RETURN_IF_ERROR(ResolvePenalties(request.shaping, defaults, decoding));
  BEAMLINE_RETURN_IF_ERROR(
      ResolveBans(request.shaping, defaults, tokenizer, limits.vocab_size, decoding));
  BEAMLINE_RETURN_IF_ERROR(ResolveBiases(request.shaping, limits.vocab_size, decoding));
  BEAMLINE_RETURN_IF_ERROR(ResolveForcedTokens(request, defaults, tokenizer, decoding));
  return decoding;
}

absl::Status FitLength(const GenerateRequest& request, const GenerationDefaults& defaults,
                       const DecodingLimits& limits, int32_t prompt_tokens,
                       ResolvedDecoding& decoding) {
  const std::string_view by = limits.by_setting ? ", by max_model_len" : "";
  const int32_t room = limits.max_total_tokens - prompt_tokens;
  if (room < 1) {
    return FieldError(
        {.field = "prompt",
         .value = fmt::to_string(prompt_tokens),
         .accepted = fmt::format("at most {}, which leaves one position of {} for an answer{}",
                                 limits.max_total_tokens - 1, limits.max_total_tokens, by),
         .text = fmt::format("prompt has {} tokens", prompt_tokens)});
  }
  if (const std::optional<int32_t> requested = request.limits.max_new_tokens) {
    if (*requested > room) {
      return FieldError("limits.max_new_tokens", fmt::to_string(*requested),
                        fmt::format("1 to {} after a prompt of {} tokens ({} positions{})", room,
                                    prompt_tokens, limits.max_total_tokens, by));
    }
    decoding.max_new_tokens = *requested;
  } else if (defaults.max_new_tokens.has_value()) {
    decoding.max_new_tokens = std::clamp(*defaults.max_new_tokens, 1, room);
  } else if (defaults.max_length.has_value()) {
    if (*defaults.max_length <= prompt_tokens) {
      return FieldError(
          {.field = "prompt",
           .value = fmt::to_string(prompt_tokens),
           .accepted = fmt::format("1 to {}", room),
           .text = fmt::format("prompt has {} tokens and the model's max_length is {}: set "
                               "limits.max_new_tokens",
                               prompt_tokens, *defaults.max_length)});
    }
    decoding.max_new_tokens = std::min(*defaults.max_length - prompt_tokens, room);
  } else {
    decoding.max_new_tokens = room;
  }
  decoding.min_new_tokens = request.limits.min_new_tokens.value_or(
      DefaultMinNewTokens(defaults, prompt_tokens, decoding.max_new_tokens));
  decoding.min_holds_stops = request.limits.min_new_tokens.has_value();
  return CheckInt("limits.min_new_tokens", decoding.min_new_tokens, 0, decoding.max_new_tokens);
}

}  // namespace beamline
