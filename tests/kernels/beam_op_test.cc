// AdvanceBeams and ReorderBeams against plain searches over everything.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "kernels/beam_tails.h"
#include "tests/kernels/op_test.h"

namespace beamline::beam_op_test {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Uniform in [low, high].
using RandomIntFunction = std::function<int(int low, int high)>;

class BeamOpTest : public OpTest {};
BEAMLINE_INSTANTIATE_OP_TEST(BeamOpTest);

// What one search should go on with.
struct Beam {
  int32_t parent;
  int32_t token;
  float score;
};

struct RandomSearches {
  int32_t max_count = 0;
  std::vector<float> values;
  std::vector<int32_t> ids;
  std::vector<int32_t> counts;
  std::vector<float> words;
  std::vector<float> normalizers;          // of rows
  std::vector<std::vector<float>> scores;  // of each search's rows
  std::vector<std::vector<int32_t>> end_ids;
  std::vector<BeamSearch> searches;
};

std::vector<Beam> Expected(const RandomSearches& r, size_t s) {
  const BeamSearch& search = r.searches[s];
  std::vector<std::tuple<float, int32_t, int32_t, int32_t>> all;  // -score, row, index, token
  for (int32_t row = 0; row < search.num_rows; ++row) {
    const size_t first = static_cast<size_t>(search.first_row + row) * r.max_count;
    for (int32_t i = 0; i < r.counts[search.first_row + row]; ++i) {
      float value = r.values[first + i];
      if (search.renormalize) value -= r.normalizers[search.first_row + row];
      const float score = value + r.scores[s][row];
      if (std::isnan(score) || score == kNever) break;
      all.emplace_back(-score, row, i, r.ids[first + i]);
    }
  }
  std::sort(all.begin(), all.end());
  std::vector<Beam> beams;
  for (const auto& [negative, row, index, token] : all) {
    if (beams.size() == static_cast<size_t>(search.width)) break;
    if (std::ranges::count(r.end_ids[s], token) == 0) beams.push_back({row, token, -negative});
  }
  for (auto i = static_cast<int32_t>(beams.size()); i < search.width; ++i) {
    beams.push_back({std::min(i, search.num_rows - 1), 0, kNever});
  }
  return beams;
}

// Coarse values tie often; some rows end early, by a ban or by a NaN.
std::vector<float> RandomValues(const RandomIntFunction& random, int count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random(-20, 0)) / 4;
  std::ranges::sort(values, std::greater{});
  if (random(0, 3) == 0) {
    std::fill(values.begin() + random(0, count - 1), values.end(),
              random(0, 1) == 0 ? kNever : NAN);
  }
  return values;
}

RandomSearches MakeSearches(const RandomIntFunction& random, bool wide) {
  RandomSearches r;
  r.max_count = random(1, random(0, 1) == 0 ? 4 : 12);
  const int num_searches = random(1, 9);
  r.scores.resize(num_searches);
  r.end_ids.resize(num_searches);
  for (int s = 0; s < num_searches; ++s) {
    BeamSearch& search = r.searches.emplace_back();
    search.first_row = static_cast<int32_t>(r.counts.size());
    search.width = wide ? random(30, 70) : random(1, 9);
    search.num_rows = random(0, 2) == 0 ? 1 : random(1, search.width);
    search.renormalize = random(0, 1) == 0;
    for (int32_t row = 0; row < search.num_rows; ++row) {
      r.counts.push_back(random(1, r.max_count));
      r.normalizers.push_back(static_cast<float>(random(-3, 3)) / 4);
      const std::vector<float> values = RandomValues(random, r.max_count);
      r.values.insert(r.values.end(), values.begin(), values.end());
      for (int32_t i = 0; i < r.max_count; ++i) r.ids.push_back(random(0, 20));
      r.scores[s].push_back(random(0, 9) == 0 ? kNever : static_cast<float>(random(-40, 0)) / 4);
    }
    for (int i = random(0, 4); i > 0; --i) r.end_ids[s].push_back(random(0, 20));
    search.end_ids = r.end_ids[s];
    if (random(0, 1) == 0) {
      search.scores = r.scores[s];
    } else {
      r.words.resize(r.words.size() + random(0, 3), 1e9f);
      search.score_word = static_cast<int32_t>(r.words.size());
      r.words.insert(r.words.end(), r.scores[s].begin(), r.scores[s].end());
    }
  }
  return r;
}

