// The only function that opens files of a checkpoint folder. The folder is untrusted. Its files may
// be folders, named pipes, cyclic or dangling links, or pointers left by Git LFS. Each of these is
// an error that names the path. It never causes an exception or a hang, and never counts as an
// absent file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file.h"
#include "engine/checkpoint/checkpoint_path.h"

namespace beamline {

// Maximum file sizes by kind. Real files are far below.
inline constexpr int64_t kMaxConfigFileBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{128} << 20;
inline constexpr int64_t kMaxWeightFileBytes = int64_t{1} << 40;  // mapped, not read

// A regular file that is open for reading; owns its descriptor.
class CheckpointFile {
 public:
  // NOT_FOUND only if nothing has this name. INVALID_ARGUMENT for anything but a regular file or a
  // link to one, and for a path that leaves its root. Also for a file over `max_bytes` and for a
  // Git LFS pointer. If the system cannot open the file, the error has the system's reason. All
  // checks use the open descriptor.
  static absl::StatusOr<CheckpointFile> Open(const CheckpointPath& path, int64_t max_bytes);

  int descriptor() const { return fd_.get(); }
  size_t size() const { return size_; }

 private:
  CheckpointFile(ScopedFd fd, size_t size) : fd_(std::move(fd)), size_(size) {}

  ScopedFd fd_;
  size_t size_ = 0;
};

// Whether the file exists. An error if something exists but cannot be opened as a file.
absl::StatusOr<bool> HasFile(const CheckpointPath& path);

// Returns the file's bytes; errors as in CheckpointFile::Open.
absl::StatusOr<std::string> ReadWholeFile(const CheckpointPath& path, int64_t max_bytes);

}  // namespace beamline
