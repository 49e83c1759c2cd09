// TopCandidates against the float64 twin. Long because it is several operators in one: edits,
// normalising and choosing, of whole rows and of columns.
#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/kernels/op_test.h"
#include "tests/kernels/small_cases.h"
#include "tests/sanitized.h"

namespace beamline::candidates_op_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What TopCandidates found, as host arrays.
struct Found {
  std::vector<float> values;
  std::vector<int32_t> ids;
  std::vector<float> log_normalizers;
  std::vector<float> raw_values;
  std::vector<float> edited;
};

class CandidatesTest : public OpTest {
 protected:
  // The rows of logits lie vocab_size + kPadding apart, with numbers between them that beat all.
  static constexpr int kPadding = 3;

  Found Run(const std::vector<float>& logits, int vocab_size,
            const std::vector<const LogitsEdits*>& edits, const std::vector<uint8_t>& normalize,
            const std::vector<int32_t>& counts, const std::vector<float>& whole_normalizers = {}) {
    const int num_rows = static_cast<int>(counts.size());
    const int max_count = *std::max_element(counts.begin(), counts.end());
    const int stride = vocab_size + kPadding;
    std::vector<float> padded(num_rows * stride, 1e30f);
    for (int r = 0; r < num_rows; ++r) {
      std::copy_n(logits.begin() + r * vocab_size, vocab_size, padded.begin() + r * stride);
    }
    const auto device_logits = Upload(padded);
    const auto values = Output(num_rows * max_count);
    const auto ids = UploadIds(std::vector<int32_t>(num_rows * max_count, -7));
    const auto log_normalizers = Output(num_rows);
    const auto raw_values = Output(num_rows * max_count);
    TopCandidatesParams params;
    params.logits = device_logits.tensor({num_rows, stride}).Columns(0, vocab_size);
    params.edits = edits;
    params.normalize_first = normalize;
    params.counts = counts;
    params.max_count = max_count;
    params.values = values.data();
    params.ids = ids.data();
    params.log_normalizers = log_normalizers.data();
    params.raw_values = raw_values.data();
    const auto whole = Upload(whole_normalizers);
    if (!whole_normalizers.empty()) params.whole_normalizers = whole.data();
    backend().TopCandidates(params);
    const std::vector<float> after = device_logits.Read();
    std::vector<float> edited;
    for (int r = 0; r < num_rows; ++r) {
      edited.insert(edited.end(), after.begin() + r * stride,
                    after.begin() + r * stride + vocab_size);
      for (int i = vocab_size; i < stride; ++i) EXPECT_EQ(after[r * stride + i], 1e30f);
    }
    return {values.Read(), ids.Read(), log_normalizers.Read(), raw_values.Read(), edited};
  }

  LogitsEdits RandomEdits(int vocab_size) {
    LogitsEdits edits;
    edits.repetition_penalty = 1.3f;
    edits.presence_penalty = 0.4f;
    edits.frequency_penalty = 0.15f;
    std::vector<int32_t> ids(vocab_size);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(RandomInt(0, 1 << 30)));
    for (int i = 0; i < std::min(60, vocab_size / 2); ++i) {
      const int output_count = RandomInt(0, 4);
      edits.penalties.push_back({ids[i], output_count + RandomInt(0, 1) + 1, output_count});
      edits.biases.push_back({ids[2 * i], RandomInt(0, 3) == 0 ? -kInfinity : 1.5f});
    }
    return edits;
  }

  // Compares one row with the reference: the right scores at the right ids, in order, none better
  // left out.
  static void ExpectRow(const Found& found, int row, int max_count, int count,
                        const std::vector<float>& logits, const LogitsEdits* edits, uint8_t mode) {
    const bool normalize = mode != kEditLogits;
    const bool holds_scores = mode != kNormalizeFirst;
    const reference::CandidatesResult expected = reference::EditScores(logits, edits, normalize);
    const int vocab_size = static_cast<int>(logits.size());
    EXPECT_NEAR(found.log_normalizers[row], expected.log_normalizer,
                2e-6 * (1 + std::abs(expected.log_normalizer)));
    std::vector<double> sorted = expected.scores;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (int i = 0; i < count; ++i) {
      const int32_t id = found.ids[row * max_count + i];
      const float value = found.values[row * max_count + i];
      ASSERT_GE(id, 0);
      ASSERT_LT(id, vocab_size);
      if (std::isinf(expected.scores[id])) {
        EXPECT_EQ(value, -kInfinity);
        EXPECT_EQ(sorted[i], -kInfinity);
      } else {
        EXPECT_NEAR(value, expected.scores[id], 3e-6 * (1 + std::abs(expected.scores[id])));
        EXPECT_NEAR(value, sorted[i], 3e-6 * (1 + std::abs(sorted[i])));
      }
      EXPECT_TRUE(!holds_scores || value == found.edited[row * vocab_size + id]);
      EXPECT_EQ(found.raw_values[row * max_count + i], logits[id]);
      if (i == 0) continue;
      const float before = found.values[row * max_count + i - 1];
      EXPECT_TRUE(before > value || (before == value && found.ids[row * max_count + i - 1] < id));
    }
    for (int i = count; i < max_count; ++i) EXPECT_EQ(found.ids[row * max_count + i], -7);
    for (int id = 0; holds_scores && id < vocab_size; ++id) {
      const float edited = found.edited[row * vocab_size + id];
      if (edited == expected.scores[id]) continue;  // infinities among them
      ASSERT_NEAR(edited, expected.scores[id], 3e-6 * (1 + std::abs(expected.scores[id])));
    }
  }
};
BEAMLINE_INSTANTIATE_OP_TEST(CandidatesTest);

