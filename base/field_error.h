// Errors about one field of a request or one setting: what is refused, its value and what would be
// accepted, as data that goes with the status. The message is composed of them in one form,
// "limits.stop[2] is 0; accepted: 1 to 64"; whoever needs a part asks for the part and does not
// read it out of the message.
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
  std::string value;     // as the message shows it; of a list its length
  std::string accepted;  // "1 to 64"; empty: nothing would be, or the text says it
  // What the message says in front of "; accepted: ..."; empty: "FIELD is VALUE".
  std::string text;
};

// INVALID_ARGUMENT with the message of the fault, which goes with it.
absl::Status FieldError(const FieldFault& fault);
absl::Status FieldError(std::string_view field, std::string_view value, std::string_view accepted);

// The message of the fault.
std::string FieldMessage(const FieldFault& fault);

// What FieldError was called with; nullopt of any other status.
std::optional<FieldFault> GetFieldFault(const absl::Status& status);

// The same error, said of `field`, with `prefix` in front of its message: what somebody found who
// knows no fields (a tokenizer) or calls them by other names. OK and codes other than
// INVALID_ARGUMENT stay what they are.
absl::Status InField(std::string_view field, std::string_view prefix, const absl::Status& status);

// FieldError unless the value is in range. "FIELD is VALUE; accepted: MIN to MAX".
absl::Status CheckInt(std::string_view field, int64_t value, int64_t min, int64_t max);

enum class Lower : uint8_t { kIncluded, kExcluded };
// NaN is never in range. "FIELD is VALUE; accepted: above MIN, at most MAX" without the lower end.
absl::Status CheckFloat(std::string_view field, float value, float min, float max,
                        Lower lower = Lower::kIncluded);

// "FIELD has SIZE entries; accepted: at most MAX".
absl::Status CheckCount(std::string_view field, size_t size, size_t max);

// Whether the text is the choice; "cuda:N" stands for "cuda:0", "cuda:1", ..., and "1 to 64" for
// the whole numbers of that range.
bool IsChoice(std::string_view text, std::string_view choice);
// "FIELD is 'VALUE'; accepted: A, B".
absl::Status CheckChoice(std::string_view field, std::string_view value,
                         std::span<const std::string_view> choices);

}  // namespace beamline
