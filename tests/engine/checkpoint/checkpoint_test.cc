#include "engine/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::checkpoint_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_.Write("config.json", "{}"); }

  std::string OpenError() const {
    const auto checkpoint = Checkpoint::Open(folder_.path());
    return checkpoint.ok() ? "" : std::string(checkpoint.status().message());
  }

  void WriteShards(const json& weight_map) const {
    folder_.Write("model-1.safetensors", SafetensorsOf({{"a", {2}}}));
    folder_.Write("model-2.safetensors", SafetensorsOf({{"b", {3}}, {"c", {1}}}));
    folder_.WriteJson("model.safetensors.index.json", json{{"weight_map", weight_map}});
  }

  const TemporaryFolder folder_;
  const json shards_ = {
      {"a", "model-1.safetensors"}, {"b", "model-2.safetensors"}, {"c", "model-2.safetensors"}};
};

TEST_F(CheckpointTest, ReadsASingleFile) {
  folder_.WriteJson("config.json", json{{"model_type", "x"}});
  folder_.WriteJson("generation_config.json", json{{"num_beams", 4}});
  folder_.Write("model.safetensors", SafetensorsOf({{"b", {2, 3}}, {"a", {1}}}));
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->config(), json({{"model_type", "x"}}));
  EXPECT_EQ((*checkpoint)->generation_config(), json({{"num_beams", 4}}));
  EXPECT_THAT((*checkpoint)->TensorNames(), ElementsAre("a", "b"));
  const auto tensor = (*checkpoint)->Find("b");
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->shape, std::vector<int64_t>({2, 3}));
  EXPECT_EQ(tensor->size, 24u);
  EXPECT_EQ(static_cast<const float*>(tensor->data)[1], 0.07f);
  EXPECT_TRUE((*checkpoint)->Contains("a"));
  EXPECT_FALSE((*checkpoint)->Contains("c"));
  EXPECT_EQ((*checkpoint)->Find("c").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string((*checkpoint)->Find("c").status().message()),
              HasSubstr("no tensor \"c\""));
}

TEST_F(CheckpointTest, ReadsShards) {
  WriteShards(shards_);
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->TensorNames(), ElementsAre("a", "b", "c"));
  EXPECT_EQ((*checkpoint)->Find("b")->size, 12u);
  EXPECT_TRUE((*checkpoint)->generation_config().empty());
}

TEST_F(CheckpointTest, AlignsTensors) {
  std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  if (header.size() % 2 == 0) header += ' ';  // the data start at an odd address
  std::string bytes = SafetensorsBytes(header, 0);
  const float values[2] = {1.5f, -2.0f};
  bytes.append(reinterpret_cast<const char*>(values), sizeof(values));
  folder_.Write("model.safetensors", bytes);
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto tensor = (*checkpoint)->Find("a");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data) % alignof(float), 0u);
  EXPECT_EQ(std::memcmp(tensor->data, values, sizeof(values)), 0);
}

TEST_F(CheckpointTest, KeepsTensorsOfOtherTypesUntilTheyAreUsed) {
  folder_.Write("model.safetensors",
                SafetensorsBytes(R"({"m":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2));
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->TensorNames(), ElementsAre("m"));
  const absl::Status status = (*checkpoint)->Find("m").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("model.safetensors: tensor \"m\": dtype BOOL is not supported"));
}

TEST_F(CheckpointTest, NamesAMissingFolder) {
  const auto checkpoint = Checkpoint::Open(folder_.path() + "/none");
  EXPECT_EQ(checkpoint.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(checkpoint.status().message()), HasSubstr("/none: no such folder"));
}

TEST_F(CheckpointTest, NamesAMissingConfig) {
  std::filesystem::remove(folder_.path() + "/config.json");
  EXPECT_THAT(OpenError(), HasSubstr("config.json: no such file"));
}

TEST_F(CheckpointTest, NamesFaultsOfConfigFiles) {
  folder_.Write("config.json", R"({"a": nul})");
  EXPECT_THAT(OpenError(), HasSubstr("config.json: not valid JSON at byte 10"));
  folder_.Write("config.json", "[1]");
  EXPECT_THAT(OpenError(), HasSubstr("config.json: a JSON object is expected, found array"));
  folder_.Write("config.json", R"({"a": 1, "a": 2})");
  EXPECT_THAT(OpenError(), HasSubstr("the name \"a\" appears twice"));
  folder_.Write("config.json", "{}");
  folder_.Write("generation_config.json", "{");
  EXPECT_THAT(OpenError(), HasSubstr("generation_config.json: not valid JSON at byte"));
}

