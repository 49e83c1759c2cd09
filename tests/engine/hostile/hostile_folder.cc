#include "tests/engine/hostile/hostile_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/utf8.h"
#include "engine/loading/loaded_model.h"
#include "tests/engine/demo_engine.h"

namespace beamline {

using nlohmann::json;

namespace {

// Of one folder, on the processor: a busy machine is no fault of the folder's, and a hang ends at
// the test's time limit. Sanitizers take some twenty times as long, and memory of their own.
constexpr double kMaxSeconds = kSanitized ? 100 : 10;
constexpr int64_t kMaxMemoryKib = int64_t{1} << 20;

// The most that this process ever held.
int64_t PeakMemoryKib() {
  rusage usage = {};
  EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

}  // namespace

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

absl::Status HostileFolder::LoadFolder(const std::string& path, const std::string& root) {
  ModelOptions options;
  options.name = "hostile";
  options.folder = path;
  options.folder_root = root;
  options.device = "cpu";
  options.max_batch_tokens = 16;
  options.max_sequences = 1;
  options.cache_bytes = 1;
  const std::clock_t start = std::clock();
  absl::Status status = LoadedModel::Load(options, {.cpu = {.num_threads = 1}}).status();
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kMaxSeconds);
  if (!kSanitized) {
    EXPECT_LT(PeakMemoryKib(), kMaxMemoryKib);
  }
  return status;
}

void ExpectShortErrorWith(const absl::Status& status, std::string_view part) {
  ASSERT_FALSE(status.ok()) << "loaded, though an error with \"" << part << "\" is expected";
  const std::string message(status.message());
  EXPECT_THAT(message, testing::HasSubstr(std::string(part)));
  EXPECT_LT(message.size(), 480u) << message;  // "beamline-server: " comes before it
  EXPECT_FALSE(FindInvalidUtf8(message).has_value()) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

}  // namespace beamline
