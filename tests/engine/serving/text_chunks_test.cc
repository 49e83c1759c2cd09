#include "engine/serving/text_chunks.h"

#include <gtest/gtest.h>

#include <vector>

namespace beamline::text_chunks_test {
namespace {

TextChunks ChunksOf(const std::vector<size_t>& bytes) {
  return TextChunks(bytes.size(), [&](size_t i) { return bytes[i]; });
}

void ExpectChunk(const std::optional<TextChunks::Chunk>& chunk, size_t begin, size_t end) {
  ASSERT_TRUE(chunk.has_value());
  EXPECT_EQ(chunk->begin, begin);
  EXPECT_EQ(chunk->end, end);
}

TEST(TextChunksTest, HaveSoMuchTextOrOneInput) {
  constexpr size_t kHalf = TextChunks::kBytes / 2;
  TextChunks chunks = ChunksOf({kHalf, kHalf, 0, 1, 9 * kHalf, 3, kHalf});
  EXPECT_EQ(chunks.size(), 4u);
  ExpectChunk(chunks.Take(), 0, 3);
  ExpectChunk(chunks.Take(), 3, 4);
  ExpectChunk(chunks.Take(), 4, 5);
  ExpectChunk(chunks.Take(), 5, 7);
  EXPECT_FALSE(chunks.Take().has_value());
  EXPECT_EQ(ChunksOf({0}).size(), 1u);
}

TEST(TextChunksTest, TheLastThatFinishesIsToldSo) {
  constexpr size_t kWhole = TextChunks::kBytes;
  TextChunks chunks = ChunksOf({kWhole, kWhole, kWhole});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(chunks.Take().has_value());
  EXPECT_FALSE(chunks.Finish(1, absl::OkStatus()));
  EXPECT_FALSE(chunks.Finish(2, absl::OkStatus()));  // the third is not taken yet
  EXPECT_TRUE(chunks.Take().has_value());
  EXPECT_TRUE(chunks.Finish(3, absl::OkStatus()));
  EXPECT_TRUE(chunks.status().ok());
}

// After an error none is taken; those that were end, and the first input's error counts.
TEST(TextChunksTest, TheErrorIsThatOfTheFirstInput) {
  constexpr size_t kWhole = TextChunks::kBytes;
  TextChunks chunks = ChunksOf({kWhole, kWhole, kWhole, kWhole});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(chunks.Take().has_value());
  EXPECT_FALSE(chunks.Finish(1, absl::InvalidArgumentError("second")));
  EXPECT_FALSE(chunks.Take().has_value());
  EXPECT_FALSE(chunks.Finish(2, absl::InvalidArgumentError("third")));
  EXPECT_TRUE(chunks.Finish(0, absl::InvalidArgumentError("first")));
  EXPECT_EQ(chunks.status().message(), "first");
}

}  // namespace
}  // namespace beamline::text_chunks_test
