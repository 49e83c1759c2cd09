#include "kernels/cuda/epilogues/algorithm_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace beamline::cuda::algorithm_file_test {
namespace {

constexpr uint64_t kLibrary = 130100;

AlgorithmKey Key(int64_t number) {
  AlgorithmKey key;
  for (size_t i = 0; i < key.fields.size(); ++i) key.fields[i] = number * 100 + static_cast<int>(i);
  return key;
}
AlgorithmBits Bits(uint64_t number) {
  AlgorithmBits bits;
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = ~number << i;
  return bits;
}

class AlgorithmFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/beamline-algorithms-XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/choices";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  AlgorithmFile Open(const std::string& device = "NVIDIA H200", uint64_t library = kLibrary) const {
    return {path_, device, library};
  }

  std::string folder_, path_;
};

TEST_F(AlgorithmFileTest, ChoicesComeBack) {
  AlgorithmFile file = Open();
  ASSERT_TRUE(file.Load().ok());
  ASSERT_TRUE(file.Add(Key(1), Bits(1)).ok());
  ASSERT_TRUE(file.Add(Key(-2), Bits(2)).ok());
  AlgorithmFile again = Open();
  ASSERT_TRUE(again.Load().ok());
  EXPECT_EQ(again.size(), 2u);
  ASSERT_NE(again.Find(Key(-2)), nullptr);
  EXPECT_EQ(*again.Find(Key(-2)), Bits(2));
  EXPECT_EQ(again.Find(Key(3)), nullptr);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);  // no left-overs
}

