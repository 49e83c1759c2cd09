// Reads and writes files that a user names. A folder, pipe or device in place of a file is reported
// as such. Nothing here throws, waits for another process, or reads without a limit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace beamline {

// Owns a file descriptor and closes it.
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

// In errors the functions name the file as "WHAT is 'PATH'"; `what` is the flag or field of the
// path. NOT_FOUND if the file does not exist, INVALID_ARGUMENT for every other fault.

// Opens a regular file for reading.
absl::StatusOr<ScopedFd> OpenFile(std::string_view what, const std::string& path);
// Reads a whole regular file of at most `max_bytes` bytes.
absl::StatusOr<std::string> ReadFile(std::string_view what, const std::string& path,
                                     size_t max_bytes);

// Whether WriteFile could open the path; changes nothing. Call it before long work.
absl::Status CheckWritable(std::string_view what, const std::string& path);
// Writes a new file or replaces an old one. Also writes to a device, or to a pipe that has a
// reader.
absl::Status WriteFile(std::string_view what, const std::string& path, std::string_view text);

}  // namespace beamline
