#include "server/log_event.h"

#include "absl/strings/escaping.h"
#include "base/json.h"
#include "fmt/format.h"
#include "server/log_format.h"

namespace beamline {
namespace {

struct AsText {
  std::string operator()(const LogWord& word) const { return word.text; }
  std::string operator()(const std::string& text) const {
    return "\"" + absl::CEscape(text) + "\"";
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t number) const { return fmt::format("{}", number); }
  std::string operator()(std::chrono::nanoseconds time) const {
    return fmt::format("{:.6f}", std::chrono::duration<double>(time).count());
  }
};

struct AsJson : AsText {
  using AsText::operator();
  std::string operator()(const LogWord& word) const { return JsonString(word.text); }
  std::string operator()(const std::string& text) const { return JsonString(text); }
};

}  // namespace

std::string EventLine(std::string_view event, const std::vector<LogField>& fields, bool json) {
  if (!json) {
    std::string line(event);
    for (const LogField& field : fields) {
      line += fmt::format(" {}={}", field.name, std::visit(AsText(), field.value));
    }
    return line;
  }
  std::string object = fmt::format("{}\"{}\"", kEventBegin, event);
  for (const LogField& field : fields) {
    object += fmt::format(",\"{}\":{}", field.name, std::visit(AsJson(), field.value));
  }
  return object + "}";
}

}  // namespace beamline
