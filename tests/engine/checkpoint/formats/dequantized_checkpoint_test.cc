// Quantised checkpoints of each format's own library (tools/make_quantized_golden): their weights
// to the bit, and what is refused of changed ones.
#include "engine/checkpoint/formats/dequantized_checkpoint.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/golden/golden_rows.h"

namespace beamline::dequantized_checkpoint_test {
namespace {

using nlohmann::json;

class DequantizedCheckpointTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string folder() const {
    return std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/random/" + GetParam();
  }
};

TEST_P(DequantizedCheckpointTest, WeightsAreThoseOfTheReference) {
  const json weights = GoldenFile(std::string("random/") + GetParam() + "/weights.json");
  ASSERT_FALSE(weights.empty());
  const auto checkpoint = Checkpoint::Open(folder());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (const auto& [name, expected] : weights.items()) {
    const auto described = (*checkpoint)->Find(name);
    ASSERT_TRUE(described.ok()) << described.status();
    EXPECT_EQ(described->data, nullptr);
    EXPECT_EQ(json(described->shape), expected["shape"]) << name;
    const auto tensor = (*checkpoint)->Read(name);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(std::string(Name(tensor->dtype)), expected["dtype"] == "F16"    ? "float16"
                                                : expected["dtype"] == "BF16" ? "bfloat16"
                                                                              : "float32")
        << name;
    const auto crc =
        crc32(0, static_cast<const Bytef*>(tensor->data), static_cast<uInt>(tensor->size));
    EXPECT_EQ(crc, expected["crc32"].get<uint32_t>()) << name;
  }
}

TEST_P(DequantizedCheckpointTest, OtherTensorsAreAsStored) {
  const json weights = GoldenFile(std::string("random/") + GetParam() + "/weights.json");
  const auto checkpoint = Checkpoint::Open(folder());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  size_t num_others = 0;
  for (const std::string& name : (*checkpoint)->TensorNames()) {
    if (weights.contains(name)) continue;
    ++num_others;
    const auto tensor = (*checkpoint)->Read(name), stored = (*checkpoint)->stored().Find(name);
    ASSERT_TRUE(tensor.ok() && stored.ok()) << name;
    EXPECT_EQ(tensor->data, stored->data);
  }
  EXPECT_EQ((*checkpoint)->TensorNames().size(), weights.size() + num_others);
  EXPECT_GT(num_others, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, DequantizedCheckpointTest,
    ::testing::Values("gpt2-4x16-gptq", "llama-4of2x16-awq", "llama-4of2x16-fbgemm",
                      "llama-4of2x16-fp4", "llama-4of2x16-fp8", "llama-4of2x16-fp8-blocks",
                      "llama-4of2x16-gptq", "llama-4of2x16-gptq3", "llama-4of2x16-gptq8",
                      "llama-4of2x16-int8", "llama-4of2x16-mixed", "llama-4of2x16-modelopt",
                      "llama-4of2x16-nf4", "llama-4of2x16-w4a16", "llama-4of2x16-w4a16-zeros",
                      "llama-4of2x16-w8", "qwen3_moe-4of2x16-w4a16"));

}  // namespace
}  // namespace beamline::dequantized_checkpoint_test
