// A line of the log that tells an event by named values.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace beamline {

// `EVENT name=value name="text"`, texts escaped as in C; as JSON an object with the same names and
// `"event":"EVENT"` first. The values are in the order in which they are added.
class EventLine {
 public:
  EventLine(std::string_view event, bool json);

  void AddWord(std::string_view name, std::string_view word);  // letters, digits and underscores
  void AddText(std::string_view name, std::string_view text);
  void AddNumber(std::string_view name, int64_t number);
  void AddBool(std::string_view name, bool value);
  void AddSeconds(std::string_view name, std::chrono::nanoseconds time);  // to a microsecond

  std::string Take() &&;

 private:
  void Begin(std::string_view name);

  const bool json_;
  std::string line_;
};

}  // namespace beamline
