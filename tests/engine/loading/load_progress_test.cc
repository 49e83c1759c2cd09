#include "engine/loading/load_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/loading/loading_checkpoint.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::load_progress_test {
namespace {

using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class LoadProgressTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::vector<NamedShape> tensors;
    for (int i = 0; i < 8; ++i) tensors.push_back({"tensor" + std::to_string(i), {100, 1000}});
    folder_.WriteJson("config.json", nlohmann::json::object());
    folder_.Write("model.safetensors", SafetensorsOf(tensors));
    auto opened = Checkpoint::Open(folder_.path());
    ASSERT_TRUE(opened.ok()) << opened.status();
    checkpoint_ = *std::move(opened);
  }

  // What is told while all tensors are asked for, some of them twice.
  std::vector<std::string> LinesOf(int64_t least_bytes) {
    std::vector<std::string> lines;
    LoadProgress progress(
        *checkpoint_, [&](const std::string& line) { lines.push_back(line); }, least_bytes);
    const LoadingCheckpoint loading(*checkpoint_, /*stop=*/nullptr, &progress);
    for (const std::string& name : loading.TensorNames()) {
      EXPECT_TRUE(loading.Find(name).ok());
      EXPECT_TRUE(loading.Find("tensor0").ok());
    }
    return lines;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(LoadProgressTest, TellsEachTenthOnce) {
  const std::vector<std::string> lines = LinesOf(/*least_bytes=*/1);
  ASSERT_EQ(lines.size(), 7u);  // eighths, before the tensor behind each
  EXPECT_THAT(lines[0], MatchesRegex("read 10% of 0.00 GB of weights in [0-9.]+ s"));
  EXPECT_THAT(lines[3], MatchesRegex("read 50% of .*"));
  EXPECT_THAT(lines[6], MatchesRegex("read 80% of .*"));
}

TEST_F(LoadProgressTest, SaysNothingOfSmallOnes) {
  EXPECT_THAT(LinesOf(LoadProgress::kLeastBytes), IsEmpty());
}

// The pages of a released tensor come back with the same values.
TEST_F(LoadProgressTest, ReleasedTensorsAreReadAgain) {
  const auto tensor = checkpoint_->Find("tensor3");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  std::vector<std::byte> before(tensor->size);
  std::memcpy(before.data(), tensor->data, tensor->size);
  checkpoint_->Release(*tensor);
  EXPECT_EQ(std::memcmp(before.data(), tensor->data, tensor->size), 0);
}

}  // namespace
}  // namespace beamline::load_progress_test