TEST_P(BeamOpTest, GoesOnWithTheBestCandidates) {
  for (int round = 0; round < 40; ++round) {
    const RandomSearches r =
        MakeSearches([this](int low, int high) { return RandomInt(low, high); }, round % 8 == 7);
    size_t num_beams = 0;
    for (const BeamSearch& search : r.searches) num_beams += search.width;
    const DeviceArray<float> values(backend(), r.values), words(backend(), r.words);
    const DeviceArray<float> normalizers(backend(), r.normalizers);
    const DeviceArray<int32_t> ids(backend(), r.ids);
    const std::vector<int32_t> poison(num_beams, -77);
    const DeviceArray<int32_t> parents(backend(), poison), tokens(backend(), poison);
    const DeviceArray<float> scores(backend(), std::vector<float>(num_beams, NAN));
    AdvanceBeamsParams params;
    params.values = values.data();
    params.ids = ids.data();
    params.counts = r.counts;
    params.max_count = r.max_count;
    params.normalizers = normalizers.data();
    params.searches = r.searches;
    params.words = words.data();
    params.parents = parents.data();
    params.tokens = tokens.data();
    params.scores = scores.data();
    backend().AdvanceBeams(params);
    const auto actual_parents = parents.Read(), actual_tokens = tokens.Read();
    const auto actual_scores = scores.Read();
    size_t beam = 0;
    for (size_t s = 0; s < r.searches.size(); ++s) {
      for (const Beam& expected : Expected(r, s)) {
        ASSERT_EQ(actual_parents[beam], expected.parent) << "round " << round << ", search " << s;
        ASSERT_EQ(actual_tokens[beam], expected.token);
        ASSERT_EQ(actual_scores[beam], expected.score);
        ++beam;
      }
    }
  }
}

TEST(BeamTailsTest, EveryRowGetsABlockOfItsOwn) {
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    const int n = 1 + static_cast<int>(random() % 12);
    std::vector<int32_t> parents(n);
    for (int32_t& parent : parents) parent = static_cast<int32_t>(random() % n);
    std::vector<BeamTail> tails(n);
    AssignTails(parents, tails);
    std::vector<int> owners(n, 0);
    for (int i = 0; i < n; ++i) {
      ++owners[tails[i].blocks_of];
      // Who copies nothing goes on in its parent's block; who copies writes to a block that nobody
      // copies from.
      if (!tails[i].copied) {
        EXPECT_EQ(tails[i].blocks_of, parents[i]);
      } else {
        EXPECT_EQ(std::ranges::count(parents, tails[i].blocks_of), 0);
      }
    }
    EXPECT_EQ(owners, std::vector<int>(n, 1));
  }
}

// One step of ReorderBeams on caches whose every element is its own number.
class ReorderCase {
 public:
  // With `many_layers`, more than one launch takes, and then little in them.
  // The host says what it knows of the tables, or not.
  ReorderCase(Backend& backend, const RandomIntFunction& random, int most_rows, bool many_layers)
      : max_blocks_(random(1, random(0, 1) == 0 ? 4 : 70)),
        num_heads_(random(1, many_layers ? 1 : 3)),
        host_knows_(random(0, 3) > 0) {
    block_size_ = 1 << random(0, many_layers ? 2 : 4);
    // Odd head sizes too: elements are then moved a few at a time.
    head_dim_ = random(0, 1) == 0 ? 8 * random(1, many_layers ? 1 : 8) : random(1, 18);
    for (int g = random(1, 5); g > 0; --g) AddGroup(random, random(1, most_rows));
    for (int32_t token = 0; token < static_cast<int32_t>(slots_.size()); ++token) {
      if (random(0, 2) == 0) continue;
      fills_.push_back({random(0, static_cast<int>(words_.size()) - 1), token});
    }
    layers_.resize(many_layers ? 35 : random(1, 3), {.key_layout = backend.key_layout()});
    std::vector<float> contents(next_block_ * BlockElements());
    for (size_t i = 0; i < 2 * layers_.size(); ++i) {
      // Exact in float32: there are fewer than 2^24.
      std::iota(contents.begin(), contents.end(), static_cast<float>(i));
      caches_.emplace_back(backend, contents);
      (i % 2 == 0 ? layers_[i / 2].keys : layers_[i / 2].values) =
          caches_.back().tensor({next_block_, num_heads_, block_size_, head_dim_});
    }
  }

  void Run(Backend& backend) {
    const DeviceArray<int32_t> tables(backend, tables_), words(backend, words_);
    const DeviceArray<int32_t> slots(backend, slots_);
    const DeviceArray<int32_t> tokens(backend, std::vector<int32_t>(slots_.size(), -7));
    backend.ReorderBeams({.groups = groups_,
                          .words = words.data(),
                          .block_tables = tables.data(),
                          .max_blocks = max_blocks_,
                          .slots = slots.data(),
                          .layers = layers_,
                          .host_tables = host_knows_ ? std::span<const int32_t>(tables_)
                                                     : std::span<const int32_t>(),
                          .fills = fills_,
                          .token_ids = tokens.data()});
    actual_tokens_ = tokens.Read();
    actual_tables_ = tables.Read();
    actual_slots_ = slots.Read();
  }

