#include "kernels/cuda/products/wgmma_tiles.h"

#include "base/math.h"

namespace beamline::cuda {

WgmmaTiles PickWgmmaTiles(int64_t num_rows, int64_t out_features, int num_multiprocessors) {
  constexpr int64_t kRows = 128, kNarrowColumns = 128, kWideColumns = 192;
  constexpr int64_t kMostTiles = int64_t{1} << 30;
  const int64_t row_tiles = CeilDiv(num_rows, kRows);
  const int64_t narrow = row_tiles * CeilDiv(out_features, kNarrowColumns);
  const int64_t wide = row_tiles * CeilDiv(out_features, kWideColumns);
  // From docs/results/notes-encoder.md, for products with 3,072 output features. With a tile for
  // two of three multiprocessors (512 rows) the kernel is as fast as cuBLASLt and the pass, with
  // more tiles faster, with fewer slower. Wide tiles read fewer bytes per operation, and win when
  // every multiprocessor has many tiles. Until then the last turn, in which not all multiprocessors
  // have a tile, costs more than that.
  if (2 * narrow < num_multiprocessors || narrow > kMostTiles) return WgmmaTiles::kNone;
  return wide < 8 * int64_t{num_multiprocessors} ? WgmmaTiles::kNarrow : WgmmaTiles::kWide;
}

}  // namespace beamline::cuda
