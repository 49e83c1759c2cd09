#include "tests/engine/checkpoint/checkpoint_folder.h"

#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/check.h"

namespace beamline {

std::string SafetensorsBytes(std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes += header;
  bytes.append(data_bytes, '\1');
  return bytes;
}

std::string SafetensorsOf(const std::vector<NamedShape>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const NamedShape& tensor : tensors) {
    size_t count = 1;
    for (const int64_t extent : tensor.shape) count *= static_cast<size_t>(extent);
    const size_t begin = data.size();
    for (size_t i = 0; i < count; ++i) {
      const float value = 0.01f * static_cast<float>((begin + 7 * i) % 13);
      data.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  return SafetensorsBytes(header.dump(), 0) + data;
}

TemporaryFolder::TemporaryFolder() {
  path_ = (std::filesystem::temp_directory_path() / "beamline_test_XXXXXX").string();
  BEAMLINE_CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

void TemporaryFolder::Write(const std::string& name, std::string_view bytes) const {
  const std::filesystem::path path = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(path.parent_path());
  // Not through a link into the folder that LinkFilesOf linked to.
  if (std::filesystem::is_symlink(path)) std::filesystem::remove(path);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  BEAMLINE_CHECK(file.good());
}

void TemporaryFolder::LinkFilesOf(const std::string& folder) const {
  namespace fs = std::filesystem;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const fs::path name = fs::path(path_) / fs::relative(entry.path(), folder);
    if (entry.is_directory()) {
      fs::create_directories(name);
    } else {
      fs::create_symlink(fs::canonical(entry.path()), name);
    }
  }
}

void TemporaryFolder::Remove(const std::string& name) const {
  std::filesystem::remove_all(std::filesystem::path(path_) / name);
}

void TemporaryFolder::WriteJson(const std::string& name, const nlohmann::json& value) const {
  Write(name, value.dump());
}

}  // namespace beamline
