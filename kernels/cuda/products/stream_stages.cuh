// How stream_tiles.cuh copies a weight to shared memory: a ring of stages of 16 rows by 2 KiB each,
// which a separate warp fills.
#pragma once

#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/thread_block_cluster.cuh"
#include "kernels/cuda/products/stream_split.h"
#include "kernels/cuda/products/stream_weight.cuh"

namespace beamline::cuda {

inline constexpr int kStreamWarps = 16;  // which multiply; one more warp copies
inline constexpr int kStreamThreads = (kStreamWarps + 1) * kWarpSize;
inline constexpr int kStreamMultiplying = kStreamWarps * kWarpSize;
inline constexpr int kStreamFeatures = 16;  // rows of a weight's tile
inline constexpr int kStreamPiece = 2048;   // bytes of such a row in a stage
// A block's scales of groups start at a multiple of 16 bytes.
static_assert(kStreamRankColumns == 4 * kScaleBlock);

// The operands of x W^T.
template <typename T>
struct StreamOperands {
  const T* x;
  const char* weight;
  const float* scales;       // of rows or of blocks
  const GroupScale* groups;  // of rows, one after the other, each at a multiple of 16 bytes
  int64_t x_stride;
  int64_t row_bytes;  // between rows of the weight
  int num_rows, in_features, num_units;
  int split;         // blocks of a cluster
  int rank_columns;  // columns of each of them except the last
  int scale_step;    // between the scales of rows, of rows of blocks, or of groups
};

template <typename Weight>
struct StreamLayout {
  using T = typename Weight::Activation;
  static constexpr int kRows = kMostStreamRows;
  static constexpr bool kGroups = Weight::kScale == ScaleKind::kGroups;
  // The scales of a row's groups follow its piece. With this pitch the 16 bytes of eight lanes are
  // in different banks.
  static constexpr int kPitch = kStreamPiece + (kGroups ? 128 : 0) + 64;
  static constexpr int kStageBytes = kStreamFeatures * kPitch;
  static constexpr int kStages = kGroups ? 5 : 6;
  // A warp's part of a stage has kSteps steps. In each of them a lane multiplies 16 bytes of two
  // rows.
  static constexpr int kStepBytes = 64;  // of a row
  static constexpr int kSteps = kStreamPiece / kStreamWarps / kStepBytes;
  static constexpr int kStepColumns = 4 * Weight::kElements;
  static constexpr int kWarpColumns = kSteps * kStepColumns;
  static constexpr int kStageColumns = kStreamWarps * kWarpColumns;
  static constexpr int kMostStages =
      (kStreamMostColumns + kStageColumns - 1) / kStageColumns;  // of a tile
  static constexpr int kMostSteps = kMostStages * kSteps;
  static constexpr int kChunks =
      Weight::kElements / 8;             // 16-byte chunks of x that 16 bytes of weight multiply
  static constexpr int kSumsPitch = 20;  // puts a warp's writes in different banks

  __host__ __device__ static constexpr int Bytes(int columns) {
    return columns / Weight::kElements * 16;
  }
  // Bytes of the scales for `bytes` of a row, a multiple of 16.
  __host__ __device__ static constexpr int GroupBytes(int bytes) {
    return kGroups ? (bytes / kStepBytes + 3) / 4 * 16 : 0;
  }
};

template <typename Layout>
struct alignas(128) StreamShared {
  float sums[2][kStreamWarps][Layout::kRows][Layout::kSumsPitch];  // of two tiles in turn
  float of_ranks[kStreamMostSplit][2][Layout::kRows * kStreamFeatures];
  SharedBarrier full[Layout::kStages], empty[Layout::kStages];
  SharedBarrier ranks_sent;
};

template <typename Layout>
constexpr int64_t StreamSharedBytes() {
  return int64_t{Layout::kStages} * Layout::kStageBytes + sizeof(StreamShared<Layout>);
}

// A barrier of the multiplying warps.
__device__ inline void SyncMultiplying() { SyncSome(1, kStreamMultiplying); }

// Starts the copy of consecutive bytes of a weight, with the L2 policy of LeavesFirst.
__device__ inline void CopyWeightBytes(void* to, const void* from, int bytes,
                                       SharedBarrier& barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;\n" ::"r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(&barrier)), "l"(policy)
      : "memory");
}
// Writes a number to the address of `to` in the block of the cluster with this rank. Its bytes
// count for the barrier at the address of `barrier` there.
__device__ inline void SendToBlock(float* to, int rank, float value, SharedBarrier& barrier) {
  asm volatile(
      "{\n"
      ".reg .b32 remote, remote_barrier;\n"
      "mapa.shared::cluster.u32 remote, %0, %3;\n"
      "mapa.shared::cluster.u32 remote_barrier, %2, %3;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [remote], %1, "
      "[remote_barrier];\n"
      "}\n" ::"r"(SharedAddress(to)),
      "f"(value), "r"(SharedAddress(&barrier)), "r"(rank)
      : "memory");
}

