// The folder that contains the models for LoadModel. No name leads out of it.
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

  // The path of `folder` below the root. It and all links in it must stay below the root now: this
  // check only gives an early error with a good message. The guarantee is that files are opened
  // beneath the root (ModelOptions::folder_root). INVALID_ARGUMENT naming `folder` if it is not
  // below the root; NOT_FOUND if it does not exist.
  absl::StatusOr<std::string> Resolve(std::string_view folder) const;
  const std::string& path() const { return path_; }  // links resolved

 private:
  explicit ModelRoot(std::string path) : path_(std::move(path)) {}

  bool Holds(const std::string& path) const;
  absl::Status CheckLinks(std::string_view folder, const std::string& path) const;

  std::string path_;  // links resolved
};

}  // namespace beamline
