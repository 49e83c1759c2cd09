// How the products of stream_tiles_product.h divide a weight's columns among blocks: chosen by
// sizes alone, without a GPU.
#pragma once

#include <cstdint>
#include <optional>

namespace beamline::cuda {

// How many blocks divide the columns. kAsFits: as few as have room for their part of the rows of x
// in registers.
enum class StreamSplit : uint8_t { kAsFits = 0, kOne = 1, kTwo = 2, kFour = 4 };

inline constexpr int kStreamMostSplit = 4;  // blocks that divide columns
inline constexpr int kFewestStreamRows = 2;
inline constexpr int kMostStreamRows = 8;
// A block's first column is a multiple of this.
inline constexpr int kStreamRankColumns = 512;
// Of a block's rows, as registers have room for them.
inline constexpr int kStreamMostColumns = 7168;
// Columns are multiples of what a lane's 16 bytes of the weight are of a step: by the weight's
// type.
inline constexpr int kStreamStepOf16Bits = 32;
inline constexpr int kStreamStepOfE4m3 = 64;
inline constexpr int kStreamStepOfInt4 = 128;

// Columns of each block of `split` that divide them, but the last.
int64_t StreamRankColumns(int64_t in_features, int split);

// A cluster's blocks where nothing else is asked for; nullopt where the columns are too many.
std::optional<int> PickStreamSplit(int64_t in_features, StreamSplit wanted);

}  // namespace beamline::cuda
