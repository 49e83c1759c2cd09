#include "server/net/rare_error.h"

#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

constexpr std::chrono::seconds kErrorInterval{10};

}  // namespace

void RareError::Log(const std::string& what) {
  const auto now = std::chrono::steady_clock::now();
  if (last_.has_value() && now - *last_ < kErrorInterval) {
    ++num_unsaid_;
    return;
  }
  spdlog::error(
      "{}{}", what,
      num_unsaid_ == 0 ? "" : fmt::format("; {} times more since the last such line", num_unsaid_));
  last_ = now;
  num_unsaid_ = 0;
}

}  // namespace beamline
