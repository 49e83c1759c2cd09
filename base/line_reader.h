// The lines of a file descriptor as they come, without ever waiting for long.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace beamline {

class LineReader {
 public:
  enum class Outcome { kLine, kNotYet, kEnd, kError };

  // The descriptor outlives the reader.
  explicit LineReader(int fd) : fd_(fd) {}

  // The next line without its end, \n or \r\n; a last line needs none. kNotYet when no whole line
  // has come within `timeout`; what came of it is kept. After kError, errno says why.
  Outcome Next(std::string& line, std::chrono::milliseconds timeout);

 private:
  bool TakeLine(std::string& line);

  const int fd_;
  std::string buffer_;
  size_t begin_ = 0;     // of what was not handed out
  size_t searched_ = 0;  // no end of a line stands before
  bool at_end_ = false;
};

}  // namespace beamline
