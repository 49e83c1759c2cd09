// A read-only memory mapping of a whole file.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"

namespace beamline {

class MappedFile {
 public:
  // Errors as in CheckpointFile::Open.
  static absl::StatusOr<MappedFile> Open(const CheckpointPath& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Valid while this object exists and the file is not truncated.
  std::span<const std::byte> bytes() const { return bytes_; }

  // If `part` belongs to this file, drops its whole pages from this process's memory. The system
  // may keep them cached and reads them again on access. Thread safe.
  void Release(std::span<const std::byte> part) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace beamline
