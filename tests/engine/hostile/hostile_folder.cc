#include "tests/engine/hostile/hostile_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/pool/loaded_model.h"
#include "engine/text/utf8.h"

namespace beamline {

using nlohmann::json;

HostileFolder::HostileFolder(const std::string& model) {
  files_.LinkFilesOf(std::string(BEAMLINE_SOURCE_DIR) + "/models/" + model);
}

std::string HostileFolder::Read(const std::string& file) const {
  std::ifstream stream(Path(file), std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

json HostileFolder::ReadJson(const std::string& file) const { return json::parse(Read(file)); }

void HostileFolder::Patch(const std::string& file, const std::string& pointer, const json& value) {
  json object = ReadJson(file);
  if (value.is_null()) {
    object = object.patch({{{"op", "remove"}, {"path", pointer}}});
  } else {
    object[json::json_pointer(pointer)] = value;
  }
  files_.WriteJson(file, object);
}

absl::Status HostileFolder::LoadFolder(const std::string& path) {
  ModelOptions options;
  options.name = "hostile";
  options.folder = path;
  options.device = "cpu";
  options.max_batch_tokens = 16;
  options.max_sequences = 1;
  options.cache_bytes = 1;
  return LoadedModel::Load(options, {.num_threads = 1}).status();
}

void ExpectShortErrorWith(const absl::Status& status, std::string_view part) {
  ASSERT_FALSE(status.ok()) << "loaded, though an error with \"" << part << "\" is expected";
  const std::string message(status.message());
  EXPECT_THAT(message, testing::HasSubstr(std::string(part)));
  EXPECT_LT(message.size(), 480u) << message;  // "beamline-server: " comes before it
  EXPECT_FALSE(text::FindInvalidUtf8(message).has_value()) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

}  // namespace beamline
