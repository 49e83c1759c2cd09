#include "kernels/cuda/choice/candidate_edits.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace beamline::cuda::candidate_edits_test {
namespace {

constexpr int32_t kVocabSize = 30000;

// Of one row each.
FlatEdits Flatten(const std::vector<const LogitsEdits*>& edits,
                  const std::vector<uint8_t>& normalize, int32_t count = 5) {
  static float never_read;
  const std::vector<int32_t> counts(edits.size(), count);
  TopCandidatesParams params;
  params.logits = Tensor(&never_read, DType::kFloat32,
                         {static_cast<int64_t>(edits.size()), int64_t{kVocabSize}});
  params.edits = edits;
  params.normalize_first = normalize;
  params.counts = counts;
  params.max_count = count;
  return FlattenEdits(params);
}

LogitsEdits Bans(int count) {
  LogitsEdits edits;
  for (int i = 0; i < count; ++i) edits.biases.push_back({kVocabSize - 1 - i, -INFINITY});
  return edits;
}

TEST(CandidateEditsTest, RowsOfFewBiasesArePlain) {
  const LogitsEdits few = Bans(kMostPlainBiases), many = Bans(kMostPlainBiases + 1);
  for (const uint8_t mode : {kEditLogits, kNormalizeFirst}) {
    const FlatEdits flat = Flatten({nullptr, &few, &many}, {mode, mode, mode});
    EXPECT_TRUE(flat.rows[0].plain);
    EXPECT_TRUE(flat.rows[1].plain);
    EXPECT_FALSE(flat.rows[2].plain);
    EXPECT_TRUE(flat.any_plain && flat.any_other);
    EXPECT_EQ(flat.rows[1].edits_in_place, mode == kEditLogits);
  }
  EXPECT_FALSE(Flatten({&few}, {kNormalizeInPlace}).any_plain);
  EXPECT_FALSE(Flatten({&few}, {kNormalizeFirst}, kMostPlainCandidates + 1).any_plain);
  LogitsEdits penalised = few;
  penalised.presence_penalty = 0.5f;
  penalised.penalties.push_back({17, 1, 1});
  EXPECT_FALSE(Flatten({&penalised}, {kEditLogits}).any_plain);
}

TEST(CandidateEditsTest, RowsThatShareTheirEditsAreAlike) {
  const LogitsEdits bans = Bans(2), others = Bans(2);
  const std::vector<uint8_t> modes(3, kNormalizeFirst);
  const FlatEdits flat = Flatten({&bans, &bans, &bans}, modes);
  EXPECT_TRUE(flat.all_alike);
  EXPECT_EQ(flat.biases.size(), 2u);
  EXPECT_EQ(flat.rows[2].first_bias, 0);
  EXPECT_EQ(flat.rows[2].last_bias, 2);
  EXPECT_TRUE(Flatten({nullptr, nullptr, nullptr}, modes).all_alike);
  EXPECT_FALSE(Flatten({&bans, &bans, nullptr}, modes).all_alike);
  EXPECT_FALSE(Flatten({&bans, &bans, &others}, modes).all_alike);
}

// Else nobody would compute it where its neighbours are plain.
TEST(CandidateEditsTest, AForcedRowIsAnother) {
  LogitsEdits forced;
  forced.forced_id = 2;
  const FlatEdits flat = Flatten({nullptr, &forced}, {kNormalizeFirst, kNormalizeFirst});
  EXPECT_TRUE(flat.any_plain);
  EXPECT_TRUE(flat.any_other);
  EXPECT_FALSE(flat.rows[1].plain);
}

}  // namespace
}  // namespace beamline::cuda::candidate_edits_test
