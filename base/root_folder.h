// Files beneath a folder in which others may write: a path is followed from the folder's
// descriptor, so that neither "..", nor a link, nor a link that is put in a folder's place
// meanwhile leads out of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file.h"

namespace beamline {

// What open() answers.
struct OpenedPath {
  ScopedFd fd{};
  int error = 0;  // errno, where there is no descriptor
  // The path's last name is a symbolic link; set where `error` is ENOENT, which is a link to
  // nothing then.
  bool is_link = false;
};

// Thread-safe.
class RootFolder {
 public:
  // kKernel: openat2(2) with RESOLVE_BENEATH, and the walk for what it does not open. kWalk: a
  // descriptor for each name of the path, as kernels before 5.6 and sandboxes without openat2 need.
  enum class Way : uint8_t { kKernel, kWalk };

  // Errors as of OpenFile. `path` itself may be a link: it is the operator's.
  static absl::StatusOr<std::shared_ptr<const RootFolder>> Open(std::string_view what,
                                                                const std::string& path,
                                                                Way way = Way::kKernel);

  const std::string& path() const { return path_; }

  // Opens `path`, which begins with the root's, to read; `flags` as of open(2). Links are followed
  // while they stay beneath the root; 40 of them at most, else ELOOP. EXDEV: `path`, or a link in
  // it, leads out. Does not wait for the writer of a pipe; what is open may be of any kind.
  OpenedPath OpenBeneath(const std::string& path, int flags) const;

 private:
  RootFolder(std::string path, ScopedFd fd, Way way)
      : path_(std::move(path)), fd_(std::move(fd)), way_(way) {}

  const std::string path_;
  const ScopedFd fd_;
  const Way way_;
};

}  // namespace beamline
