// Files that a user names. A folder, a pipe or a device where a file belongs is an error that says
// so: nothing here throws, waits for another process, or reads without a limit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace beamline {

// A file descriptor, closed at the end.
class ScopedFd {
 public:
  explicit ScopedFd(int fd = -1) : fd_(fd) {}
  ~ScopedFd();
  ScopedFd(ScopedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ScopedFd& operator=(ScopedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// The functions name the file as "WHAT is 'PATH'", with the flag or field that it came from as
// `what`. NOT_FOUND when there is no such file, INVALID_ARGUMENT for every other fault.

// Opens a regular file to read.
absl::StatusOr<ScopedFd> OpenFile(std::string_view what, const std::string& path);
// The whole of a regular file that is at most `max_bytes` long.
absl::StatusOr<std::string> ReadFile(std::string_view what, const std::string& path,
                                     size_t max_bytes);

// Whether WriteFile could open the path; changes nothing. For the time before long work.
absl::Status CheckWritable(std::string_view what, const std::string& path);
// Writes a file anew; a device, or a pipe that somebody reads, too.
absl::Status WriteFile(std::string_view what, const std::string& path, std::string_view text);

}  // namespace beamline
