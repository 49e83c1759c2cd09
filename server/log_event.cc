#include "server/log_event.h"

#include "absl/strings/escaping.h"
#include "base/json.h"
#include "fmt/format.h"
#include "server/log_format.h"

namespace beamline {
namespace {

constexpr size_t kUsualBytes = 512;  // a request's line has fewer

}  // namespace

EventLine::EventLine(std::string_view event, bool json) : json_(json) {
  line_.reserve(kUsualBytes);
  if (json) {
    line_.append(kEventBegin).append(1, '"').append(event).append(1, '"');
  } else {
    line_ = event;
  }
}

void EventLine::Begin(std::string_view name) {
  if (json_) {
    line_.append(",\"").append(name).append("\":");
  } else {
    line_.append(1, ' ').append(name).append(1, '=');
  }
}

void EventLine::AddWord(std::string_view name, std::string_view word) {
  Begin(name);
  if (json_) {
    line_.append(1, '"').append(word).append(1, '"');
  } else {
    line_.append(word);
  }
}

void EventLine::AddText(std::string_view name, std::string_view text) {
  Begin(name);
  if (json_) {
    AppendJsonString(text, line_);
  } else {
    line_.append(1, '"').append(absl::CEscape({text.data(), text.size()})).append(1, '"');
  }
}

void EventLine::AddNumber(std::string_view name, int64_t number) {
  Begin(name);
  const fmt::format_int digits(number);
  line_.append(digits.data(), digits.size());
}

void EventLine::AddBool(std::string_view name, bool value) {
  Begin(name);
  line_.append(value ? "true" : "false");
}

void EventLine::AddSeconds(std::string_view name, std::chrono::nanoseconds time) {
  constexpr int64_t kMicro = 1'000'000;
  Begin(name);
  if (time < std::chrono::nanoseconds::zero()) line_.append(1, '-');
  const int64_t micros =
      std::chrono::round<std::chrono::microseconds>(std::chrono::abs(time)).count();
  const fmt::format_int whole(micros / kMicro);
  const fmt::format_int part(kMicro + micros % kMicro);  // its first digit is the point's place
  line_.append(whole.data(), whole.size()).append(1, '.').append(part.data() + 1, part.size() - 1);
}

std::string EventLine::Take() && {
  if (json_) line_.append(1, '}');
  return std::move(line_);
}

}  // namespace beamline