TEST_P(CandidatesTest, MatchesReference) {
  for (int vocab_size : {1, 5, 64, 130, 6001}) {
    const std::vector<int32_t> all_counts = {1, 4, 130, 17, 2, 8, 3, 70, 5};
    std::vector<int32_t> counts;
    for (int32_t count : all_counts) counts.push_back(std::min(count, vocab_size));
    const int num_rows = static_cast<int>(counts.size());
    const int max_count = *std::max_element(counts.begin(), counts.end());
    const std::vector<float> logits = RandomFloats(num_rows * vocab_size, 3.0f);
    const LogitsEdits none;
    const LogitsEdits some = RandomEdits(vocab_size);
    LogitsEdits forced = RandomEdits(vocab_size);
    forced.forced_id = vocab_size / 2;
    const std::vector<const LogitsEdits*> edits = {nullptr, &some,   &some, &none,  &forced,
                                                   &forced, nullptr, &some, &forced};
    const std::vector<uint8_t> normalize = {0, 0, 1, 1, 0, 1, 2, 2, 2};
    const Found found = Run(logits, vocab_size, edits, normalize, counts);
    for (int row = 0; row < num_rows; ++row) {
      SCOPED_TRACE(testing::Message() << "vocabulary " << vocab_size << " row " << row);
      const std::vector<float> row_logits(logits.begin() + row * vocab_size,
                                          logits.begin() + (row + 1) * vocab_size);
      ExpectRow(found, row, max_count, counts[row], row_logits, edits[row], normalize[row]);
    }
  }
}

// Vocabularies of many chunks, and every way of normalising: edits that add (presence, frequency,
// bans, biases), those that multiply, none.
TEST_P(CandidatesTest, MatchesReferenceAtRealVocabularies) {
  for (int vocab_size : {2047, 2049, 50257, 131073}) {
    const std::vector<int32_t> counts = {1, 33, 8, 32, 12, 1, 9, 5};
    const int num_rows = static_cast<int>(counts.size());
    const std::vector<float> logits = RandomFloats(num_rows * vocab_size, 4.0f);
    LogitsEdits adding = RandomEdits(vocab_size), multiplying = RandomEdits(vocab_size);
    adding.repetition_penalty = 1.0f;
    // Edits must also meet the tokens that are chosen.
    for (int row = 0; row < num_rows; ++row) {
      const auto begin = logits.begin() + row * vocab_size;
      const auto best = static_cast<int32_t>(std::max_element(begin, begin + vocab_size) - begin);
      adding.biases.push_back({best, row % 2 == 0 ? -0.25f : 0.125f});
      multiplying.penalties.push_back({best, 2, 1});
    }
    LogitsEdits banning;
    for (int32_t id = 0; id < vocab_size; id += 3) banning.biases.push_back({id, -kInfinity});
    const std::vector<const LogitsEdits*> edits = {nullptr,      nullptr,  &adding,  &adding,
                                                   &multiplying, &banning, &banning, &multiplying};
    const std::vector<uint8_t> normalize = {1, 1, 1, 0, 1, 1, 0, 0};
    const Found found = Run(logits, vocab_size, edits, normalize, counts);
    for (int row = 0; row < num_rows; ++row) {
      SCOPED_TRACE(testing::Message() << "vocabulary " << vocab_size << " row " << row);
      const std::vector<float> row_logits(logits.begin() + row * vocab_size,
                                          logits.begin() + (row + 1) * vocab_size);
      ExpectRow(found, row, 33, counts[row], row_logits, edits[row], normalize[row]);
    }
  }
}

