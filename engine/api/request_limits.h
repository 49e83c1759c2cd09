// One table of the range of each request field, independent of the model. The engine validates with
// it (engine/decoding/option_checks.h). A test compares it with the comments of the API and the
// client's help (tests/server/wire/contract_limits_test.cc).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace beamline {

// Range of a number. Without a maximum here, the model or another field may set one.
struct NumberRange {
  static constexpr double kNoEnd = std::numeric_limits<double>::infinity();
  double min = 0;
  double max = kNoEnd;
  bool excludes_min = false;
};

// Maximum parts of a whole request: its texts, messages and unknown fields; in JSON its texts,
// lists, objects and names. Each part takes far more memory than bytes on the wire. Four times the
// sum of the largest lists below.
inline constexpr size_t kMostRequestParts = size_t{1} << 16;

struct SizeRange {
  size_t min = 0;
  size_t max = 0;
};

struct RequestLimit {
  std::string_view field;                    // as errors name it; the API's field has no
                                             // "decoding."
  std::optional<NumberRange> value = {};     // of a number, or of each number of a map
  std::optional<SizeRange> size = {};        // list or map: entries; text: bytes
  std::optional<SizeRange> entry_size = {};  // list of texts: bytes of each; list of prompts:
                                             // tokens of each
};

inline constexpr std::array kRequestLimits = {
    RequestLimit{"priority", NumberRange{-100, 100}},
    RequestLimit{.field = "request_id", .size = SizeRange{0, 256}},
    RequestLimit{.field = "cache_salt", .size = SizeRange{0, 256}},
    RequestLimit{"decoding.sampling.temperature", NumberRange{0, 2}},
    RequestLimit{"decoding.sampling.top_k", NumberRange{0}},
    RequestLimit{"decoding.sampling.top_p", NumberRange{0, 1, true}},
    RequestLimit{"decoding.sampling.min_p", NumberRange{0, 1}},
    RequestLimit{"decoding.sampling.typical_p", NumberRange{0, 1, true}},
    RequestLimit{"decoding.sampling.num_sequences", NumberRange{1, 64}},
    RequestLimit{"decoding.beam.width", NumberRange{1, 64}},
    RequestLimit{"decoding.beam.length_penalty", NumberRange{-10, 10}},
    RequestLimit{"decoding.beam.diversity_penalty", NumberRange{0}},
    RequestLimit{"limits.max_new_tokens", NumberRange{1}},
    RequestLimit{"limits.min_new_tokens", NumberRange{0}},
    RequestLimit{.field = "limits.stop", .size = SizeRange{0, 16}, .entry_size = SizeRange{1, 256}},
    RequestLimit{.field = "limits.stop_token_ids", .size = SizeRange{0, 256}},
    RequestLimit{"shaping.repetition_penalty", NumberRange{0, 10, true}},
    RequestLimit{"shaping.presence_penalty", NumberRange{-2, 2}},
    RequestLimit{"shaping.frequency_penalty", NumberRange{-2, 2}},
    RequestLimit{"shaping.no_repeat_ngram_size", NumberRange{0}},
    RequestLimit{"shaping.logit_bias", NumberRange{-100, 100}, SizeRange{0, 1024}},
    RequestLimit{
        .field = "shaping.bad_words", .size = SizeRange{0, 1024}, .entry_size = SizeRange{1, 32}},
    RequestLimit{.field = "shaping.suppress_tokens", .size = SizeRange{0, 1024}},
    RequestLimit{"output.logprobs", NumberRange{0, 20}},
    RequestLimit{"output.prompt_logprobs", NumberRange{0, 20}},
    RequestLimit{.field = "prompt.chat.messages", .size = SizeRange{1, 4096}},
    RequestLimit{.field = "inputs", .size = SizeRange{1, 4096}},
    RequestLimit{.field = "documents", .size = SizeRange{1, 4096}},
    RequestLimit{"top", NumberRange{1}},
    RequestLimit{"top_k", NumberRange{1, 1024}},
    RequestLimit{.field = "targets", .size = SizeRange{0, 1024}, .entry_size = SizeRange{1, 256}},
    RequestLimit{.field = "ignore_labels.labels", .size = SizeRange{0, 8192}},
    RequestLimit{.field = "continuations", .size = SizeRange{1, 4096}},
};

// The row of a field, found at compile time; an unknown field does not compile.
consteval const RequestLimit& LimitOf(std::string_view field) {
  size_t row = 0;
  while (kRequestLimits.at(row).field != field) ++row;
  return kRequestLimits.at(row);
}

// For samples and beams.
inline constexpr auto kMaxNumSequences =
    static_cast<int32_t>(LimitOf("decoding.beam.width").value->max);
static_assert(LimitOf("decoding.sampling.num_sequences").value->max == kMaxNumSequences);

}  // namespace beamline
