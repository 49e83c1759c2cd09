#include <algorithm>
#include <limits>

#include "tests/kernels/op_test.h"
#include "tests/kernels/small_cases.h"

namespace beamline::sample_op_test {
namespace {

class SampleTest : public OpTest {
 protected:
  std::vector<int32_t> Draw(const std::vector<float>& logits, int vocab_size,
                            const std::vector<SampleRow>& rows) {
    const auto device_logits = Upload(logits);
    const auto ids = UploadIds(std::vector<int32_t>(rows.size(), -7));
    SampleParams params;
    params.logits =
        device_logits.tensor({static_cast<int64_t>(logits.size()) / vocab_size, vocab_size});
    params.rows = rows;
    params.ids = ids.data();
    const auto values = Output(rows.size());
    params.values = values.data();
    backend().Sample(params);
    ExpectSameBits(device_logits.Read(), logits);
    const std::vector<int32_t> drawn = ids.Read();
    const std::vector<float> drawn_values = values.Read();
    std::vector<float> expected_values;
    for (size_t i = 0; i < rows.size(); ++i) {
      expected_values.push_back(logits[static_cast<size_t>(rows[i].row) * vocab_size + drawn[i]]);
    }
    ExpectSameBits(drawn_values, expected_values);
    return drawn;
  }

  // Draws many tokens of one row and compares their frequencies with the reference's probabilities.
  void ExpectDistribution(const std::vector<float>& logits, const SampleRow& options) {
    const int vocab_size = static_cast<int>(logits.size());
    const int num_draws = 4000;
    std::vector<SampleRow> rows(num_draws, options);
    for (int i = 0; i < num_draws; ++i) rows[i].position = i;
    const std::vector<int32_t> ids = Draw(logits, vocab_size, rows);
    const std::vector<double> expected = reference::SampleProbabilities(logits, options);
    std::vector<int> counts(vocab_size);
    for (int32_t id : ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, vocab_size);
      ++counts[id];
    }
    for (int id = 0; id < vocab_size; ++id) {
      EXPECT_LE(Surprise(counts[id], num_draws, expected[id]), 25)
          << "token " << id << " of probability " << expected[id] << " was drawn " << counts[id]
          << " times in " << num_draws;
    }
  }

 private:
  // Chernoff's bound: a binomial count lies as far from its mean as `count`, on that side, with a
  // probability of at most exp(-surprise); so for rare tokens too, to whose counts a number of
  // standard deviations says little. Infinite for what cannot happen.
  static double Surprise(int count, int num_draws, double probability) {
    const auto part = [](double observed, double expected) {
      return observed == 0 ? 0 : observed * std::log(observed / expected);
    };
    const double share = static_cast<double>(count) / num_draws;
    return num_draws * (part(share, probability) + part(1 - share, 1 - probability));
  }
};
BEAMLINE_INSTANTIATE_OP_TEST(SampleTest);

TEST_P(SampleTest, FollowsTheFilteredDistribution) {
  const SampleRow cases[] = {
      {},
      {.temperature = 0.5f},
      {.top_k = 5},
      {.top_k = 100},
      {.top_p = 0.7f},
      {.temperature = 3.0f, .top_p = 0.95f},
      {.top_p = 0.0f},
      {.min_p = 0.2f},
      {.typical_p = 0.4f},
      {.temperature = 1.5f, .top_k = 30, .top_p = 0.8f, .min_p = 0.05f, .typical_p = 0.9f},
  };
  for (int vocab_size : {1, 11, 150}) {
    const std::vector<float> logits = RandomFloats(vocab_size, 1.5f);
    for (size_t i = 0; i < std::size(cases); ++i) {
      SCOPED_TRACE(testing::Message() << "vocabulary " << vocab_size << " case " << i);
      SampleRow options = cases[i];
      options.seed = 0x123456789abcdefull + i;
      options.sequence = 3;
      ExpectDistribution(logits, options);
    }
  }
}

// Only tokens that the reference keeps are drawn from a large vocabulary, by each filter.
TEST_P(SampleTest, FiltersALargeVocabulary) {
  const int vocab_size = 6001;
  const std::vector<float> logits = RandomFloats(vocab_size, 2.0f);
  const SampleRow cases[] = {{.top_k = 130},
                             {.top_p = 0.3f},
                             {.top_p = 0.99f},
                             {.temperature = 8.0f, .top_p = 0.9f},
                             {.typical_p = 0.5f},
                             {.min_p = 0.01f},
                             {.top_k = 3000, .top_p = 0.9f}};
  for (const SampleRow& options : cases) {
    std::vector<SampleRow> rows(SmallCases() ? 20 : 500, options);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].sequence = static_cast<uint32_t>(i);
    const std::vector<double> expected = reference::SampleProbabilities(logits, options);
    for (int32_t id : Draw(logits, vocab_size, rows)) {
      EXPECT_GT(expected[id], 0) << "token " << id << " was filtered out";
    }
  }
}

