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

absl::Status OpenError(const CheckpointPath& path, const OpenedPath& opened) {
  const auto invalid = [&path](std::string_view fault) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", path.string(), fault));
  };
  switch (opened.error) {
    case ENOENT:
      if (opened.is_link) return invalid("a symbolic link to a file that is not there");
      return absl::NotFoundError(fmt::format("{}: no such file", path.string()));
    case ELOOP:
      return invalid("a symbolic link that leads in a circle");
    case ENOTDIR:
      return invalid("a file stands where a folder must");
    case ENXIO:  // a socket, which open() refuses
      return invalid("not a file");
    case EXDEV:
      return invalid(LeadsOut(path));
    default:
      return absl::ErrnoToStatus(opened.error, fmt::format("{}: cannot be opened", path.string()));
  }
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

// Reads into `bytes` from the start of the file; returns fewer bytes if the file is shorter.
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

absl::StatusOr<CheckpointFile> CheckpointFile::Open(const CheckpointPath& path, int64_t max_bytes) {
  OpenedPath opened = path.OpenAny();
  if (opened.fd.get() < 0) return OpenError(path, opened);
  struct stat info = {};
  if (fstat(opened.fd.get(), &info) != 0) return OpenError(path, {.error = errno});
  BEAMLINE_RETURN_IF_ERROR(CheckKind(path.string(), info, max_bytes));
  BEAMLINE_RETURN_IF_ERROR(CheckNotLfsPointer(opened.fd.get(), path.string()));
  return CheckpointFile(std::move(opened.fd), static_cast<size_t>(info.st_size));
}

absl::StatusOr<bool> HasFile(const CheckpointPath& path) {
  const auto file = CheckpointFile::Open(path, kMaxWeightFileBytes);
  if (file.ok()) return true;
  if (absl::IsNotFound(file.status())) return false;
  return file.status();
}

absl::StatusOr<std::string> ReadWholeFile(const CheckpointPath& path, int64_t max_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointFile file, CheckpointFile::Open(path, max_bytes));
  std::string bytes(file.size(), '\0');
  BEAMLINE_ASSIGN_OR_RETURN(const size_t size,
                            ReadAt(file.descriptor(), path.string(), bytes.data(), bytes.size()));
  if (size == bytes.size()) return bytes;
  return absl::UnavailableError(fmt::format("{}: became shorter while it was read", path.string()));
}

}  // namespace beamline
