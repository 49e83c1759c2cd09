#include "base/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace beamline {

bool LineReader::TakeLine(std::string& line) {
  const size_t end = buffer_.find('\n', searched_);
  searched_ = std::min(end, buffer_.size());
  if (end == std::string::npos && !(at_end_ && begin_ < buffer_.size())) return false;
  line.assign(buffer_, begin_, searched_ - begin_);
  if (line.ends_with('\r')) line.pop_back();
  begin_ = searched_ = std::min(searched_ + 1, buffer_.size());
  return true;
}

LineReader::Outcome LineReader::Next(std::string& line, std::chrono::milliseconds timeout) {
  constexpr size_t kPieceBytes = size_t{1} << 16;
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (TakeLine(line)) return Outcome::kLine;
    if (at_end_) return Outcome::kEnd;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd ready = {fd_, POLLIN, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (count < 0 && errno != EINTR) return Outcome::kError;
    if (count <= 0) {
      if (left.count() <= 0) return Outcome::kNotYet;
      continue;
    }
    buffer_.erase(0, begin_);
    searched_ -= begin_;
    begin_ = 0;
    const size_t end = buffer_.size();
    buffer_.resize(end + kPieceBytes);
    const ssize_t size = read(fd_, buffer_.data() + end, kPieceBytes);
    buffer_.resize(end + static_cast<size_t>(std::max<ssize_t>(size, 0)));
    if (size < 0 && errno != EINTR && errno != EAGAIN) return Outcome::kError;
    at_end_ = size == 0;
  }
}

}  // namespace beamline
