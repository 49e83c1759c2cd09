#include "engine/checkpoint/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/status.h"
#include "engine/checkpoint/checkpoint_file.h"
#include "fmt/format.h"

namespace beamline {
absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointFile file,
                            CheckpointFile::Open(path, kMaxWeightFileBytes));
  if (file.size() == 0) return MappedFile({});  // mmap refuses an empty range
  void* data = mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot be mapped", path));
  }
  return MappedFile({static_cast<const std::byte*>(data), file.size()});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace beamline
