// A log line that describes an event by named values.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace beamline {

// `EVENT name=value name="text"`, with texts escaped as in C. In JSON: an object with the same
// names, `"event":"EVENT"` first. Values keep the order in which they are added.
//
// A line has about a hundred pieces of a few bytes. The functions that append them are inline:
// names are constants, so that a copy is a few instructions.
class EventLine {
 public:
  EventLine(std::string_view event, bool json);
  EventLine(const EventLine&) = delete;
  EventLine& operator=(const EventLine&) = delete;

  // `word`: letters, digits and underscores.
  void AddWord(std::string_view name, std::string_view word) {
    Begin(name, /*is_quoted=*/json_);
    Append(word);
    if (json_) Append("\"");
  }
  void AddText(std::string_view name, std::string_view text) {
    Begin(name, /*is_quoted=*/true);
    AppendText(text);
    Append("\"");
  }
  void AddNumber(std::string_view name, int64_t number) {
    Begin(name, /*is_quoted=*/false);
    AppendNumber(number);
  }
  void AddBool(std::string_view name, bool value) {
    Begin(name, /*is_quoted=*/false);
    Append(value ? "true" : "false");
  }
  // With microsecond resolution.
  void AddSeconds(std::string_view name, std::chrono::nanoseconds time) {
    Begin(name, /*is_quoted=*/false);
    AppendSeconds(time);
  }

  // The finished line. Nothing may be added afterwards. Valid as long as this object.
  std::string_view End();

 private:
  static constexpr size_t kUsualBytes = 768;  // a request's line is shorter

  // Makes room for `num_bytes` more. The caller must write them at once.
  [[gnu::always_inline]] char* Extend(size_t num_bytes) {
    const size_t begin = size_;
    size_ += num_bytes;
    if (size_ > room_) Grow(begin);
    return place_ + begin;
  }
  [[gnu::always_inline]] void Append(std::string_view bytes) {
    std::memcpy(Extend(bytes.size()), bytes.data(), bytes.size());
  }
  // Appends the separator, the name and, for a text, the opening quotation mark.
  [[gnu::always_inline]] void Begin(std::string_view name, bool is_quoted) {
    Append(json_ ? std::string_view(",\"") : std::string_view(" "));
    Append(name);
    Append(json_ ? std::string_view("\":") : std::string_view("="));
    if (is_quoted) Append("\"");
  }
  void Grow(size_t num_written);
  void AppendText(std::string_view text);  // escaped, without quotation marks
  void AppendNumber(int64_t number);
  void AppendSeconds(std::chrono::nanoseconds time);

  const bool json_;
  std::array<char, kUsualBytes> usual_;  // a request's line fits, so that it allocates nothing
  std::string longer_;                   // used instead of usual_ when that is too small
  char* place_ = usual_.data();
  size_t room_ = kUsualBytes;
  size_t size_ = 0;  // bytes of the line
};

}  // namespace beamline