// Columns of one rank: what is subtracted is the whole row's normalizer, which is none of theirs.
TEST_P(CandidatesTest, PartsAreNormalisedByTheWholeRow) {
  for (int vocab_size : {1, 64, 2049, 25129}) {
    // Once as few rows, once as so many that those of few edits are computed by other means.
    for (int num_rows : {9, 4 * 132 * 2048 / std::max(vocab_size, 2048) + 9}) {
      const std::vector<float> logits = RandomFloats(num_rows * vocab_size, 4.0f);
      const LogitsEdits some = RandomEdits(vocab_size);
      LogitsEdits adding = some;
      adding.repetition_penalty = 1.0f;
      std::vector<const LogitsEdits*> edits;
      std::vector<uint8_t> normalize;
      std::vector<int32_t> counts;
      std::vector<float> normalizers;
      for (int row = 0; row < num_rows; ++row) {
        edits.push_back(row % 3 == 0 ? nullptr : row % 3 == 1 ? &some : &adding);
        normalize.push_back(static_cast<uint8_t>(row / 3 % 3));
        counts.push_back(std::min(1 + row % 40, vocab_size));
        normalizers.push_back(7.0f + 0.5f * static_cast<float>(row % 11));
      }
      const int max_count = *std::max_element(counts.begin(), counts.end());
      const Found found = Run(logits, vocab_size, edits, normalize, counts, normalizers);
      for (int row = 0; row < num_rows; ++row) {
        SCOPED_TRACE(testing::Message() << "vocabulary " << vocab_size << " row " << row);
        EXPECT_EQ(found.log_normalizers[row], normalizers[row]);
        // Less the difference of the normalizers the row is one that is normalised by itself.
        std::vector<float> shifted(logits.begin() + row * vocab_size,
                                   logits.begin() + (row + 1) * vocab_size);
        std::vector<double> scores;
        for (float& logit : shifted) {
          if (normalize[row] != kEditLogits) logit -= normalizers[row];
        }
        scores = reference::EditScores(shifted, edits[row], /*normalize=*/false).scores;
        std::vector<double> sorted = scores;
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        for (int i = 0; i < counts[row]; ++i) {
          const int entry = row * max_count + i;
          const double expected = scores[found.ids[entry]];
          EXPECT_EQ(found.raw_values[entry], logits[row * vocab_size + found.ids[entry]]);
          if (std::isinf(expected)) {
            EXPECT_EQ(found.values[entry], -kInfinity);
            continue;
          }
          EXPECT_NEAR(found.values[entry], expected, 3e-6 * (1 + std::abs(expected)));
          EXPECT_NEAR(found.values[entry], sorted[i], 3e-6 * (1 + std::abs(sorted[i])));
        }
      }
    }
  }
}

TEST_P(CandidatesTest, TiesGoToTheLowerId) {
  std::vector<float> logits(6001, 1.0f);
  logits[4000] = 2.0f;
  for (uint8_t normalize : {0, 1}) {
    const Found found = Run(logits, 6001, {nullptr}, {normalize}, {5});
    EXPECT_EQ(found.ids, (std::vector<int32_t>{4000, 0, 1, 2, 3}));
    const Found many = Run(logits, 6001, {nullptr}, {normalize}, {40});
    for (int i = 1; i < 40; ++i) EXPECT_EQ(many.ids[i], i - 1);
  }
}

TEST_P(CandidatesTest, TiesOfManyChunksGoToTheLowerId) {
  std::vector<float> logits(131073, -2.0f);
  for (int count : {8, 32}) {
    for (uint8_t normalize : {0, 1}) {
      const Found found = Run(logits, 131073, {nullptr}, {normalize}, {count});
      for (int i = 0; i < count; ++i) EXPECT_EQ(found.ids[i], i);
    }
  }
}

