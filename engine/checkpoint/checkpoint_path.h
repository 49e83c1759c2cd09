// A path of a checkpoint folder, and beneath what it must stay when it is opened. Files of a
// checkpoint are opened by such paths alone, which a text does not become by itself, so that no
// bound gets lost on the way to a file.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/root_folder.h"

namespace beamline {

class CheckpointPath {
 public:
  // A path that the operator names: opened as the system opens it, wherever links lead.
  explicit CheckpointPath(std::string path) : path_(std::move(path)) {}
  // Opened beneath `root`, links included, and nowhere else. INVALID_ARGUMENT or NOT_FOUND when the
  // root is no folder. An empty root is none.
  static absl::StatusOr<CheckpointPath> Beneath(const std::string& root, std::string path);

  const std::string& string() const { return path_; }
  CheckpointPath operator/(std::string_view name) const;

  // Opens it to read, without waiting for the other end of a pipe; `flags` as of open(2). EXDEV:
  // it leads out of the root.
  OpenedPath OpenAny(int flags = 0) const;
  // The names in the folder, without "." and ".."; none when it cannot be read, at most
  // `most_names`.
  std::vector<std::string> List(size_t most_names) const;
  // The root's path; empty without one.
  std::string_view root() const;

 private:
  std::shared_ptr<const RootFolder> root_;  // null: the whole system
  std::string path_;
};

// What an error says of a path for which OpenAny answered EXDEV.
std::string LeadsOut(const CheckpointPath& path);

}  // namespace beamline
