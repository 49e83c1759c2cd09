#include "base/root_folder.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <deque>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr int kMostLinks = 40;  // as in Linux
// Limits the walk if links contain many "..".
constexpr int kMostNames = 20000;
// O_NONBLOCK: a named pipe must not wait for a writer.
constexpr int kEveryOpen = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// `path` relative to `root`; nullopt if it is not below it.
std::optional<std::string_view> Below(std::string_view root, std::string_view path) {
  if (!path.starts_with(root)) return std::nullopt;
  path.remove_prefix(root.size());
  if (!root.ends_with('/') && !path.empty() && path.front() != '/') return std::nullopt;
  const size_t begin = path.find_first_not_of('/');
  return begin == std::string_view::npos ? std::string_view(".") : path.substr(begin);
}

int OpenByKernel(int root, const std::string& relative, int flags) {
  open_how how = {};
  how.flags = static_cast<uint64_t>(flags);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, root, relative.c_str(), &how, sizeof(how)));
}

// Resolves one path name by name. For "..", the walk restarts from the root with the names up to
// there. The ".." of the open folder itself may be elsewhere if another process has moved it.
class Walk {
 public:
  Walk(int root, std::string_view root_path, int flags)
      : root_(root), root_path_(root_path), flags_(flags) {}

  OpenedPath Follow(std::string_view relative) {
    Prepend(relative);
    while (error_ == 0 && !pending_.empty()) {
      const std::string name = std::move(pending_.front());
      pending_.pop_front();
      if (++num_names_ > kMostNames) return {.error = ELOOP};
      if (name == "..") {
        LeaveFolder();
      } else if (FollowLink(name)) {
        continue;
      } else if (!pending_.empty()) {
        EnterFolder(name);
      } else {
        OpenedPath last = Last(name);
        if (last.error != ELOOP || !MayLookAgain()) return last;
        pending_.push_front(name);
      }
    }
    if (error_ == 0) return Last(".");
    return {.error = error_, .is_link = is_link_};
  }

 private:
  int folder() const { return folder_.get() < 0 ? root_ : folder_.get(); }

  void Prepend(std::string_view path) {
    std::vector<std::string> names;
    for (size_t begin = 0; begin < path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      const std::string_view name = path.substr(begin, end - begin);
      if (!name.empty() && name != ".") names.emplace_back(name);
      begin = end + 1;
    }
    // A slash at the end requires a folder.
    if (path.ends_with('/') && pending_.empty()) flags_ |= O_DIRECTORY;
    pending_.insert(pending_.begin(), names.begin(), names.end());
  }

  // The name was not a link before but is one now. Follow it, within the limit of links.
  bool MayLookAgain() { return ++num_links_ <= kMostLinks; }

  // Whether `name` is a link. If so, replaces it by its target.
  bool FollowLink(const std::string& name) {
    char target[PATH_MAX];
    const ssize_t size = readlinkat(folder(), name.c_str(), target, sizeof(target));
    if (size < 0) return false;  // the later open reports what it is
    if (pending_.empty()) is_link_ = true;
    if (!MayLookAgain()) {
      error_ = ELOOP;
    } else if (size == 0 || size == static_cast<ssize_t>(sizeof(target))) {
      error_ = size == 0 ? ENOENT : ENAMETOOLONG;
    } else if (target[0] != '/') {
      Prepend(std::string_view(target, static_cast<size_t>(size)));
    } else {
      FollowFromTop(std::string(target, static_cast<size_t>(size)));
    }
    return true;
  }

  // An absolute link may point below the root, by the root's path or by another path to it. Its
  // target is walked from the root like any other path.
  void FollowFromTop(const std::string& target) {
    std::optional<std::string_view> relative = Below(root_path_, target);
    std::error_code error;
    std::string canonical;
    if (!relative.has_value()) {
      canonical = std::filesystem::canonical(target, error).string();
      if (!error) relative = Below(root_path_, canonical);
    }
    if (!relative.has_value()) {
      error_ = EXDEV;
      return;
    }
    folder_ = ScopedFd();
    names_.clear();
    Prepend(*relative);
  }

  void EnterFolder(const std::string& name) {
    constexpr int kPassed = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    ScopedFd next(openat(folder(), name.c_str(), kPassed));
    if (next.get() < 0) {
      error_ = errno;
      struct stat info = {};
      const bool has_changed = error_ == ENOTDIR &&
                               fstatat(folder(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
                               (S_ISDIR(info.st_mode) || S_ISLNK(info.st_mode)) && MayLookAgain();
      if (!has_changed) return;
      error_ = 0;
      pending_.push_front(name);
      return;
    }
    folder_ = std::move(next);
    names_.push_back(name);
  }

  void LeaveFolder() {
    if (names_.empty()) {
      error_ = EXDEV;
      return;
    }
    pending_.insert(pending_.begin(), names_.begin(), names_.end() - 1);
    names_.clear();
    folder_ = ScopedFd();
  }

  // ELOOP if it is a link.
  OpenedPath Last(const std::string& name) {
    ScopedFd fd(openat(folder(), name.c_str(), flags_ | O_NOFOLLOW));
    int error = fd.get() < 0 ? errno : 0;
    struct stat info = {};
    if ((flags_ & O_PATH) != 0 && error == 0 && fstat(fd.get(), &info) == 0 &&
        S_ISLNK(info.st_mode)) {
      fd = ScopedFd();
      error = ELOOP;
    }
    return {.fd = std::move(fd), .error = error, .is_link = is_link_};
  }

  const int root_;
  const std::string_view root_path_;
  int flags_;
  std::deque<std::string> pending_;  // remaining names of the path
  std::vector<std::string> names_;   // names of the folders down to folder()
  ScopedFd folder_;                  // none: at the root
  int num_links_ = 0;
  int num_names_ = 0;
  bool is_link_ = false;
  int error_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RootFolder>> RootFolder::Open(std::string_view what,
                                                                   const std::string& path,
                                                                   Way way) {
  ScopedFd fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) {
    const int error = errno;
    const std::string message = fmt::format("{} is '{}', which cannot be opened as a folder: {}",
                                            what, path, std::generic_category().message(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  return std::shared_ptr<const RootFolder>(new RootFolder(path, std::move(fd), way));
}

OpenedPath RootFolder::OpenBeneath(const std::string& path, int flags) const {
  flags |= kEveryOpen;
  // openat2 refuses flag combinations that open ignores.
  if ((flags & O_PATH) != 0) flags &= O_PATH | O_CLOEXEC | O_DIRECTORY;
  const std::optional<std::string_view> relative = Below(path_, path);
  if (!relative.has_value()) return {.error = EXDEV};
  if (way_ == Way::kKernel) {
    ScopedFd fd(OpenByKernel(fd_.get(), std::string(*relative), flags));
    if (fd.get() >= 0) return {.fd = std::move(fd)};
    // The walk handles paths that openat2 cannot open. openat2 refuses absolute links, may fail
    // with EAGAIN during a rename, and is missing in old kernels and some sandboxes.
  }
  return Walk(fd_.get(), path_, flags).Follow(*relative);
}

}  // namespace beamline
