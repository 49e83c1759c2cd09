// Demo models with something broken in them, loaded as the server loads them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline {

// A folder of links to a demo model's files, some of which a test replaces.
class HostileFolder {
 public:
  explicit HostileFolder(const std::string& model);

  const TemporaryFolder& files() const { return files_; }
  std::string Path(const std::string& file) const { return files_.path() + "/" + file; }
  std::string Read(const std::string& file) const;
  nlohmann::json ReadJson(const std::string& file) const;
  // Replaces the value at `pointer` of a JSON file; null takes the member away.
  void Patch(const std::string& file, const std::string& pointer, const nlohmann::json& value);

  // Loads a model on the CPU with the least of caches and batches; within 10 s and 1 GiB, else the
  // test fails.
  absl::Status Load() const { return LoadFolder(files_.path()); }
  // Beneath `root`, where there is one.
  static absl::Status LoadFolder(const std::string& path, const std::string& root = "");

 private:
  TemporaryFolder files_;
};

// Fails the test unless `status` is an error of one short line of UTF-8 that contains `part`.
void ExpectShortErrorWith(const absl::Status& status, std::string_view part);

}  // namespace beamline
