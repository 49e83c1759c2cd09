// Validates a request's options with the table of limits (engine/api/request_limits.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/request_limits.h"

namespace beamline {

// Checks a number. Errors call it `name`: the field, or a model's default for it.
absl::Status CheckValue(const RequestLimit& limit, std::string_view name, int32_t value);
absl::Status CheckValue(const RequestLimit& limit, std::string_view name, float value);
template <typename T>
absl::Status CheckValue(const RequestLimit& limit, T value) {
  return CheckValue(limit, limit.field, value);
}
// The same, with a maximum that the model or another field sets.
absl::Status CheckValueUpTo(const RequestLimit& limit, int32_t value, int32_t most);

// CheckEntries: a list's size. CheckBytes: a text's size.
absl::Status CheckEntries(const RequestLimit& limit, size_t count);
absl::Status CheckBytes(const RequestLimit& limit, std::string_view text);

// Checks the number of texts and the bytes of each.
absl::Status CheckTexts(const RequestLimit& limit, const std::vector<std::string>& texts);

// Checks the number of ids, and that each is 0 .. vocab_size - 1.
absl::Status CheckIds(const RequestLimit& limit, std::span<const int32_t> ids, int32_t vocab_size);
// Checks that each id is 0 .. vocab_size - 1; errors name the entry: "limits.stop_token_ids[3]".
absl::Status CheckTokenIds(std::string_view field, std::span<const int32_t> ids,
                           int32_t vocab_size);

}  // namespace beamline
