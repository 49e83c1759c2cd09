#include "kernels/cuda/products/wgmma_tiles.h"

#include "base/math.h"

namespace beamline::cuda {

WgmmaTiles PickWgmmaTiles(int64_t num_rows, int64_t out_features, int num_multiprocessors) {
  constexpr int64_t kRows = 128, kNarrowColumns = 128, kWideColumns = 192;
  constexpr int64_t kMostTiles = int64_t{1} << 30;
  const int64_t row_tiles = CeilDiv(num_rows, kRows);
  const int64_t narrow = row_tiles * CeilDiv(out_features, kNarrowColumns);
  const int64_t wide = row_tiles * CeilDiv(out_features, kWideColumns);
  // By docs/results/notes-encoder.md, of products with 3,072 out features: with a tile for two of
  // three multiprocessors (512 rows) as fast as cuBLASLt and the pass, with more of them faster,
  // with fewer slower. Wide tiles need fewer bytes for an operation and win once every
  // multiprocessor has many; until then the last turn, in which not all of them have one, costs
  // more than that.
  if (2 * narrow < num_multiprocessors || narrow > kMostTiles) return WgmmaTiles::kNone;
  return wide < 8 * int64_t{num_multiprocessors} ? WgmmaTiles::kNarrow : WgmmaTiles::kWide;
}

}  // namespace beamline::cuda
