#include "server/telemetry/log/log_event.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "base/json.h"
#include "fmt/format.h"
#include "server/telemetry/log/log_format.h"

namespace beamline {

EventLine::EventLine(std::string_view event, bool json) : json_(json) {
  if (json) Append(kEventBegin);
  if (json) Append("\"");
  Append(event);
  if (json) Append("\"");
}

void EventLine::Grow(size_t num_written) {
  const bool was_usual = longer_.empty();
  longer_.resize(2 * size_);
  if (was_usual) std::memcpy(longer_.data(), usual_.data(), num_written);
  place_ = longer_.data();
  room_ = longer_.size();
}

void EventLine::AppendText(std::string_view text) {
  // Nearly all texts need no escapes.
  const bool is_plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c < '\x7F' && c != '"' && c != '\\' && c != '\''; });
  if (is_plain) return Append(text);
  if (!json_) return Append(absl::CEscape({text.data(), text.size()}));
  const std::string quoted = JsonString(text);
  Append(std::string_view(quoted).substr(1, quoted.size() - 2));
}

void EventLine::AppendNumber(int64_t number) {
  const fmt::format_int digits(number);
  Append({digits.data(), digits.size()});
}

void EventLine::AppendSeconds(std::chrono::nanoseconds time) {
  constexpr int64_t kMicro = 1'000'000;
  if (time < std::chrono::nanoseconds::zero()) Append("-");
  const int64_t micros =
      std::chrono::round<std::chrono::microseconds>(std::chrono::abs(time)).count();
  const fmt::format_int whole(micros / kMicro);
  // The first digit keeps leading zeros, and is cut off.
  const fmt::format_int part(kMicro + micros % kMicro);
  Append({whole.data(), whole.size()});
  Append(".");
  Append({part.data() + 1, part.size() - 1});
}

std::string_view EventLine::End() {
  if (json_) Append("}");
  return {place_, size_};
}

}  // namespace beamline
