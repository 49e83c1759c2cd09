// Reads lines from a file descriptor with a timeout.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace beamline {

class LineReader {
 public:
  enum class Outcome { kLine, kNotYet, kEnd, kError };

  // The descriptor must outlive the reader.
  explicit LineReader(int fd) : fd_(fd) {}

  // Returns the next line without its end, \n or \r\n; the last line needs none. kNotYet if no
  // whole line arrived within `timeout`; a partial line is kept. After kError, errno has the cause.
  Outcome Next(std::string& line, std::chrono::milliseconds timeout);

 private:
  bool TakeLine(std::string& line);

  const int fd_;
  std::string buffer_;
  size_t begin_ = 0;     // start of the unread data
  size_t searched_ = 0;  // no line end before this position
  bool at_end_ = false;
};

}  // namespace beamline