  void ExpectResults() const {
    std::vector<int32_t> expected_tables = tables_, expected_slots = slots_;
    // Of each block, which one its first positions come from and how many these are.
    std::vector<std::pair<int32_t, int32_t>> origins(next_block_);
    for (int32_t block = 0; block < next_block_; ++block) origins[block] = {block, 0};
    for (const BeamTables& group : groups_) {
      const std::span parents(words_.data() + group.parent_word,
                              static_cast<size_t>(group.num_rows));
      std::vector<BeamTail> tails(parents.size());
      AssignTails(parents, tails);
      for (int32_t row = 0; row < group.num_rows; ++row) {
        int32_t* const table = expected_tables.data() + Entry(group, row, 0);
        for (int32_t c = 0; c < group.column; ++c)
          table[c] = tables_[Entry(group, parents[row], c)];
        if (group.num_filled == 0) continue;
        const int32_t block = tables_[Entry(group, tails[row].blocks_of, group.column)];
        table[group.column] = block;
        expected_slots[group.first_token + row] = block * block_size_ + group.num_filled;
        if (!tails[row].copied) continue;
        origins[block] = {tables_[Entry(group, parents[row], group.column)], group.num_filled};
      }
    }
    EXPECT_EQ(actual_tables_, expected_tables);
    EXPECT_EQ(actual_slots_, expected_slots);
    std::vector<int32_t> expected_tokens(slots_.size(), -7);
    for (const TokenFill& fill : fills_) expected_tokens[fill.target] = words_[fill.source];
    EXPECT_EQ(actual_tokens_, expected_tokens);
    for (size_t i = 0; i < caches_.size(); ++i) ExpectCache(i, origins);
  }

 private:
  int64_t BlockElements() const { return int64_t{num_heads_} * block_size_ * head_dim_; }
  size_t Entry(const BeamTables& group, int32_t row, int32_t column) const {
    return static_cast<size_t>(group.first_row + row) * max_blocks_ + column;
  }

  void AddGroup(const RandomIntFunction& random, int num_rows) {
    // Rows between the groups are other requests'.
    tables_.resize(tables_.size() + static_cast<size_t>(random(0, 2)) * max_blocks_, 0);
    slots_.resize(tables_.size() / max_blocks_, 5);
    words_.resize(words_.size() + random(0, 3), -99);
    BeamTables& group = groups_.emplace_back();
    group.first_row = group.first_token = static_cast<int32_t>(slots_.size());
    group.num_rows = num_rows;
    group.column = random(0, max_blocks_ - 1);
    group.num_filled = random(0, block_size_ - 1);
    group.parent_word = static_cast<int32_t>(words_.size());
    for (int32_t row = 0; row < num_rows; ++row) {
      words_.push_back(random(0, num_rows - 1));
      for (int column = 0; column < max_blocks_; ++column) {
        // Full blocks are not touched: any number serves.
        tables_.push_back(column == group.column ? next_block_++ : random(0, 1 << 20));
      }
      slots_.push_back(tables_[Entry(group, row, group.column)] * block_size_ + group.num_filled);
    }
  }

  void ExpectCache(size_t i, const std::vector<std::pair<int32_t, int32_t>>& origins) const {
    const std::vector<float> actual = caches_[i].Read();
    const bool columns = i % 2 == 0 && layers_[i / 2].key_layout == KeyLayout::kColumns;
    for (size_t e = 0; e < actual.size(); ++e) {
      const int64_t block = static_cast<int64_t>(e) / BlockElements();
      const int64_t position = static_cast<int64_t>(e) / (columns ? 1 : head_dim_) % block_size_;
      const auto [origin, num_filled] = origins[block];
      if (columns && position >= num_filled) continue;  // may be copied
      const int64_t from = position < num_filled ? origin : block;
      const int64_t value = from * BlockElements() + static_cast<int64_t>(e) % BlockElements();
      ASSERT_EQ(actual[e], static_cast<float>(value + static_cast<int64_t>(i)))
          << "cache " << i << ", block " << block << ", position " << position;
    }
  }

  int max_blocks_, num_heads_, block_size_ = 0, head_dim_ = 0;
  bool host_knows_;
  std::vector<TokenFill> fills_;
  int32_t next_block_ = 1;
  std::vector<BeamTables> groups_;
  std::vector<int32_t> tables_, words_, slots_;
  std::vector<DeviceArray<float>> caches_;  // keys and values of each layer
  std::vector<KvLayer> layers_;
  std::vector<int32_t> actual_tables_, actual_slots_, actual_tokens_;
};

TEST_P(BeamOpTest, RowsReadWhatTheirParentsWrote) {
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    ReorderCase reorder(
        backend(), [this](int low, int high) { return RandomInt(low, high); },
        /*most_rows=*/round % 5 == 4 ? 64 : 6, /*many_layers=*/round % 6 == 5);
    reorder.Run(backend());
    reorder.ExpectResults();
  }
}

}  // namespace
}  // namespace beamline::beam_op_test
