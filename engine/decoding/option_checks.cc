#include "engine/decoding/option_checks.h"

#include <fmt/format.h>

#include "base/status.h"
#include "engine/api/request.h"

namespace beamline {

absl::Status RangeError(std::string_view field, std::string_view value, std::string_view accepted) {
  return absl::InvalidArgumentError(fmt::format("{} is {}; accepted: {}", field, value, accepted));
}

absl::Status CheckInt(std::string_view field, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return RangeError(field, fmt::to_string(value), fmt::format("{} to {}", min, max));
}

absl::Status CheckFloat(std::string_view field, float value, float min, float max, Lower lower) {
  const bool above = lower == Lower::kIncluded ? value >= min : value > min;
  if (above && value <= max) return absl::OkStatus();
  return RangeError(field, fmt::to_string(value),
                    lower == Lower::kIncluded ? fmt::format("{} to {}", min, max)
                                              : fmt::format("above {}, at most {}", min, max));
}

absl::Status CheckCount(std::string_view field, size_t size, size_t max) {
  if (size <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} has {} entries; accepted: at most {}", field, size, max));
}

absl::Status CheckStopStrings(std::string_view field, const std::vector<std::string>& strings) {
  BEAMLINE_RETURN_IF_ERROR(CheckCount(field, strings.size(), kMaxStopStrings));
  for (size_t i = 0; i < strings.size(); ++i) {
    const size_t bytes = strings[i].size();
    if (bytes > 0 && bytes <= kMaxStopStringBytes) continue;
    return absl::InvalidArgumentError(fmt::format("{}[{}] is {} bytes long; accepted: 1 to {}",
                                                  field, i, bytes, kMaxStopStringBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckTokenIds(std::string_view field, std::span<const int32_t> ids, size_t max_count,
                           int32_t vocab_size) {
  BEAMLINE_RETURN_IF_ERROR(CheckCount(field, ids.size(), max_count));
  for (size_t i = 0; i < ids.size(); ++i) {
    BEAMLINE_RETURN_IF_ERROR(CheckInt(fmt::format("{}[{}]", field, i), ids[i], 0, vocab_size - 1));
  }
  return absl::OkStatus();
}

}  // namespace beamline
