// Errors about one field of a request or one setting. The field, its value and the accepted values
// are stored as data in the status. The message is composed of them in one form, "limits.stop[2] is
// 0; accepted: 1 to 64". Code that needs a part reads it from the data instead of parsing the
// message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace beamline {

struct FieldFault {
  std::string field;     // its path: "limits.stop[2]", "max_sequences"
  std::string value;     // as shown in the message; for a list its length
  std::string accepted;  // "1 to 64"; empty: none, or part of `text`
  // Replaces "FIELD is VALUE" before "; accepted: ..." in the message, unless empty.
  std::string text;
};

// INVALID_ARGUMENT with the fault's message; the fault is attached.
absl::Status FieldError(const FieldFault& fault);
absl::Status FieldError(std::string_view field, std::string_view value, std::string_view accepted);

// The message of the fault.
std::string FieldMessage(const FieldFault& fault);

// The fault attached by FieldError; nullopt for other statuses.
std::optional<FieldFault> GetFieldFault(const absl::Status& status);

// The same error reported for `field`, with `prefix` before its message. Used when a lower layer (a
// tokenizer) has no fields or names them differently. Statuses other than INVALID_ARGUMENT keep
// their code; OK is unchanged.
absl::Status InField(std::string_view field, std::string_view prefix, const absl::Status& status);

// FieldError unless the value is in range. "FIELD is VALUE; accepted: MIN to MAX".
absl::Status CheckInt(std::string_view field, int64_t value, int64_t min, int64_t max);

enum class Lower : uint8_t { kIncluded, kExcluded };
// NaN is never in range. If `min` is excluded: "FIELD is VALUE; accepted: above MIN, at most MAX".
absl::Status CheckFloat(std::string_view field, float value, float min, float max,
                        Lower lower = Lower::kIncluded);

// "FIELD has SIZE entries; accepted: at most MAX".
absl::Status CheckCount(std::string_view field, size_t size, size_t max);

// Whether the text matches the choice. "cuda:N" matches "cuda:0", "cuda:1", ...; "1 to 64" matches
// the whole numbers of that range.
bool IsChoice(std::string_view text, std::string_view choice);
// "FIELD is 'VALUE'; accepted: A, B".
absl::Status CheckChoice(std::string_view field, std::string_view value,
                         std::span<const std::string_view> choices);

}  // namespace beamline
