// Beam search operators that a device runs between two steps.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "base/math.h"
#include "kernels/beam_order.h"
#include "kernels/beam_tails.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/scratch.h"

namespace beamline::cpu {
namespace {

class Advance {
 public:
  Advance(const AdvanceBeamsParams& params, const BeamSearch& search)
      : params_(params), search_(search), heads_(search.num_rows, 0) {}

  // first_beam: index of the search's first beam in the outputs.
  void Run(int32_t first_beam) {
    int32_t beam = 0;
    while (beam < search_.width) {
      const int32_t row = BestRow();
      if (row < 0) break;
      const int32_t token = params_.ids[Head(row)];
      const float score = Score(row);
      ++heads_[row];
      if (std::ranges::find(search_.end_ids, token) != search_.end_ids.end()) continue;
      Set(first_beam + beam++, row, token, score);
    }
    for (; beam < search_.width; ++beam) {
      Set(first_beam + beam, std::min(beam, search_.num_rows - 1), 0,
          -std::numeric_limits<float>::infinity());
    }
  }

 private:
  size_t Head(int32_t row) const {
    return static_cast<size_t>(search_.first_row + row) * params_.max_count + heads_[row];
  }
  float Score(int32_t row) const {
    const float* scores =
        search_.scores.empty() ? params_.words + search_.score_word : search_.scores.data();
    const float value = params_.values[Head(row)];
    return BeamScore(
        search_.renormalize ? value - params_.normalizers[search_.first_row + row] : value,
        scores[row]);
  }
  int32_t BestRow() const {
    int32_t best = -1;
    float best_score = 0.0f;
    for (int32_t row = 0; row < search_.num_rows; ++row) {
      if (heads_[row] == params_.counts[search_.first_row + row]) continue;
      const float score = Score(row);
      if (!MayFollow(score)) continue;
      if (best >= 0 && !GoesBefore(score, row, best_score, best)) continue;
      best = row;
      best_score = score;
    }
    return best;
  }
  void Set(int32_t beam, int32_t parent, int32_t token, float score) {
    params_.parents[beam] = parent;
    params_.tokens[beam] = token;
    params_.scores[beam] = score;
  }

  const AdvanceBeamsParams& params_;
  const BeamSearch& search_;
  std::vector<int32_t> heads_;  // per row: the best candidate not taken
};

// Copies the filled positions of a block of values, in every head.
void CopyValues(const Tensor& values, int32_t source, int32_t target, int32_t num_filled) {
  const auto element = static_cast<int64_t>(SizeOf(values.dtype));
  const int64_t head_bytes = values.dim(2) * values.dim(3) * element;
  char* const base = values.as<char>();
  for (int64_t head = 0; head < values.dim(1); ++head) {
    std::memcpy(base + (target * values.dim(1) + head) * head_bytes,
                base + (source * values.dim(1) + head) * head_bytes,
                static_cast<size_t>(num_filled * values.dim(3) * element));
  }
}

// The same for keys, which are stored as columns: copies, for each dimension, the cache lines with
// filled positions. If these are all lines, a block is one copy.
void CopyKeys(const Tensor& keys, int32_t source, int32_t target, int32_t num_filled) {
  const auto element = static_cast<int64_t>(SizeOf(keys.dtype));
  const int64_t column_bytes = keys.dim(2) * element;
  const int64_t num_columns = keys.dim(1) * keys.dim(3);
  char* from = keys.as<char>() + source * num_columns * column_bytes;
  char* to = keys.as<char>() + target * num_columns * column_bytes;
  const int64_t bytes = RoundUp(num_filled * element, static_cast<int64_t>(kCacheLineBytes));
  if (bytes >= column_bytes) {
    std::memcpy(to, from, static_cast<size_t>(num_columns * column_bytes));
    return;
  }
  for (int64_t column = 0; column < num_columns; ++column) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    from += column_bytes;
    to += column_bytes;
  }
}

}  // namespace

void Compute(Context&, const AdvanceBeamsParams& params) {
  int32_t first_beam = 0;
  for (const BeamSearch& search : params.searches) {
    Advance(params, search).Run(first_beam);
    first_beam += search.width;
  }
}

void Compute(Context& context, const ReorderBeamsParams& params) {
  Compute(context, FillTokensParams{params.words, params.fills, params.token_ids});
  std::vector<int32_t> old_tables;
  std::vector<BeamTail> tails;
  for (const BeamTables& group : params.groups) {
    const std::span parents(params.words + group.parent_word, static_cast<size_t>(group.num_rows));
    int32_t* const tables =
        params.block_tables + static_cast<int64_t>(group.first_row) * params.max_blocks;
    old_tables.assign(tables, tables + static_cast<int64_t>(group.num_rows) * params.max_blocks);
    const auto old_row = [&](int32_t row) {
      return old_tables.data() + static_cast<int64_t>(row) * params.max_blocks;
    };
    tails.resize(parents.size());
    AssignTails(parents, tails);
    const auto block_size = static_cast<int32_t>(params.layers[0].keys.dim(2));
    for (int32_t row = 0; row < group.num_rows; ++row) {
      int32_t* const table = tables + static_cast<int64_t>(row) * params.max_blocks;
      std::copy_n(old_row(parents[row]), group.column, table);
      if (group.num_filled == 0) continue;
      const int32_t block = old_row(tails[row].blocks_of)[group.column];
      table[group.column] = block;
      params.slots[group.first_token + row] = block * block_size + group.num_filled;
      if (!tails[row].copied) continue;
      for (const KvLayer& layer : params.layers) {
        const int32_t source = old_row(parents[row])[group.column];
        CopyKeys(layer.keys, source, block, group.num_filled);
        CopyValues(layer.values, source, block, group.num_filled);
      }
    }
  }
}

}  // namespace beamline::cpu
