// How the products of stream_tiles_product.h divide a weight's columns among blocks. Chosen by
// sizes alone, without a GPU.
#pragma once

#include <cstdint>
#include <optional>

namespace beamline::cuda {

// The number of blocks that divide the columns. kAsFits: the smallest one with which each block's
// registers have room for its part of the rows of x.
enum class StreamSplit : uint8_t { kAsFits = 0, kOne = 1, kTwo = 2, kFour = 4 };

inline constexpr int kStreamMostSplit = 4;  // blocks that divide columns
inline constexpr int kFewestStreamRows = 2;
inline constexpr int kMostStreamRows = 8;
// A block's first column is a multiple of this.
inline constexpr int kStreamRankColumns = 512;
// The most columns of a block: its registers hold them for all rows of x.
inline constexpr int kStreamMostColumns = 7168;
// The number of columns is a multiple of the columns of a step, in which a lane multiplies 16 bytes
// of the weight. By the weight's type.
inline constexpr int kStreamStepOf16Bits = 32;
inline constexpr int kStreamStepOfE4m3 = 64;
inline constexpr int kStreamStepOfInt4 = 128;

// Columns of each of the `split` blocks that divide them, except the last.
int64_t StreamRankColumns(int64_t in_features, int split);

// The number of blocks that divide the columns: `wanted`, or for kAsFits the smallest one that
// fits. nullopt if none fits.
std::optional<int> PickStreamSplit(int64_t in_features, StreamSplit wanted);

}  // namespace beamline::cuda
