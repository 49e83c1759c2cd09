// The order in which blocks or clusters that stay on the GPU take the tiles of a product.
#pragma once

namespace beamline::cuda {

// Numbers of a tile's place: tiles from the first row, and from the first column.
struct TilePlace {
  int row, column;
};

// Panels of `panel` tiles along a row, each from the first rows to the last: neighbours in this
// order share rows or columns, which stay in L2.
struct TilePanels {
  int rows;     // of tiles
  int columns;  // of tiles
  int panel;    // in [1, columns]

  __host__ __device__ int size() const { return rows * columns; }

  // REQUIRES: place in [0, size()).
  __device__ TilePlace At(int place) const {
    const int panel_size = rows * panel;
    const int number = place / panel_size, rest = place - number * panel_size;
    const int width = min(panel, columns - number * panel);
    const int row = rest / width;
    return {row, number * panel + rest - row * width};
  }
};

}  // namespace beamline::cuda
