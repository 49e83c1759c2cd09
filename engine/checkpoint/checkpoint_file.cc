#include "engine/checkpoint/checkpoint_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md: the first line of a pointer.
constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";

absl::Status OpenError(const std::string& path, int error) {
  struct stat info = {};
  if (error == ENOENT && lstat(path.c_str(), &info) != 0) {
    return absl::NotFoundError(fmt::format("{}: no such file", path));
  }
  if (error == ENOENT) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a symbolic link to a file that is not there", path));
  }
  if (error == ELOOP) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a symbolic link that leads in a circle", path));
  }
  if (error == ENOTDIR) {
    return absl::InvalidArgumentError(fmt::format("{}: a file stands where a folder must", path));
  }
  // ENXIO: a socket, which open() refuses.
  if (error == ENXIO) return absl::InvalidArgumentError(fmt::format("{}: not a file", path));
  return absl::ErrnoToStatus(error, fmt::format("{}: cannot be opened", path));
}

absl::Status CheckKind(const std::string& path, const struct stat& info, int64_t max_bytes) {
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{}: a folder, not a file", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{}: not a regular file", path));
  }
  if (info.st_size <= max_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: {} bytes; accepted: at most {}", path, info.st_size, max_bytes));
}

// Fills `bytes` from the file's beginning; fewer bytes where it ends before.
absl::StatusOr<size_t> ReadAt(int descriptor, const std::string& path, char* bytes, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(descriptor, bytes + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(errno, fmt::format("{}: cannot be read", path));
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

absl::Status CheckNotLfsPointer(int descriptor, const std::string& path) {
  std::array<char, kLfsPointer.size()> beginning;
  BEAMLINE_ASSIGN_OR_RETURN(const size_t size,
                            ReadAt(descriptor, path, beginning.data(), beginning.size()));
  if (std::string_view(beginning.data(), size) != kLfsPointer) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: a Git LFS pointer, not the file itself; `git lfs pull` in the folder fetches "
      "the files",
      path));
}

}  // namespace

absl::StatusOr<CheckpointFile> CheckpointFile::Open(const std::string& path, int64_t max_bytes) {
  // O_NONBLOCK: a named pipe must not wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return OpenError(path, errno);
  CheckpointFile file(descriptor, 0);
  struct stat info = {};
  if (fstat(descriptor, &info) != 0) return OpenError(path, errno);
  BEAMLINE_RETURN_IF_ERROR(CheckKind(path, info, max_bytes));
  file.size_ = static_cast<size_t>(info.st_size);
  BEAMLINE_RETURN_IF_ERROR(CheckNotLfsPointer(descriptor, path));
  return file;
}

CheckpointFile::CheckpointFile(CheckpointFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), size_(std::exchange(other.size_, 0)) {}

CheckpointFile& CheckpointFile::operator=(CheckpointFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

CheckpointFile::~CheckpointFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<bool> HasFile(const std::string& path) {
  const auto file = CheckpointFile::Open(path, kMaxWeightFileBytes);
  if (file.ok()) return true;
  if (absl::IsNotFound(file.status())) return false;
  return file.status();
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointFile file, CheckpointFile::Open(path, max_bytes));
  std::string bytes(file.size(), '\0');
  BEAMLINE_ASSIGN_OR_RETURN(const size_t size,
                            ReadAt(file.descriptor(), path, bytes.data(), bytes.size()));
  if (size == bytes.size()) return bytes;
  return absl::UnavailableError(fmt::format("{}: became shorter while it was read", path));
}

}  // namespace beamline
