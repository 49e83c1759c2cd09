#include "loadtest/traffic/batching.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

constexpr size_t kMaxSize = 10'000;

}  // namespace

absl::StatusOr<Batching> ParseBatching(std::string_view text) {
  if (text == "none") return Batching{};
  if (text == "serial") return Batching{.size = 1};
  absl::string_view number(text.data(), text.size());
  Batching batching;
  if (absl::ConsumePrefix(&number, "static:") && absl::SimpleAtoi(number, &batching.size) &&
      batching.size >= 1 && batching.size <= kMaxSize) {
    return batching;
  }
  return absl::InvalidArgumentError(fmt::format(
      "batching \"{}\": expected none, serial or static:N with N of 1 .. {}", text, kMaxSize));
}

}  // namespace beamline::loadtest
