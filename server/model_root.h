// The folder below which LoadModel finds models: no name leads out of it.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace beamline {

class ModelRoot {
 public:
  // `path` is a folder. INVALID_ARGUMENT naming model_root otherwise.
  static absl::StatusOr<ModelRoot> Open(const std::string& path);

  // The path of `folder`, which is below the root, and so is all that links in it lead to at this
  // moment: an early answer that names the fault. What holds the files below the root is that they
  // are opened beneath it (ModelOptions::folder_root). INVALID_ARGUMENT naming `folder` where it is
  // not below; NOT_FOUND when there is none.
  absl::StatusOr<std::string> Resolve(std::string_view folder) const;
  const std::string& path() const { return path_; }  // without links

 private:
  explicit ModelRoot(std::string path) : path_(std::move(path)) {}

  bool Holds(const std::string& path) const;
  absl::Status CheckLinks(std::string_view folder, const std::string& path) const;

  std::string path_;  // without links
};

}  // namespace beamline
