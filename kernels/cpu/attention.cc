// Attention: divides a ragged batch into tiles, each of one sequence and one key-value head.
#include <algorithm>

#include "base/math.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/ops.h"

namespace beamline::cpu {
namespace {

constexpr double kFlopsPerNs = 20;

// Rows of a sequence and a key-value head are numbered query-major: row / group_size is the query,
// row % group_size the query head within its group.
class TileMaker {
 public:
  explicit TileMaker(const AttentionParams& params)
      : p_(params), group_size_(params.num_heads / params.num_kv_heads) {
    for (AttentionTile& tile : tiles_) {
      tile.head_dim = p_.head_dim;
      tile.scale = p_.scale;
      tile.softcap = p_.softcap;
      tile.rounded_alibi_factor = p_.rounded_alibi_factor;
      if (!p_.position_bias.empty()) {
        tile.max_distance = static_cast<int>(p_.position_bias.dim(-1) - 1) / 2;
      }
    }
  }

  // The largest number of tiles of any sequence and key-value head.
  int MaxTiles() const { return CeilDiv(p_.max_query_length * group_size_, kTileRows); }

  // The tile with this number, or null if the sequence is shorter. The previous tile stays valid.
  const AttentionTile* Make(int sequence, int kv_head, int tile) {
    const int first_query = p_.query_offsets[sequence];
    const int query_length = p_.query_offsets[sequence + 1] - first_query;
    const int first_row = tile * kTileRows;
    const int num_rows = std::min(kTileRows, query_length * group_size_ - first_row);
    if (num_rows <= 0) return nullptr;
    const int context = p_.cache == nullptr ? query_length : p_.context_lengths[sequence];
    second_ = !second_;
    AttentionTile& made = tiles_[second_ ? 1 : 0];
    made.num_rows = num_rows;
    for (int r = 0; r < num_rows; ++r) {
      const int query = (first_row + r) / group_size_;
      const int head = kv_head * group_size_ + (first_row + r) % group_size_;
      FillRow(first_query + query, head, context - query_length + query, context, made.rows[r]);
    }
    FillKeys(sequence, kv_head, first_query, made);
    FillPositions(kv_head, made.positions);
    return &made;
  }

 private:
  void FillRow(int token, int head, int position, int context, AttentionTileRow& row) const {
    const int64_t column = static_cast<int64_t>(head) * p_.head_dim;
    row.query = p_.query.row<float>(token) + column;
    row.output = p_.output.row<float>(token) + column;
    row.position = position;
    row.num_keys = p_.causal ? std::max(0, position + 1) : context;
    if (p_.window > 0) {
      row.first_key = std::max(0, position + 1 - p_.window);
      row.num_keys = std::min<int64_t>(row.num_keys, int64_t{position} + p_.window);
    } else {
      row.first_key = 0;
    }
    row.alibi_slope = p_.alibi_slopes == nullptr ? 0.0f : p_.alibi_slopes[head];
    row.position_bias = p_.position_bias.empty()
                            ? nullptr
                            : p_.position_bias.row<float>(head) + tiles_[0].max_distance;
  }

  void FillKeys(int sequence, int kv_head, int first_query, AttentionTile& tile) const {
    if (p_.cache == nullptr) {
      tile.keys = PackedRows(p_.key, first_query, kv_head);
      tile.values = PackedRows(p_.value, first_query, kv_head);
    } else {
      tile.keys = PagedKeys(sequence, kv_head);
      tile.values = PagedRows(p_.cache->values, sequence, kv_head);
    }
  }

  // There are as many key-value heads as query heads here.
  void FillPositions(int head, TilePositions& positions) const {
    const RelativePositions& relative = p_.relative;
    if (relative.empty()) return;
    const int64_t column = static_cast<int64_t>(head) * p_.head_dim;
    positions.rows = relative.rows + relative.max_distance;
    positions.max_distance = relative.max_distance;
    if (!relative.keys.empty()) {
      positions.keys = relative.keys.as<float>() + column;
      positions.key_stride = relative.keys.row_stride;
    }
    if (!relative.queries.empty()) {
      positions.queries = relative.queries.as<float>() + column;
      positions.query_stride = relative.queries.row_stride;
    }
  }

  // Keys are stored as columns: a row of KvRows has its elements block_size apart.
  KvRows PagedKeys(int sequence, int kv_head) const {
    KvRows rows = PagedRows(p_.cache->keys, sequence, kv_head);
    rows.row_stride = 1;
    rows.element_stride = rows.block_size;
    return rows;
  }

  KvRows PackedRows(const Tensor& packed, int first_token, int kv_head) const {
    KvRows rows;
    rows.base = packed.row<float>(first_token) + static_cast<int64_t>(kv_head) * p_.head_dim;
    rows.row_stride = packed.row_stride;
    return rows;
  }

  KvRows PagedRows(const Tensor& paged, int sequence, int kv_head) const {
    const int64_t head_stride = paged.dim(2) * p_.head_dim;
    KvRows rows;
    rows.base = paged.as<char>() + kv_head * head_stride * SizeOf(paged.dtype);
    rows.dtype = paged.dtype;
    rows.row_stride = p_.head_dim;
    rows.block_table = p_.block_tables + static_cast<int64_t>(sequence) * p_.max_blocks;
    rows.block_size = static_cast<int>(paged.dim(2));
    rows.block_stride = paged.dim(1) * head_stride;
    return rows;
  }

  const AttentionParams& p_;
  int group_size_;
  AttentionTile tiles_[2];
  bool second_ = false;
};

}  // namespace

void Compute(Context& context, const AttentionParams& params) {
  const int num_tiles = TileMaker(params).MaxTiles();
  const int64_t num_items =
      static_cast<int64_t>(params.num_sequences) * params.num_kv_heads * num_tiles;
  const int max_keys =
      params.cache == nullptr ? params.max_query_length : params.max_context_length;
  const double products = params.relative.empty() ? 4.0 : 12.0;
  const double flops =
      products * params.query.num_rows() * params.num_heads * params.head_dim * max_keys;
  context.Run(num_items, 1, flops / kFlopsPerNs, [&](int64_t begin, int64_t end, Scratch& scratch) {
    TileMaker maker(params);
    const AttentionTile* tile = nullptr;
    for (int64_t item = begin; item < end; ++item) {
      const int64_t head_item = item / num_tiles;
      const AttentionTile* next = maker.Make(static_cast<int>(head_item / params.num_kv_heads),
                                             static_cast<int>(head_item % params.num_kv_heads),
                                             static_cast<int>(item % num_tiles));
      if (next == nullptr) continue;
      if (tile != nullptr) ComputeAttentionTile(*tile, next, scratch);
      tile = next;
    }
    if (tile != nullptr) ComputeAttentionTile(*tile, nullptr, scratch);
  });
}

}  // namespace beamline::cpu