TEST_P(SampleTest, DrawsFromRealVocabularies) {
  for (int vocab_size : {50257, 262144}) {
    SCOPED_TRACE(vocab_size);
    const std::vector<float> logits = RandomFloats(vocab_size, 2.0f);
    for (const SampleRow& options :
         {SampleRow{.top_k = 1}, SampleRow{.top_k = 9}, SampleRow{.top_k = 130, .top_p = 0.9f}}) {
      std::vector<SampleRow> rows(4, options);
      for (size_t i = 0; i < rows.size(); ++i) rows[i].sequence = static_cast<uint32_t>(i);
      const std::vector<double> expected = reference::SampleProbabilities(logits, options);
      for (int32_t id : Draw(logits, vocab_size, rows)) {
        EXPECT_GT(expected[id], 0) << "token " << id << " was filtered out";
      }
    }
    // Equal tokens: the most mass that can be. Draws cover the vocabulary.
    std::vector<SampleRow> rows(48);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].position = static_cast<uint32_t>(i);
    const std::vector<int32_t> ids = Draw(std::vector<float>(vocab_size, 1.5f), vocab_size, rows);
    const auto [least, most] = std::minmax_element(ids.begin(), ids.end());
    EXPECT_LT(*least, vocab_size / 4);
    EXPECT_GE(*most, vocab_size / 4 * 3);
    EXPECT_LT(*most, vocab_size);
  }
}

TEST_P(SampleTest, RepeatsAloneAndInAnyBatch) {
  const int vocab_size = 501;
  const int num_rows = 12;
  const std::vector<float> logits = RandomFloats(num_rows * vocab_size);
  std::vector<SampleRow> rows;
  for (int i = 0; i < num_rows; ++i) {
    rows.push_back({.row = i,
                    .top_k = i % 2 == 0 ? 40 : 0,
                    .top_p = i % 3 == 0 ? 0.9f : 1.0f,
                    .seed = 42,
                    .sequence = static_cast<uint32_t>(i),
                    .position = 17});
  }
  const std::vector<int32_t> all = Draw(logits, vocab_size, rows);
  for (int i = 0; i < num_rows; ++i) {
    const std::vector<float> one(logits.begin() + i * vocab_size,
                                 logits.begin() + (i + 1) * vocab_size);
    SampleRow row = rows[i];
    row.row = 0;
    EXPECT_EQ(Draw(one, vocab_size, {row})[0], all[i]);
  }
}

TEST_P(SampleTest, NeverDrawsABannedToken) {
  const int vocab_size = 300;
  std::vector<float> logits = RandomFloats(vocab_size);
  for (int i = 0; i < vocab_size; ++i) {
    if (i % 7 != 3) logits[i] = -std::numeric_limits<float>::infinity();
  }
  std::vector<SampleRow> rows(2000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].position = static_cast<uint32_t>(i);
  for (int32_t id : Draw(logits, vocab_size, rows)) EXPECT_EQ(id % 7, 3);
}

TEST_P(SampleTest, SurvivesNumbersThatAreNone) {
  const int vocab_size = 100;
  const float infinity = std::numeric_limits<float>::infinity();
  for (float value : {std::nanf(""), infinity, -infinity}) {
    std::vector<float> logits(2 * vocab_size, value);
    for (int i = 0; i < vocab_size; ++i) logits[vocab_size + i] = i % 2 == 0 ? value : 1.0f;
    std::vector<SampleRow> rows;
    for (int row : {0, 1}) {
      rows.push_back({.row = row});
      rows.push_back({.row = row, .top_k = 7});
      rows.push_back({.row = row, .top_p = 0.5f});
      rows.push_back({.row = row, .min_p = 0.1f});
      rows.push_back({.row = row, .typical_p = 0.5f});
    }
    for (int32_t id : Draw(logits, vocab_size, rows)) {
      EXPECT_GE(id, 0);
      EXPECT_LT(id, vocab_size);
    }
  }
}

// What lies between the rows is never drawn.
TEST_P(SampleTest, HonoursTheRowStride) {
  const int vocab_size = 501, stride = 512, num_rows = 3;
  std::vector<float> padded(num_rows * stride, 1e30f), packed;
  for (int r = 0; r < num_rows; ++r) {
    const std::vector<float> row = RandomFloats(vocab_size, 2.0f);
    std::copy(row.begin(), row.end(), padded.begin() + r * stride);
    packed.insert(packed.end(), row.begin(), row.end());
  }
  std::vector<SampleRow> rows;
  for (int i = 0; i < 30; ++i) {
    rows.push_back({.row = i % num_rows, .top_p = i % 2 == 0 ? 1.0f : 0.7f});
    rows.back().position = static_cast<uint32_t>(i);
  }
  const auto logits = Upload(padded);
  const auto ids = UploadIds(std::vector<int32_t>(rows.size(), -7));
  const auto values = Output(rows.size());
  SampleParams params;
  params.values = values.data();
  params.logits = logits.tensor({num_rows, stride}).Columns(0, vocab_size);
  params.rows = rows;
  params.ids = ids.data();
  backend().Sample(params);
  EXPECT_EQ(ids.Read(), Draw(packed, vocab_size, rows));
}

}  // namespace
}  // namespace beamline::sample_op_test
