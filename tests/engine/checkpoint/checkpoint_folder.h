// Checkpoint folders that a test writes for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace beamline {

// The bytes of a safetensors file with this header and `data_bytes` bytes of data.
std::string SafetensorsBytes(std::string_view header, size_t data_bytes);

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

// A valid file of float32 tensors, filled with small numbers that differ.
std::string SafetensorsOf(const std::vector<NamedShape>& tensors);

// A folder below the system's temporary one, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  // `name` may lie in a folder below, which is made.
  void Write(const std::string& name, std::string_view bytes) const;
  // A symbolic link to each file of `folder` and of the folders in it.
  void LinkFilesOf(const std::string& folder) const;
  // Takes a file, a link or a folder away.
  void Remove(const std::string& name) const;
  void WriteJson(const std::string& name, const nlohmann::json& value) const;

 private:
  std::string path_;
};

}  // namespace beamline
