#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr mode_t kNewFileMode = 0666;  // minus the umask

absl::Status Fault(std::string_view what, const std::string& path, std::string_view fault) {
  return absl::InvalidArgumentError(fmt::format("{} is '{}', {}", what, path, fault));
}

absl::Status SystemFault(std::string_view what, const std::string& path, std::string_view verb,
                         int error) {
  const std::string message = fmt::format("{} is '{}', which cannot be {}: {}", what, path, verb,
                                          std::generic_category().message(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// Does not wait for the other end of a pipe.
int Open(const std::string& path, int flags) {
  return open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, kNewFileMode);
}

// Opens a path for writing. open() itself refuses folders and pipes without a reader.
absl::StatusOr<ScopedFd> OpenToWrite(std::string_view what, const std::string& path, int flags) {
  ScopedFd fd(Open(path, O_WRONLY | flags));
  if (fd.get() < 0) return SystemFault(what, path, "written", errno);
  return fd;
}

}  // namespace

ScopedFd::~ScopedFd() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<ScopedFd> OpenFile(std::string_view what, const std::string& path) {
  ScopedFd fd(Open(path, O_RDONLY));
  if (fd.get() < 0) return SystemFault(what, path, "read", errno);
  struct stat found {};
  if (fstat(fd.get(), &found) != 0) return SystemFault(what, path, "read", errno);
  if (!S_ISREG(found.st_mode)) {
    return Fault(what, path, fmt::format("{}; accepted: a regular file", KindOf(found.st_mode)));
  }
  return fd;
}

absl::StatusOr<std::string> ReadFile(std::string_view what, const std::string& path,
                                     size_t max_bytes) {
  const auto fd = OpenFile(what, path);
  if (!fd.ok()) return fd.status();
  constexpr size_t kPieceBytes = size_t{1} << 16;
  std::string text;
  while (true) {
    const size_t end = text.size();
    text.resize(end + kPieceBytes);
    const ssize_t size = read(fd->get(), text.data() + end, kPieceBytes);
    if (size < 0 && errno != EINTR) return SystemFault(what, path, "read", errno);
    text.resize(end + static_cast<size_t>(std::max<ssize_t>(size, 0)));
    if (size == 0) return text;
    if (text.size() > max_bytes) {
      return Fault(what, path, fmt::format("longer than the accepted {} bytes", max_bytes));
    }
  }
}

absl::Status CheckWritable(std::string_view what, const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0) return OpenToWrite(what, path, 0).status();
  const auto created = OpenToWrite(what, path, O_CREAT | O_EXCL);
  if (created.ok()) unlink(path.c_str());
  return created.status();
}

absl::Status WriteFile(std::string_view what, const std::string& path, std::string_view text) {
  const auto fd = OpenToWrite(what, path, O_CREAT | O_TRUNC);
  if (!fd.ok()) return fd.status();
  fcntl(fd->get(), F_SETFL, 0);  // from here on, wait for a slow reader of a pipe
  while (!text.empty()) {
    const ssize_t size = write(fd->get(), text.data(), text.size());
    if (size < 0 && errno != EINTR) return SystemFault(what, path, "written", errno);
    text.remove_prefix(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  }
  return absl::OkStatus();
}

}  // namespace beamline
