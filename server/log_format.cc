#include "server/log_format.h"

#include <string>
#include <string_view>

#include "base/json.h"
#include "spdlog/details/log_msg.h"
#include "spdlog/pattern_formatter.h"

namespace beamline {
namespace {

constexpr char kTimePattern[] = "%Y-%m-%dT%H:%M:%S.%e%z";

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    Append("{\"time\":\"", line);
    time_.format(message, line);
    Append("\",\"level\":\"", line);
    const auto level = spdlog::level::to_string_view(message.level);
    Append(std::string_view(level.data(), level.size()), line);
    Append("\",", line);
    if (text.starts_with(kEventBegin)) {
      Append(text.substr(1), line);
    } else {
      Append("\"message\":", line);
      Append(JsonString(text), line);
      Append("}", line);
    }
    Append("\n", line);
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }

 private:
  static void Append(std::string_view text, spdlog::memory_buf_t& line) {
    line.append(text.data(), text.data() + text.size());
  }

  spdlog::pattern_formatter time_{kTimePattern, spdlog::pattern_time_type::local, ""};
};

}  // namespace

std::unique_ptr<spdlog::formatter> MakeLogFormatter(bool json) {
  if (json) return std::make_unique<JsonFormatter>();
  return std::make_unique<spdlog::pattern_formatter>(std::string(kTimePattern) + " %l %v");
}

}  // namespace beamline