TEST_F(CheckpointTest, NamesMissingWeights) {
  EXPECT_THAT(OpenError(), HasSubstr("neither model.safetensors nor model.safetensors.index.json"));
  folder_.Write("pytorch_model.bin", "x");
  EXPECT_THAT(OpenError(), HasSubstr("convert it to safetensors: tools/convert_weights FOLDER"));
}

TEST_F(CheckpointTest, NamesTheFaultyWeightFile) {
  folder_.Write("model.safetensors", "");
  EXPECT_THAT(OpenError(), HasSubstr(folder_.path() + "/model.safetensors: 0 bytes"));
}

TEST_F(CheckpointTest, RefusesWhatIsNoFile) {
  ASSERT_EQ(mkfifo((folder_.path() + "/model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(OpenError(), HasSubstr("model.safetensors: not a regular file"));
}

TEST_F(CheckpointTest, FollowsLinksToFiles) {
  folder_.Write("blobs/1", SafetensorsOf({{"a", {2}}}));
  std::filesystem::create_symlink("blobs/1", folder_.path() + "/model.safetensors");
  EXPECT_EQ(OpenError(), "");
  folder_.Remove("blobs");
  EXPECT_THAT(OpenError(), HasSubstr("model.safetensors: a symbolic link to a file that is not"));
}

TEST_F(CheckpointTest, RefusesWhatFollowsTheJson) {
  folder_.Write("model.safetensors", SafetensorsOf({}));
  for (const std::string& behind :
       {std::string(1, '\0'), std::string("\0x", 2), std::string("x"), std::string("{}")}) {
    folder_.Write("config.json", "{}" + behind);
    EXPECT_THAT(OpenError(), HasSubstr("config.json: not valid JSON at byte 3"));
  }
}

TEST_F(CheckpointTest, RefusesAdaptersBesideAModel) {
  folder_.Write("model.safetensors", SafetensorsOf({{"a", {2}}}));
  folder_.Write("adapter_config.json", "{}");
  EXPECT_THAT(OpenError(), HasSubstr("adapter_config.json: a LoRA or PEFT adapter"));
}

TEST_F(CheckpointTest, AsksForTheConfigBeforeTheWeights) {
  const auto check = [](const json&) { return absl::UnimplementedError("config.json: no"); };
  const auto checkpoint = Checkpoint::Open(folder_.path(), check);
  EXPECT_EQ(checkpoint.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(std::string(checkpoint.status().message()), folder_.path() + "/config.json: no");
}

TEST_F(CheckpointTest, NamesFaultsOfTheIndex) {
  folder_.WriteJson("model.safetensors.index.json", json::object());
  EXPECT_THAT(OpenError(), HasSubstr("index.json: no weight_map object"));

  for (const char* name : {"../model-1.safetensors", "/etc/passwd", "..", ".", "", "a\\b"}) {
    json map = shards_;
    map["a"] = name;
    WriteShards(map);
    EXPECT_THAT(OpenError(), HasSubstr("is not the name of a file in the folder")) << name;
  }
  json map = shards_;
  map["a"] = 5;
  WriteShards(map);
  EXPECT_THAT(OpenError(), HasSubstr("tensor \"a\": 5 is not the name of a file"));
  map = shards_;
  map["d"] = "model-3.safetensors";
  WriteShards(map);
  EXPECT_THAT(OpenError(), HasSubstr("model-3.safetensors"));
  map = shards_;
  map["d"] = "model-2.safetensors";
  WriteShards(map);
  EXPECT_THAT(OpenError(), HasSubstr("tensor \"d\" is not in model-2.safetensors"));
  map = shards_;
  map["a"] = "model-2.safetensors";
  map["b"] = "model-1.safetensors";
  WriteShards(map);
  EXPECT_THAT(OpenError(), HasSubstr("tensor \"a\" is not in model-2.safetensors"));
  map = shards_;
  map.erase("c");
  WriteShards(map);
  EXPECT_THAT(OpenError(), HasSubstr("tensor \"c\" is missing in model.safetensors.index.json"));
}

TEST_F(CheckpointTest, RefusesATensorInTwoShards) {
  WriteShards(shards_);
  folder_.Write("model-1.safetensors", SafetensorsOf({{"a", {2}}, {"b", {3}}}));
  EXPECT_THAT(OpenError(), HasSubstr("tensor \"b\" is in model-1.safetensors too"));
}

}  // namespace
}  // namespace beamline::checkpoint_test
