// What is refused of quantised checkpoints: keys of quantization_config by name, tensors whose
// types, shapes or values are out of range.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "kernels/float16.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::faulty_weights_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A copy of a golden checkpoint, to be changed.
class FaultyWeightsTest : public ::testing::Test {
 protected:
  void Copy(const std::string& name) {
    source_ = std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/random/" + name;
    config_ = json::parse(ReadFile(source_ + "/config.json"));
    weights_ = ReadFile(source_ + "/model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, weights_.data(), sizeof(length));
    header_ = json::parse(weights_.substr(8, length));
    data_ = weights_.substr(8 + length);
  }

  json& quantization() { return config_["quantization_config"]; }

  // Bytes of a tensor in data_.
  char* Bytes(const std::string& name, size_t offset = 0) {
    return data_.data() + header_.at(name)["data_offsets"][0].get<size_t>() + offset;
  }
  void Rename(const std::string& from, const std::string& to) {
    header_[to] = header_.at(from);
    header_.erase(from);
  }
  template <typename Value>
  void Store(const std::string& name, Value value) {
    std::memcpy(Bytes(name), &value, sizeof(value));
  }

  // What opening says, and reading `weight` where that succeeds.
  std::string Error(const std::string& weight = "") {
    TemporaryFolder folder;
    folder.WriteJson("config.json", config_);
    const std::string header = header_.dump();
    const uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
    folder.Write("model.safetensors", bytes + header + data_);
    const auto checkpoint = Checkpoint::Open(folder.path());
    if (!checkpoint.ok()) return checkpoint.status().ToString();
    if (weight.empty()) return "";
    return (*checkpoint)->Read(weight).status().ToString();
  }
  std::string ErrorOf(const std::string& key, const json& value) {
    const json before = quantization();
    quantization()[key] = value;
    std::string error = Error();
    quantization() = before;
    return error;
  }

  std::string source_, weights_, data_;
  json config_, header_;
};

constexpr const char* kModule = "model.layers.0.mlp.up_proj";
const std::string kWeight = std::string(kModule) + ".weight";

TEST_F(FaultyWeightsTest, UnknownMethodsNameWhatIsRead) {
  Copy("llama-4of2x16-awq");
  EXPECT_EQ(Error(kWeight), "OK");
  EXPECT_THAT(ErrorOf("quant_method", "aqlm"),
              HasSubstr("quantization_config.quant_method is \"aqlm\"; accepted: awq, "));
  EXPECT_THAT(ErrorOf("quant_method", 4), HasSubstr("quant_method is 4; accepted: awq, "));
  config_["quantization_config"] = 7;
  EXPECT_THAT(Error(), HasSubstr("quantization_config.quant_method is missing; accepted: awq"));
}

TEST_F(FaultyWeightsTest, OfAwq) {
  Copy("llama-4of2x16-awq");
  EXPECT_THAT(ErrorOf("bits", 8), HasSubstr("quantization_config.bits is 8; accepted: 4"));
  EXPECT_THAT(ErrorOf("version", "gemv"), HasSubstr("version is \"gemv\"; accepted: gemm"));
  EXPECT_THAT(ErrorOf("group_size", 0), HasSubstr("group_size is 0; accepted: -1, 1 to"));
  EXPECT_THAT(ErrorOf("group_size", 40), HasSubstr("no multiple of the group_size 40"));
  EXPECT_THAT(ErrorOf("group_size", 16), HasSubstr("shape [6, 64] is expected"));
  Store(std::string(kModule) + ".scales", ToFloat16(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_THAT(Error(kWeight), HasSubstr("up_proj.scales\": scale 0 is nan; accepted: finite"));
  Store(std::string(kModule) + ".scales", uint16_t{0});
  EXPECT_THAT(Error(kWeight), HasSubstr("scale 0 is 0; accepted: finite numbers other than 0"));
  Rename(std::string(kModule) + ".scales", std::string(kModule) + ".scalez");
  EXPECT_THAT(Error(), HasSubstr("no tensor \"model.layers.0.mlp.up_proj.scales\""));
}

TEST_F(FaultyWeightsTest, OfGptq) {
  Copy("llama-4of2x16-gptq");
  EXPECT_EQ(Error(kWeight), "OK");
  EXPECT_THAT(ErrorOf("bits", 5), HasSubstr("bits is 5; accepted: 2, 3, 4, 8"));
  EXPECT_THAT(ErrorOf("checkpoint_format", "marlin"),
              HasSubstr("checkpoint_format is \"marlin\"; accepted: gptq, gptq_v2"));
  const std::string g_idx = std::string(kModule) + ".g_idx";
  Store(g_idx, int32_t{2});
  EXPECT_THAT(Error(kWeight), HasSubstr("g_idx\": group 2 of input 0; accepted: 0 to 1"));
  Store(g_idx, int32_t{-1});
  EXPECT_THAT(Error(kWeight), HasSubstr("group -1 of input 0; accepted: 0 to 1"));
  Rename(g_idx, std::string(kModule) + ".h_idx");
  EXPECT_EQ(Error(kWeight), "OK");
  EXPECT_THAT(ErrorOf("group_size", 16), HasSubstr("scales\": shape [4, 96] is expected"));
}

TEST_F(FaultyWeightsTest, OfPackedIntegers) {
  Copy("llama-4of2x16-w4a16");
  EXPECT_EQ(Error(kWeight), "OK");
  EXPECT_THAT(ErrorOf("format", "marlin-24"), HasSubstr("format is \"marlin-24\"; accepted: pack"));
  EXPECT_THAT(ErrorOf("quantization_status", "frozen"), HasSubstr("accepted: \"compressed\""));
  EXPECT_THAT(ErrorOf("new_key", 1), HasSubstr("unknown key \"new_key\""));
  const json groups = quantization()["config_groups"];
  const auto with = [&](const char* key, const json& value) {
    json changed = groups;
    changed["group_0"]["weights"][key] = value;
    return ErrorOf("config_groups", changed);
  };
  EXPECT_THAT(with("num_bits", 9), HasSubstr("group_0.weights.num_bits is 9; accepted: 1 to 8"));
  EXPECT_THAT(with("num_bits", 3), HasSubstr("weight_packed\": shape [64, 9] is expected"));
  EXPECT_THAT(with("type", "nf"), HasSubstr("type is \"nf\"; accepted: int, float"));
  EXPECT_THAT(with("strategy", "token"), HasSubstr("strategy is \"token\"; accepted: tensor, "));
  EXPECT_THAT(with("group_size", 40), HasSubstr("96 inputs are no multiple of the group_size 40"));
  EXPECT_THAT(with("symmetric", false), HasSubstr("no tensor"));
  json changed = groups;
  changed["group_0"]["targets"] = {"re:(("};
  EXPECT_THAT(ErrorOf("config_groups", changed), HasSubstr("a regular expression of RE2"));
  changed["group_0"]["targets"] = {"re:.*mlp.*"};
  EXPECT_THAT(ErrorOf("config_groups", changed), HasSubstr("has no target for \"model.layers.0."));
  const std::string shape = std::string(kModule) + ".weight_shape";
  Store(shape, int64_t{-96});
  EXPECT_THAT(Error(), HasSubstr("weight_shape\": holds -96 x 64; accepted: 1 to"));
}

TEST_F(FaultyWeightsTest, OfFloat8) {
  Copy("llama-4of2x16-fp8-blocks");
  EXPECT_EQ(Error(kWeight), "OK");
  EXPECT_THAT(ErrorOf("weight_block_size", json({128})), HasSubstr("accepted: two sizes"));
  EXPECT_THAT(ErrorOf("weight_block_size", json({20, 40})),
              HasSubstr("is expected by quantization_config"));
  EXPECT_THAT(ErrorOf("fmt", "e5m2"), HasSubstr("fmt is \"e5m2\"; accepted: e4m3"));
  Store(kWeight, uint8_t{0xff});
  EXPECT_THAT(Error(kWeight), HasSubstr("up_proj.weight\": holds NaN or infinity"));
}

TEST_F(FaultyWeightsTest, OfBitsandbytes) {
  Copy("llama-4of2x16-nf4");
  EXPECT_EQ(Error(kWeight), "OK");
  EXPECT_THAT(ErrorOf("load_in_4bit", false), HasSubstr("load_in_4bit is false; accepted: true"));
  const std::string state = kWeight + ".quant_state.bitsandbytes__nf4";
  *Bytes(state) = '[';
  EXPECT_THAT(Error(), HasSubstr("bitsandbytes__nf4\": "));
  *Bytes(state) = '{';
  Store(kWeight + ".quant_map", std::numeric_limits<float>::infinity());
  EXPECT_THAT(Error(kWeight), HasSubstr("quant_map\": holds NaN or infinity"));
}

}  // namespace
}  // namespace beamline::faulty_weights_test
