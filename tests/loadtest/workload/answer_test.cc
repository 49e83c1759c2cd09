#include "loadtest/workload/answer.h"

#include <gtest/gtest.h>

#include <limits>

namespace beamline::loadtest::answer_test {
namespace {

Answer MakeAnswer(std::vector<std::vector<int32_t>> sequences) {
  Answer answer;
  for (auto& ids : sequences) answer.sequences.push_back({ids, "t", v1::FINISH_REASON_EOS});
  return answer;
}

TEST(AnswerTest, StreamsAddUpToTheUnaryAnswer) {
  v1::GenerateResponse unary;
  for (const int sequence : {0, 1}) {
    v1::Sequence& one = *unary.add_sequences();
    for (const int id : {1, 2, 3}) one.add_ids(10 * sequence + id);
    one.set_text("abc");
    one.set_finish_reason(v1::FINISH_REASON_EOS);
  }
  Answer expected;
  expected.Append(unary);

  Answer streamed;
  for (const int position : {0, 1, 2}) {
    v1::GenerateStreamResponse message;
    for (const int sequence : {1, 0}) {  // the other way round
      v1::SequenceDelta& delta = *message.add_deltas();
      delta.set_sequence(1 - sequence);
      delta.add_ids(10 * sequence + position + 1);
      delta.set_text(std::string(1, static_cast<char>('a' + position)));
    }
    streamed.Append(message);
  }
  v1::GenerateStreamResponse last;
  for (const int sequence : {0, 1}) {
    v1::SequenceEnd& end = *last.mutable_end()->add_sequences();
    end.set_sequence(sequence);
    end.set_finish_reason(v1::FINISH_REASON_EOS);
  }
  streamed.Append(last);

  EXPECT_EQ(Difference(expected, streamed, {.any_order = true}), std::nullopt);
  EXPECT_NE(Difference(expected, streamed, {}), std::nullopt);
}

TEST(AnswerTest, EveryDifferenceIsFound) {
  const Answer expected = MakeAnswer({{1, 2, 3}});
  EXPECT_EQ(Difference(expected, expected, {}), std::nullopt);
  EXPECT_NE(Difference(expected, MakeAnswer({{1, 2, 4}}), {}), std::nullopt);
  EXPECT_NE(Difference(expected, MakeAnswer({{1, 2}}), {}), std::nullopt);
  EXPECT_NE(Difference(expected, MakeAnswer({{1, 2, 3, 4}}), {}), std::nullopt);
  EXPECT_NE(Difference(expected, MakeAnswer({{1, 2, 3}, {1}}), {}), std::nullopt);
  Answer other_text = expected;
  other_text.sequences[0].text.clear();
  EXPECT_NE(Difference(expected, other_text, {}), std::nullopt);
  Answer other_end = expected;
  other_end.sequences[0].finish_reason = v1::FINISH_REASON_LENGTH;
  EXPECT_NE(Difference(expected, other_end, {}), std::nullopt);
}

TEST(AnswerTest, CutSequencesMustBeBeginnings) {
  const Answer expected = MakeAnswer({{1, 2, 3}});
  Answer cut = MakeAnswer({{1, 2}});
  cut.sequences[0].finish_reason = v1::FINISH_REASON_DEADLINE;
  EXPECT_EQ(Difference(expected, cut, {}), std::nullopt);
  cut.sequences[0].ids = {1, 3};
  EXPECT_NE(Difference(expected, cut, {}), std::nullopt);
  EXPECT_EQ(Difference(expected, cut, {.beams = true}), std::nullopt);

  Answer partial = MakeAnswer({{1, 2}});
  partial.sequences[0].finish_reason = v1::FINISH_REASON_UNSPECIFIED;
  EXPECT_EQ(Difference(expected, partial, {.partial = true}), std::nullopt);
  EXPECT_EQ(Difference(expected, Answer(), {.partial = true}), std::nullopt);
  EXPECT_NE(Difference(expected, partial, {}), std::nullopt);
  EXPECT_NE(Difference(expected, MakeAnswer({{7}}), {.partial = true}), std::nullopt);
}

TEST(AnswerTest, ValuesMayDifferByTheToleranceAndNanNever) {
  Answer expected;
  expected.values = {0.5F, -2.0F};
  Answer actual = expected;
  actual.values[0] += 1e-4F;
  EXPECT_EQ(Difference(expected, actual, {.tolerance = 1e-4}), std::nullopt);
  EXPECT_NE(Difference(expected, actual, {.tolerance = 1e-5}), std::nullopt);
  actual.values[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(Difference(expected, actual, {.tolerance = 1}), std::nullopt);
  actual.values = {0.5F};
  EXPECT_NE(Difference(expected, actual, {.tolerance = 1}), std::nullopt);
}

}  // namespace
}  // namespace beamline::loadtest::answer_test
