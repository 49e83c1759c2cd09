#include "server/telemetry/log/log_format.h"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"
#include "spdlog/details/log_msg.h"
#include "spdlog/pattern_formatter.h"

namespace beamline {
namespace {

constexpr char kTimePattern[] = "%Y-%m-%dT%H:%M:%S.%e%z";
constexpr size_t kMillisecondsPlace = 20;  // offset of the three digits

class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(bool json) : json_(json) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    const auto level_view = spdlog::level::to_string_view(message.level);
    const std::string_view level(level_view.data(), level_view.size());
    if (json_) {
      Append("{\"time\":\"", line);
      AppendTime(message, line);
      Append("\",\"level\":\"", line);
      Append(level, line);
      Append("\",", line);
      if (text.starts_with(kEventBegin)) {
        Append(text.substr(1), line);
      } else {
        Append("\"message\":", line);
        Append(JsonString(text), line);
        Append("}", line);
      }
    } else {
      AppendTime(message, line);
      Append(" ", line);
      Append(level, line);
      Append(" ", line);
      Append(text, line);
    }
    Append("\n", line);
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(json_);
  }

 private:
  static void Append(std::string_view text, spdlog::memory_buf_t& line) {
    line.append(text.data(), text.data() + text.size());
  }

  // Formats the time once a second, and replaces only its milliseconds.
  void AppendTime(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) {
    using std::chrono::milliseconds;
    const auto second = std::chrono::floor<std::chrono::seconds>(message.time);
    if (second != second_ || time_.size() == 0) {
      second_ = second;
      time_.clear();
      pattern_.format(message, time_);
    }
    const auto begin = line.size();
    Append({time_.data(), time_.size()}, line);
    auto part = std::chrono::floor<milliseconds>(message.time - second).count();
    for (size_t i = 3; i-- > 0; part /= 10) {
      line[begin + kMillisecondsPlace + i] = static_cast<char>('0' + part % 10);
    }
  }

  const bool json_;
  spdlog::pattern_formatter pattern_{kTimePattern, spdlog::pattern_time_type::local, ""};
  std::chrono::sys_seconds second_;  // the second in time_
  spdlog::memory_buf_t time_;
};

}  // namespace

std::unique_ptr<spdlog::formatter> MakeLogFormatter(bool json) {
  return std::make_unique<LineFormatter>(json);
}

}  // namespace beamline