// So many rows that a device computes those of few edits by other means, beside others: bans of the
// best token and of none of the best, several edits of one id, forced tokens.
TEST_P(CandidatesTest, FewEditsOfManyRows) {
  for (int vocab_size : {2049, 9001, 30000}) {
    const int num_rows = 4 * 132 * 2048 / vocab_size + 9;
    std::vector<int32_t> counts;
    std::vector<uint8_t> normalize;
    std::vector<LogitsEdits> edits(num_rows);
    std::vector<const LogitsEdits*> all;
    const std::vector<float> logits = RandomFloats(num_rows * vocab_size, 4.0f);
    for (int row = 0; row < num_rows; ++row) {
      counts.push_back(row % 11 == 10 ? 33 : 1 + row % 8);
      normalize.push_back(row % 3 == 2 ? kEditLogits : kNormalizeFirst);
      const auto begin = logits.begin() + int64_t{row} * vocab_size;
      const auto best = static_cast<int32_t>(std::max_element(begin, begin + vocab_size) - begin);
      std::vector<LogitsEdits::Bias>& biases = edits[row].biases;
      if (row % 5 != 0) biases.push_back({vocab_size - 1, -kInfinity});
      if (row % 5 == 2) biases.push_back({best, row % 2 == 0 ? -kInfinity : -0.5f});
      if (row % 5 == 3) biases.insert(biases.end(), {{best, 0.25f}, {best, -1.5f}, {0, 9.0f}});
      for (int i = 0; row % 5 == 4 && i < 4 + row % 8; ++i) biases.push_back({7 * i, 2.0f});
      if (row % 13 == 12) edits[row].forced_id = best / 2;
    }
    for (const LogitsEdits& of_row : edits) all.push_back(&of_row);
    const Found found = Run(logits, vocab_size, all, normalize, counts);
    for (int row = 0; row < num_rows; ++row) {
      SCOPED_TRACE(testing::Message() << "vocabulary " << vocab_size << " row " << row);
      const auto begin = logits.begin() + int64_t{row} * vocab_size;
      ExpectRow(found, row, 33, counts[row], std::vector<float>(begin, begin + vocab_size),
                all[row], normalize[row]);
    }
  }
}

// As requests with a model's defaults ask: the same few edits of all of them.
TEST_P(CandidatesTest, FewEditsThatManyRowsShare) {
  for (int vocab_size : {2049, 30000}) {
    if (kSanitized && vocab_size > 2055) continue;
    const int num_rows = 4 * 132 * 2048 / vocab_size + 9;
    const std::vector<float> logits = RandomFloats(num_rows * vocab_size, 4.0f);
    LogitsEdits few, bans, forced;
    few.biases = {{vocab_size - 1, -kInfinity}, {7, 2.0f}, {0, 9.0f}, {7, -0.5f}};
    for (int32_t id = 0; id < 8; ++id) bans.biases.push_back({id * 250, -kInfinity});
    forced.forced_id = vocab_size / 2;
    for (const LogitsEdits* edits : {&few, &bans, &forced}) {
      for (const uint8_t normalize : {kEditLogits, kNormalizeFirst}) {
        for (const int32_t count : {1, 8}) {
          const Found found =
              Run(logits, vocab_size, std::vector(num_rows, edits),
                  std::vector<uint8_t>(num_rows, normalize), std::vector<int32_t>(num_rows, count));
          for (int row = 0; row < num_rows; ++row) {
            SCOPED_TRACE(testing::Message() << vocab_size << ", best " << count << ", row " << row);
            const auto begin = logits.begin() + int64_t{row} * vocab_size;
            ExpectRow(found, row, count, count, std::vector<float>(begin, begin + vocab_size),
                      edits, normalize);
          }
        }
      }
    }
  }
}

