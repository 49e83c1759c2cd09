// What ranks choose of their columns of the logits is what one rank chooses of all columns.
#include "engine/runahead/vocabulary_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/thread_communicator.h"

namespace beamline::vocabulary_split_test {
namespace {

constexpr int32_t kVocabSize = 203;
constexpr int kNumRows = 40;
constexpr int kMostCandidates = 30;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows of logits and what is asked of them; the same for every call of one seed.
struct Problem {
  explicit Problem(int seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    const auto any_id = [&] { return static_cast<int32_t>(random() % kVocabSize); };
    logits.resize(kNumRows * kVocabSize);
    for (float& logit : logits) logit = normal(random);
    edits.resize(kNumRows);
    for (int row = 0; row < kNumRows; ++row) {
      LogitsEdits& edit = edits[row];
      if (row % 2 == 1) {
        edit.repetition_penalty = 1.4f;
        edit.presence_penalty = 0.5f;
        edit.frequency_penalty = 0.25f;
        for (int i = 0; i < 6; ++i) edit.penalties.push_back({7 * i + row, 2, i % 3});
      }
      if (row % 4 >= 2) edit.biases = {{any_id(), 3.0f}, {any_id(), -kInfinity}};
      if (row % 10 == 9) edit.forced_id = any_id();
      edit_pointers.push_back(row % 5 == 0 ? nullptr : &edit);
      modes.push_back(static_cast<uint8_t>(random() % 3));
      counts.push_back(1 + static_cast<int32_t>(random() % kMostCandidates));
      if (row % 7 == 3) continue;  // a gap between the rows that are drawn from
      for (int draw = 0; draw <= row % 3; ++draw) {
        draws.push_back({.row = row,
                         .temperature = 0.7f + 0.1f * static_cast<float>(row % 5),
                         .top_k = row % 6 == 1 ? 12 : 0,
                         .top_p = row % 6 == 2 ? 0.8f : 1.0f,
                         .min_p = row % 6 == 3 ? 0.05f : 0.0f,
                         .seed = 17,
                         .sequence = static_cast<uint32_t>(draw),
                         .position = static_cast<uint32_t>(row)});
      }
    }
  }