TEST_F(AlgorithmFileTest, GpusAndVersionsShareAFile) {
  AlgorithmFile h200 = Open(), a100 = Open("NVIDIA A100"), newer = Open("NVIDIA H200", 130200);
  ASSERT_TRUE(h200.Add(Key(1), Bits(1)).ok());
  ASSERT_TRUE(a100.Add(Key(1), Bits(2)).ok());
  ASSERT_TRUE(newer.Add(Key(1), Bits(3)).ok());
  ASSERT_TRUE(h200.Add(Key(4), Bits(4)).ok());
  AlgorithmFile again = Open("NVIDIA A100");
  ASSERT_TRUE(again.Load().ok());
  EXPECT_EQ(again.size(), 1u);
  EXPECT_EQ(*again.Find(Key(1)), Bits(2));
  AlgorithmFile other = Open("NVIDIA L4");
  EXPECT_EQ(other.Load().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(other.size(), 0u);
  ASSERT_TRUE(Open().Load().ok());
}

// Two processes that measured different products.
TEST_F(AlgorithmFileTest, WritersKeepEachOthersChoices) {
  AlgorithmFile first = Open(), second = Open();
  ASSERT_TRUE(first.Load().ok());
  ASSERT_TRUE(second.Load().ok());
  ASSERT_TRUE(first.Add(Key(1), Bits(1)).ok());
  ASSERT_TRUE(second.Add(Key(2), Bits(2)).ok());
  AlgorithmFile again = Open();
  ASSERT_TRUE(again.Load().ok());
  EXPECT_EQ(again.size(), 2u);
}

TEST_F(AlgorithmFileTest, DamageIsFoundWhereverItIs) {
  AlgorithmFile file = Open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(file.Add(Key(i), Bits(i)).ok());
  const std::string good = Text();
  const size_t first_line = good.find('\n');
  for (size_t at = first_line + 1; at + 1 < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = bad[at] == '3' ? '4' : '3';
    Write(bad);
    AlgorithmFile damaged = Open();
    const absl::Status status = damaged.Load();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << at << ": " << status;
    EXPECT_EQ(damaged.size(), 0u);
  }
  for (size_t size = first_line + 2; size + 1 < good.size(); size += 11) {
    Write(good.substr(0, size));
    AlgorithmFile cut = Open();
    // Between two lines nothing tells a cut: what is there is whole.
    if (good[size - 1] == '\n') continue;
    EXPECT_EQ(cut.Load().code(), absl::StatusCode::kDataLoss) << size;
  }
}

TEST_F(AlgorithmFileTest, ADamagedFileIsReplaced) {
  Write("beamline cuBLASLt algorithms 2\nNVIDIA H200\tgarbage\n");
  AlgorithmFile file = Open();
  EXPECT_EQ(file.Load().code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(file.Add(Key(1), Bits(1)).ok());
  AlgorithmFile again = Open();
  ASSERT_TRUE(again.Load().ok());
  EXPECT_EQ(again.size(), 1u);
}

// Its choices were made without a check of their sums.
TEST_F(AlgorithmFileTest, AFileOfAnEarlierFormatIsReplaced) {
  {
    AlgorithmFile file = Open();
    ASSERT_TRUE(file.Add(Key(1), Bits(1)).ok());
  }
  std::string text = Text();
  const size_t version = text.find('\n') - 1;
  ASSERT_EQ(text[version], '2');
  text[version] = '1';
  Write(text);
  AlgorithmFile file = Open();
  EXPECT_EQ(file.Load().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(file.Find(Key(1)), nullptr);
  ASSERT_TRUE(file.Add(Key(2), Bits(2)).ok());
  AlgorithmFile again = Open();
  ASSERT_TRUE(again.Load().ok());
  EXPECT_EQ(again.size(), 1u);
  EXPECT_EQ(again.Find(Key(1)), nullptr);
  ASSERT_NE(again.Find(Key(2)), nullptr);
}

// What a later version knows is not thrown away.
TEST_F(AlgorithmFileTest, AFileOfALaterFormatIsLeftAlone) {
  const std::string later = "beamline cuBLASLt algorithms 3\nwhatever\n";
  Write(later);
  AlgorithmFile file = Open();
  EXPECT_EQ(file.Load().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(file.Add(Key(1), Bits(1)).ok());
  EXPECT_EQ(Text(), later);
}

TEST_F(AlgorithmFileTest, MakesItsFolder) {
  path_ = folder_ + "/cache/beamline/choices";
  AlgorithmFile file = Open();
  ASSERT_TRUE(file.Load().ok());
  ASSERT_TRUE(file.Add(Key(1), Bits(1)).ok());
  AlgorithmFile again = Open();
  ASSERT_TRUE(again.Load().ok());
  EXPECT_EQ(again.size(), 1u);
}

TEST_F(AlgorithmFileTest, AFolderThatCannotBeWrittenIsToldOnce) {
  Write("a file where the folder should be");
  path_ += "/choices";
  AlgorithmFile file = Open();
  EXPECT_TRUE(file.Load().ok());
  EXPECT_EQ(file.Add(Key(1), Bits(1)).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(file.Add(Key(2), Bits(2)).ok());
  EXPECT_NE(file.Find(Key(1)), nullptr);  // in this process they are known
  EXPECT_NE(file.Find(Key(2)), nullptr);
}

TEST_F(AlgorithmFileTest, OtherPeoplesFilesAreLeftAlone) {
  const std::string letter = "root:x:0:0:root:/root:/bin/bash\n";
  Write(letter);
  AlgorithmFile file = Open();
  EXPECT_EQ(file.Load().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(file.Add(Key(1), Bits(1)).ok());
  EXPECT_NE(file.Find(Key(1)), nullptr);  // for this process
  EXPECT_EQ(Text(), letter);
  AlgorithmFile unread = Open();  // also without a Load before
  ASSERT_TRUE(unread.Add(Key(1), Bits(1)).ok());
  EXPECT_EQ(Text(), letter);
  AlgorithmFile folder(folder_, "NVIDIA H200", kLibrary);
  EXPECT_EQ(folder.Load().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(AlgorithmFileTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_ + "/none") << "a file";
  AlgorithmFile file(folder_ + "/none/choices", "NVIDIA H200", kLibrary);
  ASSERT_TRUE(file.Load().ok());
  EXPECT_EQ(file.Add(Key(1), Bits(1)).code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(file.Find(Key(1)), nullptr);
  AlgorithmFile nowhere("", "NVIDIA H200", kLibrary);
  ASSERT_TRUE(nowhere.Load().ok());
  ASSERT_TRUE(nowhere.Add(Key(1), Bits(1)).ok());
}

}  // namespace
}  // namespace beamline::cuda::algorithm_file_test