// So many rows that a block has one of them: more ties than a list holds, the best in one place,
// fewer numbers than candidates.
TEST_P(CandidatesTest, ManyRowsOfTiesAndFewNumbers) {
  constexpr int kKinds = 7, kVocabSize = 30000;
  const int num_rows = SmallCases() || kSanitized ? 21 : 150;
  for (const int count : {1, 8}) {
    std::vector<float> logits = RandomFloats(num_rows * kVocabSize, 3.0f);
    for (int row = 0; row < num_rows; ++row) {
      const std::span<float> own = std::span(logits).subspan(row * kVocabSize, kVocabSize);
      const int kind = row % kKinds;
      if (kind == 1) std::fill(own.begin(), own.end(), 1.5f);
      if (kind == 2) {
        for (int i = 0; i < 30; ++i) own[row * 137 + i] = 20.0f + static_cast<float>(i % 11);
      }
      if (kind == 3) {
        for (int i = 0; i < kVocabSize; ++i) own[i] = i % 9973 == row ? -40.0f : -kInfinity;
      }
      if (kind == 4) {
        for (int i = row; i < kVocabSize; i += 150) own[i] = 17.0f;
      }
      if (kind == 5) {
        for (int i = 0; i < kVocabSize; ++i) own[i] = i / 2048 == row % 15 ? own[i] : -kInfinity;
      }
      if (kind == 6) {
        for (int i = 0; i < kVocabSize; i += 3) own[i] = std::nanf("");
        own[row * 150 + 1 + row % 2] = 50.0f;
      }
    }
    const Found found =
        Run(logits, kVocabSize, std::vector<const LogitsEdits*>(num_rows, nullptr),
            std::vector<uint8_t>(num_rows, kNormalizeFirst), std::vector<int32_t>(num_rows, count));
    const Found edited =
        Run(logits, kVocabSize, std::vector<const LogitsEdits*>(num_rows, nullptr),
            std::vector<uint8_t>(num_rows, kEditLogits), std::vector<int32_t>(num_rows, count));
    for (int row = 0; row < num_rows; ++row) {
      SCOPED_TRACE(testing::Message() << "row " << row << ", " << count << " candidates");
      if (row % kKinds == 6) {  // NaN among numbers
        EXPECT_EQ(edited.ids[row * count], row * 150 + 1 + row % 2);
        continue;
      }
      const auto begin = logits.begin() + int64_t{row} * kVocabSize;
      const std::vector<float> own(begin, begin + kVocabSize);
      ExpectRow(found, row, count, count, own, nullptr, kNormalizeFirst);
      ExpectRow(edited, row, count, count, own, nullptr, kEditLogits);
    }
  }
}

// A device may compute rows of no or few edits by other means: to the same bits. Vocabularies of
// one chunk, of part of one, and of many; numbers of which many are equal.
TEST_P(CandidatesTest, AnEditThatChangesNothingChangesNoBit) {
  for (int vocab_size : {40, 2048, 2055, 30000, 131073}) {
    if (kSanitized && vocab_size > 2055) continue;
    for (int count : {1, 8, 32}) {
      for (float step : {0.0f, 0.5f}) {
        // Of long vocabularies as many as a GPU needs to prefer the other means.
        const int num_rows = vocab_size < 10000 ? 3 : 1 + 540 * 2048 / vocab_size;
        std::vector<float> logits = RandomFloats(num_rows * vocab_size, 4.0f);
        for (float& logit : logits) {
          if (step > 0) logit = std::round(logit / step) * step + 0.25f;
        }
        LogitsEdits nothing, often_nothing;
        nothing.biases.push_back({vocab_size / 2, 0.0f});
        for (int32_t id = 0; id < 20; ++id) often_nothing.biases.push_back({id, 0.0f});
        for (uint8_t normalize : {0, 1}) {
          SCOPED_TRACE(testing::Message() << vocab_size << ", best " << count << ", step " << step
                                          << (normalize != 0 ? ", normalised" : ""));
          const std::vector<uint8_t> normalized(num_rows, normalize);
          const std::vector<int32_t> counts(num_rows, count);
          const auto run = [&](const LogitsEdits* most, const LogitsEdits* second) {
            std::vector<const LogitsEdits*> edits(num_rows, most);
            edits[1] = second;
            return Run(logits, vocab_size, edits, normalized, counts);
          };
          const Found plain = run(nullptr, nullptr);
          const Found mixed = run(nullptr, &nothing);
          const Found edited = run(&nothing, &nothing);
          const Found often = run(&often_nothing, &nothing);
          for (const Found* other : {&mixed, &edited, &often}) {
            EXPECT_EQ(plain.ids, other->ids);
            ExpectSameBits(plain.values, other->values);
            ExpectSameBits(plain.log_normalizers, other->log_normalizers);
            ExpectSameBits(plain.raw_values, other->raw_values);
          }
        }
      }
    }
  }
}

