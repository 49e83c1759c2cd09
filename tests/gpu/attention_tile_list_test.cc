#include "kernels/cuda/attention/attention_tile_list.h"

#include <algorithm>
#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace beamline::cuda::attention_tile_list_test {
namespace {

AttentionParams Params(int num_sequences, int num_heads, int num_kv_heads, int head_dim, int length,
                       bool causal) {
  AttentionParams params;
  params.num_sequences = num_sequences;
  params.num_heads = num_heads;
  params.num_kv_heads = num_kv_heads;
  params.head_dim = head_dim;
  params.max_query_length = length;
  params.causal = causal;
  return params;
}

TEST(TileListTest, HeadsThatShareKeysFillATilesRows) {
  const std::map<int, int> shifts = {{1, 0}, {2, 1},  {3, 0},  {4, 2},  {6, 1},
                                     {8, 3}, {12, 2}, {64, 6}, {96, 5}, {128, 6}};
  for (const auto& [group_size, shift] : shifts) EXPECT_EQ(HeadShift(group_size), shift);
}

// One round or several, the last one not full; more and fewer tiles than blocks.
TEST(TileListTest, EveryTileIsSomeBlocksTurnOnce) {
  const AttentionParams cases[] = {
      Params(4, 32, 32, 128, 4096, false), Params(4, 32, 32, 128, 4096, true),
      Params(3, 7, 7, 64, 5000, false),    Params(5, 12, 4, 64, 1000, true),
      Params(1, 1, 1, 64, 1, true),        Params(256, 12, 12, 64, 128, false),
      Params(2, 32, 8, 128, 70000, true),
  };
  for (const AttentionParams& params : cases) {
    for (int rows : {64, 128, 192}) {
      const TileList list = MakeTileList(params, rows);
      EXPECT_EQ(list.num_pairs << list.head_shift, params.num_sequences * params.num_heads);
      EXPECT_GE(list.row_tiles * rows, params.max_query_length << list.head_shift);
      for (int64_t blocks :
           {int64_t{1}, int64_t{7}, std::min<int64_t>(132, list.size), list.size}) {
        std::vector<int> seen(list.num_pairs * list.row_tiles);
        for (int64_t block = 0; block < blocks; ++block) {
          for (int64_t turn = 0; turn * blocks < list.size; ++turn) {
            const int64_t place = TileList::PlaceOf(turn, block, blocks);
            if (place >= list.size) continue;
            const TileList::Place at = list.At(place);
            ASSERT_GE(at.row_tile, 0);
            ASSERT_LT(at.row_tile, list.row_tiles);
            if (at.pair < list.num_pairs) ++seen[at.pair * list.row_tiles + at.row_tile];
          }
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<int64_t>(seen.size()))
            << rows << " rows, " << blocks << " blocks";
      }
    }
  }
}

TEST(TileListTest, TheLastRowsComeFirstInARound) {
  const TileList list = MakeTileList(Params(4, 16, 16, 64, 4096, true), 192);
  EXPECT_EQ(list.row_tiles, 22);
  EXPECT_EQ(list.pairs_per_round, 40);  // of 1 MiB each
  EXPECT_EQ(list.At(0).row_tile, 21);
  EXPECT_EQ(list.At(39).pair, 39);
  EXPECT_EQ(list.At(40).pair, 0);
  EXPECT_EQ(list.At(40).row_tile, 20);
  EXPECT_EQ(list.At(40 * 22).pair, 40);
  EXPECT_EQ(MakeTileList(Params(4, 16, 16, 64, 4096, false), 192).pairs_per_round, 8);
}

// The keys of a cache are not as many as the queries.
TEST(TileListTest, RoundsAreCutByTheContexts) {
  AttentionParams params = Params(4, 32, 8, 128, 256, true);
  const KvLayer cache;
  params.cache = &cache;
  params.max_context_length = 8192;
  EXPECT_EQ(MakeTileList(params, 128).pairs_per_round, 10);
}

}  // namespace
}  // namespace beamline::cuda::attention_tile_list_test
