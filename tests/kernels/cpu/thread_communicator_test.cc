// Ranks as threads: what collectives compute, and how they end when a rank fails.
#include "kernels/cpu/thread_communicator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/sanitized.h"

namespace beamline::thread_communicator_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Ranks {
 public:
  explicit Ranks(int size, std::chrono::nanoseconds time_limit = kRankTimeLimit)
      : communicators_(MakeThreadCommunicators(size, time_limit)) {}

  // Runs `work` on a thread for each of the ranks from `first` on, and waits for all.
  void Run(absl::FunctionRef<void(Communicator&)> work, size_t first = 0) {
    std::vector<std::thread> threads;
    for (size_t r = first; r < communicators_.size(); ++r) {
      threads.emplace_back([&work, this, r] { work(*communicators_[r]); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Communicator& operator[](size_t rank) { return *communicators_[rank]; }

 private:
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

using Rows = std::vector<std::vector<float>>;

Rows RandomRows(int num_rows, int64_t width, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Rows rows(num_rows, std::vector<float>(width));
  for (auto& row : rows) {
    for (float& value : row) value = normal(random);
  }
  return rows;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(ThreadCommunicatorTest, SumsAreTheSameBitsOnEveryRank) {
  std::mt19937 random(1);
  for (int size = 1; size <= 8; ++size) {
    Ranks ranks(size);
    for (const int64_t width : {1, 7, 16, 100, 1023, 5000}) {
      const Rows terms = RandomRows(size, width, random);
      Rows sums = terms;
      ranks.Run([&](Communicator& communicator) {
        communicator.AllReduceSum(
            Tensor(sums[communicator.rank()].data(), DType::kFloat32, {1, width}));
      });
      for (int64_t i = 0; i < width; ++i) {
        double sum = 0.0, magnitude = 0.0;
        float in_order = 0.0f;
        for (int r = 0; r < size; ++r) {
          sum += terms[r][i];
          magnitude += std::fabs(terms[r][i]);
          in_order = r == 0 ? terms[r][i] : in_order + terms[r][i];
        }
        ASSERT_NEAR(sums[0][i], sum, size * magnitude * 6e-8) << size << " ranks, element " << i;
        ASSERT_EQ(sums[0][i], in_order);  // by rank, whoever came first
      }
      for (int r = 1; r < size; ++r) EXPECT_TRUE(SameBits(sums[r], sums[0]));
    }
    EXPECT_TRUE(ranks[0].status().ok());
  }
}

TEST(ThreadCommunicatorTest, NothingIsNothingToWaitFor) {
  Ranks ranks(2, milliseconds(1));
  ranks[0].AllReduceSum(Tensor(nullptr, DType::kFloat32, {0, 8}));
  EXPECT_TRUE(ranks[0].status().ok());
}

// Parts of different widths, between whose rows lie others' elements.
TEST(ThreadCommunicatorTest, GathersColumnsInTheOrderOfRanks) {
  std::mt19937 random(2);
  for (int size = 1; size <= 8; ++size) {
    const int64_t num_rows = 5, gap = 3;
    std::vector<int64_t> widths;
    int64_t width = 0;
    for (int r = 0; r < size; ++r) width += widths.emplace_back(1 + random() % 9);
    Rows parts;
    for (int r = 0; r < size; ++r) {
      parts.push_back(RandomRows(1, num_rows * (widths[r] + gap), random)[0]);
    }
    Rows wholes(size, std::vector<float>(num_rows * (width + 1), -7.0f));
    Ranks(size).Run([&](Communicator& communicator) {
      const int rank = communicator.rank();
      communicator.AllGather(
          Tensor(parts[rank].data(), DType::kFloat32, {num_rows, widths[rank] + gap})
              .Columns(1, widths[rank]),
          Tensor(wholes[rank].data(), DType::kFloat32, {num_rows, width + 1}).Columns(0, width));
    });
    for (int64_t row = 0; row < num_rows; ++row) {
      std::vector<float> expected;
      for (int r = 0; r < size; ++r) {
        const auto begin = parts[r].begin() + row * (widths[r] + gap) + 1;
        expected.insert(expected.end(), begin, begin + widths[r]);
      }
      expected.push_back(-7.0f);
      for (const auto& whole : wholes) {
        const auto begin = whole.begin() + row * (width + 1);
        ASSERT_EQ(std::vector<float>(begin, begin + width + 1), expected);
      }
    }
  }
}

TEST(ThreadCommunicatorTest, BroadcastsFromAnyRank) {
  for (int root = 0; root < 3; ++root) {
    std::vector<std::vector<int32_t>> values = {{1, 2}, {3, 4}, {5, 6}};
    const std::vector<int32_t> sent = values[root];
    Ranks(3).Run([&](Communicator& communicator) {
      communicator.Broadcast(Tensor(values[communicator.rank()].data(), DType::kInt32, {2}), root);
    });
    for (const auto& received : values) EXPECT_EQ(received, sent);
  }
}

struct Candidates {
  std::vector<float> values, raw_values, log_normalizers;
  std::vector<int32_t> ids;

  Candidates(size_t num_rows, int max_count)
      : values(num_rows * max_count),
        raw_values(num_rows * max_count),
        log_normalizers(num_rows),
        ids(num_rows * max_count) {}
};

Candidates Find(Rows& rows, const std::vector<int32_t>& counts, int max_count, int64_t first,
                int64_t width) {
  Candidates found(rows.size(), max_count);
  std::vector<float> logits;
  for (const auto& row : rows)
    logits.insert(logits.end(), row.begin() + first, row.begin() + first + width);
  const auto backend = MakeCpuBackend({.num_threads = 1});
  std::vector<int32_t> own_counts;
  for (const int32_t count : counts) own_counts.push_back(std::min<int32_t>(count, width));
  backend->TopCandidates(
      {.logits = Tensor(logits.data(), DType::kFloat32, {static_cast<int64_t>(rows.size()), width}),
       .counts = own_counts,
       .max_count = max_count,
       .values = found.values.data(),
       .ids = found.ids.data(),
       .log_normalizers = found.log_normalizers.data(),
       .raw_values = found.raw_values.data()});
  return found;
}

// What the operator finds in whole rows, ranks find in their columns together; the rows have ties,
// and more candidates are wanted than some ranks have columns.
TEST(ThreadCommunicatorTest, MergedCandidatesAreThoseOfWholeRows) {
  std::mt19937 random(3);
  constexpr int64_t kColumns = 61;
  constexpr int kMost = 20;
  for (int size = 1; size <= 8; ++size) {
    Rows rows = RandomRows(9, kColumns, random);
    for (auto& row : rows) {
      for (float& value : row) value = std::round(4 * value) / 4;
    }
    rows[4].assign(kColumns, -kInfinity);
    rows[4][50] = 0.0f;
    rows[5][3] = rows[5][60] = kInfinity;
    std::vector<int32_t> counts;
    for (size_t row = 0; row < rows.size(); ++row) counts.push_back(1 + random() % kMost);
    const Candidates whole = Find(rows, counts, kMost, 0, kColumns);
    std::vector<Candidates> merged(size, Candidates(rows.size(), kMost));
    Ranks(size).Run([&](Communicator& communicator) {
      const int r = communicator.rank();
      const int64_t first = kColumns * r / size, end = kColumns * (r + 1) / size;
      const Candidates own = Find(rows, counts, kMost, first, end - first);
      communicator.MergeCandidates({.counts = counts,
                                    .max_count = kMost,
                                    .first_column = static_cast<int32_t>(first),
                                    .num_columns = static_cast<int32_t>(end - first),
                                    .values = own.values.data(),
                                    .ids = own.ids.data(),
                                    .raw_values = own.raw_values.data(),
                                    .log_normalizers = own.log_normalizers.data(),
                                    .merged_values = merged[r].values.data(),
                                    .merged_ids = merged[r].ids.data(),
                                    .merged_raw_values = merged[r].raw_values.data(),
                                    .merged_log_normalizers = merged[r].log_normalizers.data()});
    });
    for (const Candidates& found : merged) {
      for (size_t row = 0; row < rows.size(); ++row) {
        for (int32_t i = 0; i < counts[row]; ++i) {
          const size_t entry = row * kMost + i;
          ASSERT_EQ(found.ids[entry], whole.ids[entry]) << size << " ranks, row " << row;
          ASSERT_EQ(found.values[entry], whole.values[entry]);
          ASSERT_EQ(found.raw_values[entry], whole.raw_values[entry]);
        }
        if (std::isinf(whole.log_normalizers[row])) {
          EXPECT_EQ(found.log_normalizers[row], whole.log_normalizers[row]);
        } else {
          EXPECT_NEAR(found.log_normalizers[row], whole.log_normalizers[row], 1e-5);
        }
        EXPECT_EQ(found.log_normalizers[row], merged[0].log_normalizers[row]);
      }
    }
  }
}

// A rank's columns of log-probabilities are those of the whole row.
TEST(ThreadCommunicatorTest, ColumnsAreNormalisedByTheWholeRow) {
  std::mt19937 random(5);
  constexpr int64_t kColumns = 40, kFirst = 13;
  std::vector<float> row = RandomRows(1, kColumns, random)[0];
  const std::vector<int32_t> counts = {8};
  const std::vector<uint8_t> normalize = {kNormalizeFirst};
  LogitsEdits edits;
  edits.repetition_penalty = 1.5f;
  edits.penalties = {{20, 1, 0}};
  const LogitsEdits* const whole_edits = &edits;
  const auto backend = MakeCpuBackend({.num_threads = 1});
  std::vector<float> whole = row, values(8), own_values(8);
  std::vector<int32_t> ids(8), own_ids(8);
  float normalizer = 0.0f, own_normalizer = 0.0f;
  TopCandidatesParams params = {.logits = Tensor(whole.data(), DType::kFloat32, {1, kColumns}),
                                .edits = {&whole_edits, 1},
                                .normalize_first = normalize,
                                .counts = counts,
                                .max_count = 8,
                                .values = values.data(),
                                .ids = ids.data(),
                                .log_normalizers = &normalizer};
  backend->TopCandidates(params);
  edits.penalties[0].id -= kFirst;
  params.logits = Tensor(row.data() + kFirst, DType::kFloat32, {1, kColumns - kFirst});
  params.values = own_values.data();
  params.ids = own_ids.data();
  params.log_normalizers = &own_normalizer;
  params.whole_normalizers = &normalizer;
  backend->TopCandidates(params);
  EXPECT_EQ(own_normalizer, normalizer);
  for (int64_t column = kFirst; column < kColumns; ++column) {
    EXPECT_NEAR(row[column], whole[column], 1e-6) << column;
  }
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(own_values[i], row[kFirst + own_ids[i]], 0.0f);
}

// Whoever's row holds NaN: nobody takes the rest for a distribution.
TEST(ThreadCommunicatorTest, NaNReachesTheMergedNormalizer) {
  std::vector<float> results(2, 0.0f);
  Ranks(2).Run([&](Communicator& communicator) {
    const int r = communicator.rank();
    const std::vector<int32_t> counts = {1}, ids = {0};
    const std::vector<float> values = {1.0f};
    const std::vector<float> normalizers = {r == 0 ? 1.0f : std::nanf("")};
    std::vector<float> merged_values(1);
    std::vector<int32_t> merged_ids(1);
    communicator.MergeCandidates({.counts = counts,
                                  .max_count = 1,
                                  .first_column = r,
                                  .num_columns = 1,
                                  .values = values.data(),
                                  .ids = ids.data(),
                                  .log_normalizers = normalizers.data(),
                                  .merged_values = merged_values.data(),
                                  .merged_ids = merged_ids.data(),
                                  .merged_log_normalizers = &results[r]});
  });
  EXPECT_TRUE(std::isnan(results[0]) && std::isnan(results[1]));
}

TEST(ThreadCommunicatorTest, ManyCallsBehindEachOther) {
  const int num_calls = kSanitized ? 200 : 1000;
  for (const int size : {2, 5}) {
    std::atomic<int> wrong = 0;
    Ranks(size).Run([&](Communicator& communicator) {
      std::vector<float> x(33);
      std::vector<float> whole(size);
      for (int call = 0; call < num_calls; ++call) {
        std::fill(x.begin(), x.end(), static_cast<float>(call + communicator.rank()));
        communicator.AllReduceSum(Tensor(x.data(), DType::kFloat32, {33}));
        const float expected = static_cast<float>(size * call + size * (size - 1) / 2);
        if (x[0] != expected || x[32] != expected) ++wrong;
        communicator.AllGather(Tensor(x.data(), DType::kFloat32, {1}),
                               Tensor(whole.data(), DType::kFloat32, {size}));
        if (whole[size - 1] != expected) ++wrong;
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

TEST(ThreadCommunicatorTest, AbortEndsTheWaitOfOthersForGood) {
  Ranks ranks(3);
  std::vector<float> x(3, 1.0f);
  std::thread aborting([&] {
    std::this_thread::sleep_for(milliseconds(20));
    ranks[0].Abort(absl::InternalError("rank 0 broke"));
  });
  ranks.Run(
      [&](Communicator& communicator) {
        communicator.AllReduceSum(Tensor(&x[communicator.rank()], DType::kFloat32, {1}));
      },
      /*first=*/1);
  aborting.join();
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks[r].status(), absl::UnavailableError("rank 0 broke"));
    ranks[r].AllReduceSum(Tensor(&x[r], DType::kFloat32, {1}));  // returns, alone
  }
  ranks[1].Abort(absl::InternalError("later"));
  EXPECT_EQ(ranks[1].status(), absl::UnavailableError("rank 0 broke"));
}

TEST(ThreadCommunicatorTest, ARankThatDoesNotComeFailsTheOthers) {
  Ranks ranks(4, milliseconds(50));
  std::vector<float> x(4, 1.0f);
  ranks.Run(
      [&](Communicator& communicator) {
        communicator.AllReduceSum(Tensor(&x[communicator.rank()], DType::kFloat32, {1}));
        EXPECT_TRUE(absl::IsUnavailable(communicator.status()));
      },
      /*first=*/1);
  EXPECT_THAT(std::string(ranks[0].status().message()),
              HasSubstr("1 of 4 ranks did not come within 50 ms"));
  ranks[0].AllReduceSum(Tensor(&x[0], DType::kFloat32, {1}));  // too late, and alone
  EXPECT_EQ(x[0], 1.0f);
}

// Aborts that meet collectives anywhere: nobody hangs, and nobody's memory is used after it has
// returned (for sanitizers to see).
TEST(ThreadCommunicatorTest, AbortsAtAnyTime) {
  std::mt19937 random(4);
  for (int round = 0; round < (kSanitized ? 20 : 200); ++round) {
    Ranks ranks(3);
    const auto delay = std::chrono::microseconds(random() % 300);
    std::thread aborting([&] {
      std::this_thread::sleep_for(delay);
      ranks[1].Abort(absl::CancelledError("enough"));
    });
    ranks.Run([&](Communicator& communicator) {
      while (communicator.status().ok()) {
        auto x = std::make_unique<std::vector<float>>(2000, 1.0f);
        communicator.AllReduceSum(Tensor(x->data(), DType::kFloat32, {2000}));
      }
    });
    aborting.join();
    EXPECT_EQ(ranks[2].status().message(), "enough");
  }
}

TEST(ThreadCommunicatorDeathTest, DifferentCollectivesAreAMistake) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(Ranks(2).Run([](Communicator& communicator) {
    float x = 0.0f;
    const Tensor tensor(&x, DType::kFloat32, {1});
    if (communicator.rank() == 0) return communicator.AllReduceSum(tensor);
    communicator.Broadcast(tensor, 0);
  }),
               "CHECK failed");
}

}  // namespace
}  // namespace beamline::thread_communicator_test
