#include "loadtest/traffic/status_name.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

constexpr std::array<const char*, 17> kNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

}  // namespace

std::string StatusName(grpc::StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : "CODE_" + std::to_string(static_cast<int>(code));
}

absl::Status CheckStatusName(std::string_view what, const std::string& name) {
  const std::vector<std::string> names(kNames.begin(), kNames.end());
  if (std::find(names.begin(), names.end(), name) != names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is '{}'; accepted: a code of gRPC, as RESOURCE_EXHAUSTED{}", what, name,
                  DidYouMean(name, names)));
}

}  // namespace beamline::loadtest
