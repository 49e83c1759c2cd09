// A step that travels is the one that was told of, and what is no step is refused.
#include "engine/runahead/step_call.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/test_seed.h"

namespace beamline::step_call_test {
namespace {

template <typename Value>
bool SameBytes(const std::vector<Value>& a, const std::vector<Value>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(Value)) == 0;
}

struct Told {
  StepBuilder built;
  DeviceEdits edits;
  LogitsEdits row_edits;
  std::vector<RowRequest> requests;
  std::vector<const RowRequest*> pointers;
  std::vector<float> scores = {1.5f, -2.0f};
  std::vector<int32_t> end_ids = {7};
  std::vector<BeamSearch> searches;
  int32_t word = 0;

  Told() {
    EncoderBatch encoder = {.token_ids = {1, 2, 3}, .offsets = {0, 3}, .slots = {4, 5, 6}};
    StepBatch step;
    step.token_ids = {9, 8};
    step.positions = {0, 1};
    step.slots = {16, 17};
    step.query_offsets = {0, 2};
    step.context_lengths = {2};
    step.block_tables = {1, 0};
    step.max_blocks = 2;
    step.logits_rows = {1};
    step.max_context_length = 64;
    built = StepBuilder::Of(std::move(encoder), std::move(step), {{3, 4}});
    edits.words = &word;
    edits.fills = {{5, 0}};
    edits.beam_tables = {{.first_row = 1, .num_rows = 2, .parent_word = 3}};
    row_edits.repetition_penalty = 1.25f;
    row_edits.penalties = {{1, 2, 3}};
    row_edits.biases = {{4, -0.5f}};
    row_edits.forced_id = 6;
    requests.resize(2);
    requests[0] = {.edits = &row_edits, .normalize_first = true, .num_candidates = 5};
    requests[1] = {.renormalize = true, .samples = {{.temperature = 0.5f, .seed = 42}, {}}};
    for (const RowRequest& request : requests) pointers.push_back(&request);
    searches = {{.first_row = 0, .num_rows = 2, .width = 3, .scores = scores, .end_ids = end_ids},
                {.score_word = 11, .renormalize = true}};
  }
  std::string Write() const {
    ByteWriter message;
    WriteStepCall(1, built, edits, pointers, searches, message);
    return message.bytes();
  }
};

TEST(StepCallTest, ArrivesAsItWasTold) {
  const Told told;
  const std::string bytes = told.Write();
  ByteReader message(bytes);
  const auto read = StepCall::Read(message);
  ASSERT_TRUE(read.ok()) << read.status();
  const StepCall& call = **read;
  EXPECT_EQ(call.number(), 1);
  EXPECT_TRUE(call.has_words());
  EXPECT_EQ(call.edits().words, nullptr);
  EXPECT_TRUE(SameBytes(call.edits().fills, told.edits.fills));
  EXPECT_TRUE(SameBytes(call.edits().beam_tables, told.edits.beam_tables));
  EXPECT_EQ(call.built().encoder_batch().slots, told.built.encoder_batch().slots);
  EXPECT_EQ(call.built().step_batch().block_tables, told.built.step_batch().block_tables);
  EXPECT_EQ(call.built().step_batch().max_context_length, 64);
  EXPECT_EQ(call.built().copies().front().target, 4);
  ASSERT_EQ(call.requests().size(), 2u);
  EXPECT_EQ(call.requests()[0]->edits->forced_id, 6);
  EXPECT_TRUE(SameBytes(call.requests()[0]->edits->biases, told.row_edits.biases));
  EXPECT_EQ(call.requests()[1]->edits, nullptr);
  EXPECT_TRUE(SameBytes(call.requests()[1]->samples, told.requests[1].samples));
  ASSERT_EQ(call.searches().size(), 2u);
  EXPECT_EQ(call.searches()[0].scores[1], -2.0f);
  EXPECT_EQ(call.searches()[0].end_ids[0], 7);
  EXPECT_EQ(call.searches()[1].score_word, 11);
  EXPECT_TRUE(call.searches()[1].scores.empty());
  // What it is made of says all of it.
  ByteWriter again;
  DeviceEdits edits = call.edits();
  edits.words = &told.word;
  WriteStepCall(1, call.built(), edits, call.requests(), call.searches(), again);
  EXPECT_EQ(again.bytes(), bytes);
}

TEST(StepCallTest, WhatIsCutOrLongerIsRefused) {
  const std::string bytes = Told().Write();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ByteReader message(std::string_view(bytes).substr(0, size));
    EXPECT_FALSE(StepCall::Read(message).ok()) << size;
  }
  const std::string longer = bytes + "x";
  ByteReader message(longer);
  EXPECT_FALSE(StepCall::Read(message).ok());
}

// Counts that are not there take no memory.
TEST(StepCallTest, NoiseDoesNoHarm) {
  std::mt19937 random(TestSeed());
  const std::string bytes = Told().Write();
  for (int round = 0; round < 2000; ++round) {
    std::string noise = bytes;
    // Not of the flags, which are one byte each: of them only 0 and 1 are values.
    const size_t at = 4 + random() % 8;
    noise[at] = static_cast<char>(random());
    ByteReader message(noise);
    EXPECT_EQ(StepCall::Read(message).ok(), noise == bytes);
  }
}

}  // namespace
}  // namespace beamline::step_call_test