// A block's part of the product: columns [begin, begin + count) of each of its tiles.
struct StreamPart {
  int begin, count, stages;
  int first_unit, unit_step;
};

template <typename Layout, typename T>
__device__ StreamPart PartOf(const StreamOperands<T>& args, int rank, int units_of_tile) {
  StreamPart part;
  part.begin = rank * args.rank_columns;
  part.count = min(args.rank_columns, args.in_features - part.begin);
  part.stages = (part.count + Layout::kStageColumns - 1) / Layout::kStageColumns;
  const int cluster = static_cast<int>(blockIdx.x) / args.split;
  part.first_unit = cluster * units_of_tile;
  part.unit_step = static_cast<int>(gridDim.x) / args.split * units_of_tile;
  return part;
}

// The work of the copying warp: all stages of all tiles. One lane copies a row, and another its
// scales.
template <typename Layout, typename Output, typename T>
__device__ void CopyTiles(const StreamOperands<T>& args, const Output& output,
                          const StreamPart& part, char* ring, StreamShared<Layout>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int of_tile = lane % kStreamFeatures;
  const uint64_t policy = LeavesFirst();
  const int last = args.num_units - 1;
  const int row_bytes = Layout::Bytes(part.count);
  Ring<Layout::kStages> place;
  int started = 0;
  for (int first = part.first_unit; first < args.num_units; first += part.unit_step) {
    // A tile with missing units reads the last unit in their place. Those sums are not used.
    constexpr int kHalf = kStreamFeatures / 2;
    const bool is_second = Output::kPaired && of_tile >= kHalf;
    const int unit = min(first + (is_second ? of_tile - kHalf : of_tile), last);
    const int feature = is_second ? output.Second(unit) : output.First(unit);
    const char* const row = args.weight + feature * args.row_bytes + Layout::Bytes(part.begin);
    const char* const groups = reinterpret_cast<const char*>(
        args.groups + int64_t{feature} * args.scale_step + part.begin / kScaleBlock);
    for (int at = 0; at < row_bytes; at += kStreamPiece) {
      WaitFor(shared.empty[place.at], place.parity ^ 1);
      const int bytes = min(kStreamPiece, row_bytes - at);
      const int group_bytes = Layout::GroupBytes(bytes);
      if (lane == 0) {
        ArriveAndExpect(shared.full[place.at], kStreamFeatures * (bytes + group_bytes));
      }
      __syncwarp();
      char* const to = ring + place.at * Layout::kStageBytes + lane % 16 * Layout::kPitch;
      if (lane < kStreamFeatures) {
        CopyWeightBytes(to, row + at, bytes, shared.full[place.at], policy);
      } else if (Layout::kGroups) {
        CopyWeightBytes(to + kStreamPiece, groups + Layout::GroupBytes(at), group_bytes,
                        shared.full[place.at], policy);
      }
      place.Advance();
      if (++started == Layout::kStages) WaitForEarlierKernels();
    }
  }
  if (started < Layout::kStages) WaitForEarlierKernels();
}

}  // namespace beamline::cuda
