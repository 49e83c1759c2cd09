#include "engine/checkpoint/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/math.h"
#include "base/status.h"
#include "engine/checkpoint/checkpoint_file.h"
#include "fmt/format.h"

namespace beamline {
absl::StatusOr<MappedFile> MappedFile::Open(const CheckpointPath& path) {
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointFile file,
                            CheckpointFile::Open(path, kMaxWeightFileBytes));
  if (file.size() == 0) return MappedFile({});  // mmap rejects an empty range
  void* data = mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot be mapped", path.string()));
  }
  return MappedFile({static_cast<const std::byte*>(data), file.size()});
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MappedFile::Release(std::span<const std::byte> part) const {
  if (part.data() < bytes_.data() || part.data() + part.size() > bytes_.data() + bytes_.size()) {
    return;
  }
  static const auto kPageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  // The mapping starts at a page boundary.
  const auto begin = static_cast<size_t>(part.data() - bytes_.data());
  const size_t first = RoundUp(begin, kPageBytes);
  const size_t end = (begin + part.size()) / kPageBytes * kPageBytes;
  if (first >= end) return;
  // Errors are ignored: this only saves memory.
  static_cast<void>(
      madvise(const_cast<std::byte*>(bytes_.data()) + first, end - first, MADV_DONTNEED));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace beamline
