// A read-only memory mapping of a whole file.
#pragma once

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"

namespace beamline {

class MappedFile {
 public:
  // Errors as of CheckpointFile::Open.
  static absl::StatusOr<MappedFile> Open(const CheckpointPath& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Valid while this object lives and nobody truncates the file.
  std::span<const std::byte> bytes() const { return bytes_; }

  // Whole pages of `part` leave this process's memory, where it is one of the file; the system may
  // keep them for itself, and reads them again when they are touched. Thread-safe.
  void Release(std::span<const std::byte> part) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace beamline
