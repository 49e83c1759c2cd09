#include "engine/checkpoint/checkpoint_path.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/status.h"
#include "fmt/format.h"

namespace beamline {

absl::StatusOr<CheckpointPath> CheckpointPath::Beneath(const std::string& root, std::string path) {
  CheckpointPath made(std::move(path));
  if (root.empty()) return made;
  BEAMLINE_ASSIGN_OR_RETURN(made.root_, RootFolder::Open("model_root", root));
  return made;
}

CheckpointPath CheckpointPath::operator/(std::string_view name) const {
  CheckpointPath below = *this;
  below.path_ = fmt::format("{}/{}", path_, name);
  return below;
}

OpenedPath CheckpointPath::OpenAny(int flags) const {
  if (root_ != nullptr) return root_->OpenBeneath(path_, flags);
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  ScopedFd fd(open(path_.c_str(), flags | O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd.get() >= 0) return {.fd = std::move(fd)};
  const int error = errno;
  struct stat info = {};
  return {.error = error, .is_link = error == ENOENT && lstat(path_.c_str(), &info) == 0};
}

std::vector<std::string> CheckpointPath::List(size_t most_names) const {
  std::vector<std::string> names;
  const OpenedPath opened = OpenAny(O_DIRECTORY);
  if (opened.fd.get() < 0) return names;
  const int own = fcntl(opened.fd.get(), F_DUPFD_CLOEXEC, 0);  // closed by closedir
  DIR* const folder = own < 0 ? nullptr : fdopendir(own);
  if (folder == nullptr) {
    if (own >= 0) close(own);
    return names;
  }
  while (names.size() < most_names) {
    const dirent* const entry = readdir(folder);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(folder);
  return names;
}

std::string_view CheckpointPath::root() const {
  return root_ == nullptr ? std::string_view() : root_->path();
}

std::string LeadsOut(const CheckpointPath& path) {
  return fmt::format("a link that leads out of model_root ('{}')", path.root());
}

}  // namespace beamline
