#include "engine/decoding/option_checks.h"

#include "base/field_error.h"
#include "base/status.h"
#include "engine/api/request.h"
#include "fmt/format.h"

namespace beamline {

absl::Status CheckStopStrings(std::string_view field, const std::vector<std::string>& strings) {
  BEAMLINE_RETURN_IF_ERROR(CheckCount(field, strings.size(), kMaxStopStrings));
  for (size_t i = 0; i < strings.size(); ++i) {
    const size_t bytes = strings[i].size();
    if (bytes > 0 && bytes <= kMaxStopStringBytes) continue;
    const std::string entry = fmt::format("{}[{}]", field, i);
    return FieldError({.field = entry,
                       .value = fmt::to_string(bytes),
                       .accepted = fmt::format("1 to {}", kMaxStopStringBytes),
                       .text = fmt::format("{} is {} bytes long", entry, bytes)});
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
