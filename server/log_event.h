// A line of the log that tells an event by named values.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace beamline {

// `EVENT name=value name="text"`, texts escaped as in C; as JSON an object with the same names and
// `"event":"EVENT"` first. The values are in the order in which they are added.
//
// A line is made of a hundred pieces of a few bytes. What puts them there is inline: the names are
// constants, whose copies are a few instructions then.
class EventLine {
 public:
  EventLine(std::string_view event, bool json);
  EventLine(const EventLine&) = delete;
  EventLine& operator=(const EventLine&) = delete;

  // Letters, digits and underscores.
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
  // To a microsecond.
  void AddSeconds(std::string_view name, std::chrono::nanoseconds time) {
    Begin(name, /*is_quoted=*/false);
    AppendSeconds(time);
  }

  // All of it, to which nothing is added any more; valid as long as this is.
  std::string_view End();

 private:
  static constexpr size_t kUsualBytes = 768;  // a request's line has fewer

  // Room for so many bytes more, which are to be written at once.
  [[gnu::always_inline]] char* Extend(size_t num_bytes) {
    const size_t begin = size_;
    size_ += num_bytes;
    if (size_ > room_) Grow(begin);
    return place_ + begin;
  }
  [[gnu::always_inline]] void Append(std::string_view bytes) {
    std::memcpy(Extend(bytes.size()), bytes.data(), bytes.size());
  }
  // What stands before a value, and the quotation mark with which one of text begins.
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
  std::array<char, kUsualBytes> usual_;  // each request has a line, which allocates nothing
  std::string longer_;                   // in place of it where that is too small
  char* place_ = usual_.data();
  size_t room_ = kUsualBytes;
  size_t size_ = 0;  // so many bytes of it are the line
};

}  // namespace beamline
