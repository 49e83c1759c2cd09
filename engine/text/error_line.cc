#include "engine/text/error_line.h"

#include "base/text.h"
#include "fmt/format.h"

namespace beamline {
absl::Status WithShortMessage(const absl::Status& status, size_t max_bytes) {
  if (status.ok()) return status;
  const std::string_view message(status.message().data(), status.message().size());
  return absl::Status(status.code(), Shorten(message, max_bytes));
}

absl::Status WithPlace(std::string_view place, const absl::Status& status) {
  const std::string_view message(status.message().data(), status.message().size());
  if (status.ok() || message.starts_with(place)) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", place, message));
}

}  // namespace beamline