// Few rows of few edits, which a device may compute by other means than beside a row that asks for
// more: the twin's numbers, and the same bits in both companies. Of random numbers, of few
// different ones, of equal ones, which no list of the best holds, and of some that are none; also
// where all want their best alone.
TEST_P(CandidatesTest, FewRowsOfFewEdits) {
  enum { kRandom, kRounded, kEqual, kNone, kNumKinds };
  for (int vocab_size : {8193, 16384, 30000, 50257, 65536}) {
    for (int turn = 0; turn < 2 * kNumKinds; ++turn) {
      const int kind = turn % kNumKinds;
      const bool bests = turn >= kNumKinds;
      if (kSanitized && vocab_size > (bests ? 8193 : 16384)) continue;
      const int num_rows = RandomInt(1, 16);
      SCOPED_TRACE(testing::Message() << num_rows << " rows of " << vocab_size << ", " << turn);
      std::vector<float> logits = RandomFloats((num_rows + 1) * vocab_size, 4.0f);
      for (float& logit : logits) {
        if (kind == kRounded) logit = std::round(2.0f * logit) / 2.0f;
        if (kind == kEqual) logit = -1.5f;
        if (kind == kNone && logit < -4.0f) logit = logit < -6.0f ? std::nanf("") : -kInfinity;
      }
      std::vector<LogitsEdits> edits(num_rows + 1);
      std::vector<const LogitsEdits*> all;
      std::vector<uint8_t> normalize;
      std::vector<int32_t> counts;
      std::vector<float> whole;
      for (int row = 0; row <= num_rows; ++row) {
        const auto begin = logits.begin() + row * vocab_size;
        const auto best = static_cast<int32_t>(std::max_element(begin, begin + vocab_size) - begin);
        std::vector<LogitsEdits::Bias>& biases = edits[row].biases;
        const int edited = RandomInt(0, 4);
        if (edited == 1) biases = {{vocab_size - 1, -kInfinity}};
        if (edited == 2) biases = {{best, -0.5f}, {0, 9.0f}, {best, 0.25f}};
        if (edited == 3) biases = {{best, -kInfinity}, {vocab_size / 2, 2.5f}, {4097, 0.0f}};
        if (edited == 4 && row < num_rows) edits[row].forced_id = best / 2;
        const int count = bests ? 1 : RandomInt(0, 1) == 0 ? 8 : RandomInt(1, 32);
        counts.push_back(row == num_rows ? 33 : edited == 4 ? 1 : count);
        normalize.push_back(RandomInt(0, 1) == 0 ? kEditLogits : kNormalizeFirst);
        all.push_back(&edits[row]);
        if (kind == kNone) whole.push_back(3.0f + 0.5f * static_cast<float>(row));
      }
      const Found beside = Run(logits, vocab_size, all, normalize, counts, whole);
      logits.resize(num_rows * vocab_size);
      all.resize(num_rows), normalize.resize(num_rows), counts.resize(num_rows);
      whole.resize(std::min<size_t>(whole.size(), num_rows));
      const Found alone = Run(logits, vocab_size, all, normalize, counts, whole);
      const int most = *std::max_element(counts.begin(), counts.end());
      for (int row = 0; row < num_rows; ++row) {
        const auto of_alone = [&](const auto& of_rows) {
          return std::span(of_rows).subspan(row * most, counts[row]);
        };
        const auto of_beside = [&](const auto& of_rows) {
          return std::span(of_rows).subspan(row * 33, counts[row]);
        };
        EXPECT_TRUE(std::ranges::equal(of_alone(alone.ids), of_beside(beside.ids)));
        ExpectSameBits(of_alone(alone.values), of_beside(beside.values));
        ExpectSameBits(of_alone(alone.raw_values), of_beside(beside.raw_values));
        ExpectSameBits(std::span(alone.log_normalizers).subspan(row, 1),
                       std::span(beside.log_normalizers).subspan(row, 1));
        const auto begin = logits.begin() + row * vocab_size;
        if (normalize[row] == kEditLogits && edits[row].forced_id < 0) {
          ExpectSameBits(std::span(alone.edited).subspan(row * vocab_size, vocab_size),
                         std::span(beside.edited).subspan(row * vocab_size, vocab_size));
        }
        if (kind == kNone) continue;  // nor is the twin told the normalizer
        ExpectRow(alone, row, most, counts[row], std::vector<float>(begin, begin + vocab_size),
                  all[row], normalize[row]);
      }
    }
  }
}

