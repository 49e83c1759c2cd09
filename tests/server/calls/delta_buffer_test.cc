#include "server/calls/delta_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/test_seed.h"

namespace beamline::delta_buffer_test {
namespace {

using testing::ElementsAre;

TEST(DeltaBuffer, MergesBySequence) {
  DeltaBuffer buffer;
  EXPECT_TRUE(buffer.empty());
  buffer.Add(
      {.sequence = 1, .ids = {1, 2}, .text = "a", .logprobs = {{{1, -1}, {}}, {{2, -2}, {}}}});
  buffer.Add({.sequence = 0, .ids = {9}, .text = "x"});
  buffer.Add({.sequence = 1, .ids = {3}, .text = "b", .logprobs = {{{3, -3}, {}}}});
  EXPECT_FALSE(buffer.empty());
  const auto deltas = buffer.Take();
  EXPECT_TRUE(buffer.empty());
  ASSERT_EQ(deltas.size(), 2u);
  EXPECT_EQ(deltas[0].sequence, 1);
  EXPECT_EQ(deltas[0].text, "ab");
  EXPECT_THAT(deltas[0].ids, ElementsAre(1, 2, 3));
  ASSERT_EQ(deltas[0].logprobs.size(), 3u);
  EXPECT_EQ(deltas[0].logprobs[2].chosen.id, 3);
  EXPECT_EQ(deltas[1].text, "x");
}

TEST(DeltaBuffer, KeepsMessagesSmall) {
  DeltaBuffer buffer;
  const std::string piece(10000, 'x');
  for (int i = 0; i < 400; ++i) buffer.Add({.sequence = i % 4, .ids = {i}, .text = piece});
  size_t total = 0;
  int messages = 0;
  while (!buffer.empty()) {
    size_t bytes = 0;
    for (const GenerateDelta& delta : buffer.Take()) bytes += delta.text.size();
    EXPECT_GT(bytes, 0u);
    EXPECT_LE(bytes, DeltaBuffer::kMaxMessageBytes);
    total += bytes;
    ++messages;
  }
  EXPECT_EQ(total, piece.size() * 400);
  EXPECT_LT(messages, 40);
  buffer.Add({.sequence = 0, .text = std::string(1 << 20, 'x')});  // whole, whatever its size
  EXPECT_EQ(buffer.Take().at(0).text.size(), size_t{1} << 20);
}

TEST(DeltaBuffer, LosesNothingWhateverTheReaderDoes) {
  const unsigned seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::vector<std::string> sent(8), received(8);
  DeltaBuffer buffer;
  const auto read = [&] {
    for (const GenerateDelta& delta : buffer.Take()) {
      received[static_cast<size_t>(delta.sequence)] += delta.text;
      EXPECT_EQ(delta.text.size(), delta.ids.size());
    }
  };
  for (int i = 0; i < 5000; ++i) {
    const int32_t sequence = static_cast<int32_t>(random() % 8);
    const std::string text(1, static_cast<char>('a' + random() % 26));
    sent[static_cast<size_t>(sequence)] += text;
    buffer.Add({.sequence = sequence, .ids = {text[0]}, .text = text});
    if (random() % 50 == 0) read();
  }
  read();
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace beamline::delta_buffer_test