  std::vector<float> logits;
  std::vector<LogitsEdits> edits;
  std::vector<const LogitsEdits*> edit_pointers;
  std::vector<uint8_t> modes;
  std::vector<int32_t> counts;
  std::vector<SampleRow> draws;
};

struct Chosen {
  std::vector<float> values = std::vector<float>(kNumRows * kMostCandidates);
  std::vector<float> raw_values = values;
  std::vector<int32_t> ids = std::vector<int32_t>(kNumRows * kMostCandidates);
  std::vector<float> log_normalizers = std::vector<float>(kNumRows);
  std::vector<int32_t> drawn_ids;
  std::vector<float> drawn_values;
};

// With modes, candidates of log-probabilities too.
template <typename TopCandidates, typename Sample>
Chosen Choose(const Problem& problem, const Tensor& logits, bool with_modes,
              const TopCandidates& top_candidates, const Sample& sample) {
  Chosen chosen;
  TopCandidatesParams params;
  params.logits = logits;
  params.edits = problem.edit_pointers;
  if (with_modes) params.normalize_first = problem.modes;
  params.counts = problem.counts;
  params.max_count = kMostCandidates;
  params.values = chosen.values.data();
  params.raw_values = chosen.raw_values.data();
  params.ids = chosen.ids.data();
  params.log_normalizers = chosen.log_normalizers.data();
  top_candidates(params);
  // With kNormalizeFirst a row may hold anything afterwards.
  if (with_modes) return chosen;
  chosen.drawn_ids.resize(problem.draws.size());
  chosen.drawn_values.resize(problem.draws.size());
  sample(SampleParams{logits, problem.draws, chosen.drawn_ids.data(), chosen.drawn_values.data()});
  return chosen;
}

Chosen ChooseAlone(const Problem& problem, bool with_modes) {
  std::vector<float> logits = problem.logits;
  const auto backend = MakeCpuBackend({.num_threads = 1});
  return Choose(
      problem, Tensor(logits.data(), DType::kFloat32, {kNumRows, kVocabSize}), with_modes,
      [&](const TopCandidatesParams& params) { backend->TopCandidates(params); },
      [&](const SampleParams& params) { backend->Sample(params); });
}

// What each rank finds.
std::vector<Chosen> ChooseTogether(const Problem& problem, bool with_modes, int num_ranks) {
  auto communicators = MakeThreadCommunicators(num_ranks);
  std::vector<Chosen> chosen(num_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const Shard shard = {rank, num_ranks};
      const auto first = shard.Begin(kVocabSize), width = shard.Width(kVocabSize);
      std::vector<float> own;  // with something between the rows
      for (int row = 0; row < kNumRows; ++row) {
        const auto begin = problem.logits.begin() + row * kVocabSize + first;
        own.insert(own.end(), begin, begin + width);
        own.insert(own.end(), 3, kInfinity);
      }
      const auto backend = MakeCpuBackend({.num_threads = 1});
      VocabularySplit split(kVocabSize, *backend, *communicators[rank]);
      chosen[rank] = Choose(
          problem, Tensor(own.data(), DType::kFloat32, {kNumRows, width + 3}).Columns(0, width),
          with_modes,
          [&](const TopCandidatesParams& params) { EXPECT_TRUE(split.TopCandidates(params).ok()); },
          [&](const SampleParams& params) { EXPECT_TRUE(split.Sample(params).ok()); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return chosen;
}

void ExpectSame(const Problem& problem, const Chosen& actual, const Chosen& expected,
                float tolerance) {
  for (int row = 0; row < kNumRows; ++row) {
    SCOPED_TRACE(row);
    EXPECT_NEAR(actual.log_normalizers[row], expected.log_normalizers[row], 1e-5f);
    for (int i = 0; i < problem.counts[row]; ++i) {
      const int entry = row * kMostCandidates + i;
      ASSERT_EQ(actual.ids[entry], expected.ids[entry]) << i;
      if (expected.values[entry] == -kInfinity) {
        ASSERT_EQ(actual.values[entry], -kInfinity);
      } else {
        ASSERT_NEAR(actual.values[entry], expected.values[entry], tolerance);
      }
      ASSERT_EQ(actual.raw_values[entry], expected.raw_values[entry]);
    }
  }
  EXPECT_EQ(actual.drawn_ids, expected.drawn_ids);
  EXPECT_EQ(actual.drawn_values, expected.drawn_values);
}

TEST(VocabularySplitTest, CandidatesAndDrawsAreThoseOfWholeRows) {
  const Problem problem(1);
  const Chosen alone = ChooseAlone(problem, /*with_modes=*/false);
  ASSERT_GT(problem.draws.size(), 40u);
  for (int num_ranks = 2; num_ranks <= 8; ++num_ranks) {
    SCOPED_TRACE(num_ranks);
    for (const Chosen& chosen : ChooseTogether(problem, /*with_modes=*/false, num_ranks)) {
      ExpectSame(problem, chosen, alone, /*tolerance=*/0.0f);
    }
  }
}

// Normalised first, by what all ranks have.
TEST(VocabularySplitTest, LogProbabilitiesAreThoseOfWholeRows) {
  const Problem problem(2);
  const Chosen alone = ChooseAlone(problem, /*with_modes=*/true);
  for (int num_ranks = 2; num_ranks <= 8; ++num_ranks) {
    SCOPED_TRACE(num_ranks);
    for (const Chosen& chosen : ChooseTogether(problem, /*with_modes=*/true, num_ranks)) {
      ExpectSame(problem, chosen, alone, /*tolerance=*/1e-5f);
    }
  }
}

}  // namespace
}  // namespace beamline::vocabulary_split_test
