// A checkpoint folder made of links to another folder's files and of files of the test's own.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/engine/checkpoint/checkpoint_folder.h"
#include "tests/engine/demo_engine.h"

namespace beamline {

class LinkedModel {
 public:
  // `folder`: below the source tree.
  explicit LinkedModel(const std::string& folder)
      : original_(std::filesystem::path(BEAMLINE_SOURCE_DIR) / folder) {
    for (const auto& entry : std::filesystem::directory_iterator(original_)) Link(entry.path());
  }

  // Another folder's file besides.
  void Link(const std::filesystem::path& file) const {
    std::filesystem::create_symlink(file, Path(file.filename()));
  }
  // Instead of a link, or besides.
  void Write(const std::string& name, const nlohmann::json& value) const {
    std::filesystem::remove(Path(name));
    folder_.WriteJson(name, value);
  }
  // The original's file with these keys set.
  void Change(const std::string& name, const nlohmann::json& keys) const {
    nlohmann::json value = nlohmann::json::parse(std::ifstream(original_ / name));
    value.update(keys);
    Write(name, value);
  }

  // Instead of a link: a file of these bytes.
  void WriteBytes(const std::string& name, const std::string& bytes) const {
    std::filesystem::remove(Path(name));
    folder_.Write(name, bytes);
  }

  ModelOptions Options(const std::string& name) const {
    ModelOptions options;
    options.name = name;
    options.folder = folder_.path();
    options.device = TestDevice();
    options.dtype = ExactType();
    options.max_sequences = 64;  // many small models share a device
    options.cache_bytes = 16 << 20;
    return options;
  }

 private:
  std::filesystem::path Path(const std::filesystem::path& name) const {
    return std::filesystem::path(folder_.path()) / name;
  }

  const std::filesystem::path original_;
  const TemporaryFolder folder_;
};

inline absl::StatusOr<std::unique_ptr<Engine>> Serve(std::vector<ModelOptions> models,
                                                     EngineObserver* observer = nullptr) {
  EngineOptions options = TestEngineOptions();
  options.models = std::move(models);
  return Engine::Create(options, observer);
}

}  // namespace beamline
