// Opens files in a folder to which others may write. Paths are resolved from the folder's
// descriptor. So neither "..", nor a link, nor a link that replaces a folder meanwhile can lead out
// of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file.h"

namespace beamline {

// The result of an open.
struct OpenedPath {
  ScopedFd fd{};
  int error = 0;  // errno if there is no descriptor
  // The path's last name is a symbolic link. Only set if `error` is ENOENT, which then means a
  // dangling link.
  bool is_link = false;
};

// Thread-safe.
class RootFolder {
 public:
  // kKernel: openat2(2) with RESOLVE_BENEATH, then kWalk for paths that openat2 refuses. kWalk:
  // opens the path name by name, for kernels before 5.6 and sandboxes without openat2.
  enum class Way : uint8_t { kKernel, kWalk };

  // Errors: as in OpenFile. `path` itself may be a link, because the operator chose it.
  static absl::StatusOr<std::shared_ptr<const RootFolder>> Open(std::string_view what,
                                                                const std::string& path,
                                                                Way way = Way::kKernel);

  const std::string& path() const { return path_; }

  // Opens `path`, which starts with the root's path, for reading; `flags` as in open(2). Follows at
  // most 40 links beneath the root, else ELOOP. EXDEV: `path`, or a link in it, leads out. Does not
  // wait for the writer of a pipe. The result may be of any file type.
  OpenedPath OpenBeneath(const std::string& path, int flags) const;

 private:
  RootFolder(std::string path, ScopedFd fd, Way way)
      : path_(std::move(path)), fd_(std::move(fd)), way_(way) {}

  const std::string path_;
  const ScopedFd fd_;
  const Way way_;
};

}  // namespace beamline
