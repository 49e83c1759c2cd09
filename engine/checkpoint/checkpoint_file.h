// The one way to open a file of a checkpoint folder. A folder comes from anywhere: its files may be
// folders, named pipes, links that lead in a circle or nowhere, or pointers that Git LFS left in a
// file's place. Each of these is an error that names the path, never an exception, a hang or a file
// that counts as absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file.h"
#include "engine/checkpoint/checkpoint_path.h"

namespace beamline {

// The largest files that are read, by kind. Real ones stay well below.
inline constexpr int64_t kMaxConfigFileBytes = int64_t{64} << 20;
inline constexpr int64_t kMaxTokenizerFileBytes = int64_t{128} << 20;
inline constexpr int64_t kMaxWeightFileBytes = int64_t{1} << 40;  // mapped, not read

// A regular file that is open for reading; owns its descriptor.
class CheckpointFile {
 public:
  // NOT_FOUND when there is nothing of this name, and only then. Anything but a regular file or a
  // symbolic link to one, a path that leads out of its root, a file over `max_bytes` and a Git LFS
  // pointer are INVALID_ARGUMENT; a file that the system does not open has the system's reason. All
  // is checked of what is open.
  static absl::StatusOr<CheckpointFile> Open(const CheckpointPath& path, int64_t max_bytes);

  int descriptor() const { return fd_.get(); }
  size_t size() const { return size_; }

 private:
  CheckpointFile(ScopedFd fd, size_t size) : fd_(std::move(fd)), size_(size) {}

  ScopedFd fd_;
  size_t size_ = 0;
};

// Whether there is such a file; what is there and cannot be opened as one is an error.
absl::StatusOr<bool> HasFile(const CheckpointPath& path);

// The file's bytes; errors as of CheckpointFile::Open.
absl::StatusOr<std::string> ReadWholeFile(const CheckpointPath& path, int64_t max_bytes);

}  // namespace beamline
