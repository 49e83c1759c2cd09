// Checks of a request's options by the table of limits (engine/api/request_limits.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/request_limits.h"

namespace beamline {

// Of a number that errors call `name`: the field's own, or a model's default for it.
absl::Status CheckValue(const RequestLimit& limit, std::string_view name, int32_t value);
absl::Status CheckValue(const RequestLimit& limit, std::string_view name, float value);
template <typename T>
absl::Status CheckValue(const RequestLimit& limit, T value) {
  return CheckValue(limit, limit.field, value);
}
// The same, where the model or another field has an end of its own.
absl::Status CheckValueUpTo(const RequestLimit& limit, int32_t value, int32_t most);

// Of a list's entries; of a text's bytes.
absl::Status CheckEntries(const RequestLimit& limit, size_t count);
absl::Status CheckBytes(const RequestLimit& limit, std::string_view text);

// Entries, and the bytes of each.
absl::Status CheckTexts(const RequestLimit& limit, const std::vector<std::string>& texts);

// Entries, and each of them 0 .. vocab_size - 1.
absl::Status CheckIds(const RequestLimit& limit, std::span<const int32_t> ids, int32_t vocab_size);
// Each id 0 .. vocab_size - 1; errors name the entry: "limits.stop_token_ids[3]".
absl::Status CheckTokenIds(std::string_view field, std::span<const int32_t> ids,
                           int32_t vocab_size);

}  // namespace beamline