// The best stand close together: in one group of threads of one chunk, or in ascending order.
TEST_P(CandidatesTest, FindsNeighbours) {
  const int vocab_size = 9000;
  std::vector<float> rising(vocab_size), crowded(vocab_size, -5.0f);
  std::iota(rising.begin(), rising.end(), -4000.0f);
  for (int i = 0; i < 32; ++i) crowded[4096 + i] = static_cast<float>(i / 2);
  for (int count : {1, 7, 32, 33}) {
    const Found rose = Run(rising, vocab_size, {nullptr}, {0}, {count});
    for (int i = 0; i < count; ++i) EXPECT_EQ(rose.ids[i], vocab_size - 1 - i);
    const Found crowd = Run(crowded, vocab_size, {nullptr}, {1}, {count});
    for (int i = 0; i < std::min(count, 32); ++i) {
      EXPECT_EQ(crowd.ids[i], 4096 + (31 - i) / 2 * 2 + i % 2) << count;
    }
    EXPECT_TRUE(count < 33 || crowd.ids[32] == 0);
  }
}

TEST_P(CandidatesTest, RowsDoNotDependOnTheirBatch) {
  const int vocab_size = 777;
  const int num_rows = 9;
  const std::vector<float> logits = RandomFloats(num_rows * vocab_size, 2.0f);
  const LogitsEdits edits = RandomEdits(vocab_size);
  for (uint8_t normalize : {0, 1}) {
    const Found all =
        Run(logits, vocab_size, std::vector<const LogitsEdits*>(num_rows, &edits),
            std::vector<uint8_t>(num_rows, normalize), std::vector<int32_t>(num_rows, 12));
    for (int row = 0; row < num_rows; ++row) {
      const std::vector<float> one(logits.begin() + row * vocab_size,
                                   logits.begin() + (row + 1) * vocab_size);
      const Found alone = Run(one, vocab_size, {&edits}, {normalize}, {12});
      ExpectSameBits(alone.values, std::span(all.values).subspan(row * 12, 12));
      for (int i = 0; i < 12; ++i) EXPECT_EQ(alone.ids[i], all.ids[row * 12 + i]);
      if (normalize != 0) continue;  // its logits may be anything now
      ExpectSameBits(alone.edited, std::span(all.edited).subspan(row * vocab_size, vocab_size));
    }
  }
}

// Chunks whose candidates are merged at once, and in several parts.
TEST_P(CandidatesTest, MergesManyChunks) {
  for (int vocab_size : {50257, 262144}) {
    const LogitsEdits some = RandomEdits(vocab_size);
    for (const std::vector<int32_t>& counts :
         {std::vector<int32_t>{9, 1}, std::vector<int32_t>{130, 9}}) {
      const std::vector<float> logits = RandomFloats(counts.size() * vocab_size, 3.0f);
      const Found found = Run(logits, vocab_size, {&some, nullptr}, {1, 0}, counts);
      for (int row = 0; row < 2; ++row) {
        SCOPED_TRACE(testing::Message() << "vocabulary " << vocab_size << " row " << row);
        const std::vector<float> row_logits(logits.begin() + row * vocab_size,
                                            logits.begin() + (row + 1) * vocab_size);
        ExpectRow(found, row, counts[0], counts[row], row_logits, row == 0 ? &some : nullptr,
                  row == 0);
      }
    }
  }
}

TEST_P(CandidatesTest, SurvivesNumbersThatAreNone) {
  const float nan = std::nanf("");
  const int vocab_size = 200;
  std::vector<float> logits(5 * vocab_size);
  std::fill_n(logits.begin(), vocab_size, nan);
  std::fill_n(logits.begin() + vocab_size, vocab_size, -kInfinity);
  std::fill_n(logits.begin() + 2 * vocab_size, vocab_size, kInfinity);
  for (int i = 0; i < vocab_size; ++i) logits[3 * vocab_size + i] = i % 3 == 0 ? nan : float(i);
  for (int i = 0; i < vocab_size; ++i)
    logits[4 * vocab_size + i] = i % 3 == 0 ? -kInfinity : float(i);
  for (uint8_t normalize : {0, 1}) {
    const Found found = Run(logits, vocab_size, std::vector<const LogitsEdits*>(5, nullptr),
                            std::vector<uint8_t>(5, normalize), std::vector<int32_t>(5, 9));
    for (int32_t id : found.ids) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, vocab_size);
    }
    EXPECT_EQ(found.ids[4 * 9], 199);
    EXPECT_TRUE(normalize != 0 || found.ids[3 * 9] == 199);
  }
}

}  // namespace
}  // namespace beamline::candidates_op_test
