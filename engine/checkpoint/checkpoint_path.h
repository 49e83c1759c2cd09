// A path in a checkpoint folder, together with the root folder that it must not leave. All
// checkpoint files are opened through this type. A string does not convert to it implicitly, so the
// root cannot get lost on the way to a file.
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
  // A path named by the operator: opened normally, links may lead anywhere.
  explicit CheckpointPath(std::string path) : path_(std::move(path)) {}
  // A path that must stay below `root`, links included. INVALID_ARGUMENT or NOT_FOUND if the root
  // is not a folder. An empty root means no restriction.
  static absl::StatusOr<CheckpointPath> Beneath(const std::string& root, std::string path);

  const std::string& string() const { return path_; }
  CheckpointPath operator/(std::string_view name) const;

  // Opens the path for reading, without waiting for the other end of a pipe; `flags` as in open(2).
  // EXDEV: it leaves the root.
  OpenedPath OpenAny(int flags = 0) const;
  // The names in the folder without "." and "..", at most `most_names`; none if it cannot be read.
  std::vector<std::string> List(size_t most_names) const;
  // The root's path; empty if there is none.
  std::string_view root() const;

 private:
  std::shared_ptr<const RootFolder> root_;  // null: no root
  std::string path_;
};

// The error text for a path for which OpenAny returned EXDEV.
std::string LeadsOut(const CheckpointPath& path);

}  // namespace beamline
