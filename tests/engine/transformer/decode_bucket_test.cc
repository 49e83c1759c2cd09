#include "engine/transformer/decode_bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "tests/test_seed.h"

namespace beamline::decode_bucket_test {
namespace {

constexpr StepLimits kLimits = {.max_batch_tokens = 4096, .max_sequences = 256, .num_blocks = 300};
constexpr int32_t kScratchSlot = kLimits.num_blocks * kLimits.block_size;

// Of inputs of these lengths.
EncoderBatch BatchOf(const std::vector<int32_t>& lengths) {
  EncoderBatch batch;
  batch.offsets = {0};
  for (const int32_t length : lengths) {
    for (int32_t i = 0; i < length; ++i) {
      batch.token_ids.push_back(static_cast<int32_t>(batch.token_ids.size()) + 1);
      batch.slots.push_back(static_cast<int32_t>(batch.slots.size()));
    }
    batch.offsets.push_back(static_cast<int32_t>(batch.token_ids.size()));
  }
  return batch;
}

std::vector<int32_t> RandomLengths(std::mt19937& random) {
  const int most = std::vector{1, 8, 33, 100}[random() % 4];
  std::vector<int32_t> lengths(2 + random() % 100);
  for (int32_t& length : lengths) length = 1 + static_cast<int32_t>(random() % most);
  int32_t sum = 0;
  std::erase_if(lengths, [&](int32_t length) { return (sum += length) > 4096; });
  return lengths;
}

TEST(PadEncoderBatchTest, LeavesOneInputAsItIs) {
  const EncoderBatch batch = BatchOf({33});
  EncoderBatch padded;
  EXPECT_EQ(PadEncoderBatch(batch, kLimits, padded), EncoderShape(batch));
  EXPECT_EQ(padded.token_ids, batch.token_ids);
  EXPECT_EQ(padded.offsets, batch.offsets);
  EXPECT_EQ(padded.max_length, 0);
}

TEST(PadEncoderBatchTest, LeavesABatchWithoutRoomAsItIs) {
  StepLimits limits = kLimits;
  limits.max_sequences = 3;
  EncoderBatch batch = BatchOf({5, 6, 7}), padded;
  EXPECT_EQ(PadEncoderBatch(batch, limits, padded), EncoderShape(batch));
  EXPECT_EQ(padded.offsets, batch.offsets);
  limits = kLimits;
  limits.max_batch_tokens = 18;  // of 20 that it would be padded to
  EXPECT_EQ(PadEncoderBatch(batch, limits, padded), EncoderShape(batch));
  EXPECT_EQ(padded.token_ids, batch.token_ids);
  batch = BatchOf(std::vector<int32_t>(300, 4));
  EXPECT_EQ(PadEncoderBatch(batch, kLimits, padded), 0u);
  EXPECT_EQ(padded.token_ids, batch.token_ids);
}

TEST(PadEncoderBatchTest, AddsRowsThatNobodyReads) {
  std::mt19937 random(TestSeed());
  for (int i = 0; i < 300; ++i) {
    const std::vector<int32_t> lengths = RandomLengths(random);
    const int32_t longest = *std::ranges::max_element(lengths);
    const EncoderBatch batch = BatchOf(lengths);
    EncoderBatch padded;
    ASSERT_NE(PadEncoderBatch(batch, kLimits, padded), 0u);
    const auto rows = static_cast<int32_t>(padded.token_ids.size());
    EXPECT_EQ(rows, BucketRows(static_cast<int32_t>(batch.token_ids.size())));
    EXPECT_EQ(padded.num_sequences(), BucketBlocks(padded.num_sequences()));
    EXPECT_GE(padded.max_length, longest);
    EXPECT_TRUE(std::ranges::equal(batch.token_ids,
                                   std::span(padded.token_ids).first(batch.token_ids.size())));
    EXPECT_TRUE(
        std::ranges::equal(batch.offsets, std::span(padded.offsets).first(batch.offsets.size())));
    ASSERT_EQ(padded.slots.size(), padded.token_ids.size());
    for (size_t row = 0; row < padded.slots.size(); ++row) {
      EXPECT_EQ(padded.slots[row], row < batch.slots.size() ? batch.slots[row] : kScratchSlot);
    }
    EXPECT_EQ(padded.offsets.back(), rows);
    for (int s = 0; s < padded.num_sequences(); ++s) {
      const int32_t length = padded.offsets[s + 1] - padded.offsets[s];
      EXPECT_GE(length, 0);
      EXPECT_LE(length, longest);
    }
  }
}

// A recording of one is what the others of its number are computed by.
TEST(PadEncoderBatchTest, BatchesOfOneNumberAreLaunchedAlike) {
  std::mt19937 random(TestSeed());
  std::map<uint64_t, std::tuple<size_t, int, int32_t>> shapes;
  for (int i = 0; i < 1000; ++i) {
    const EncoderBatch batch = BatchOf(RandomLengths(random));
    EncoderBatch padded;
    const uint64_t number = PadEncoderBatch(batch, kLimits, padded);
    const std::tuple shape(padded.token_ids.size(), padded.num_sequences(), padded.max_length);
    EXPECT_EQ(shapes.try_emplace(number, shape).first->second, shape);
    EXPECT_NE(number, EncoderShape(padded));
  }
  EXPECT_LT(shapes.size(), 200u);
}

}  // namespace
}  // namespace beamline::decode_bucket_test
