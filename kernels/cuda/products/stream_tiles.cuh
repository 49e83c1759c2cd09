// Products of 2 to 8 rows and a large weight, like those of one row in stream_product.cu: bound by
// reading the weight. A block computes one tile of 16 rows of the weight at a time. The copy engine
// copies the tile to a ring of stages in shared memory, 2 KiB of each row per stage. The first
// round of copies starts before WaitForEarlierKernels. Sixteen warps divide a stage's columns. Each
// keeps its columns of the rows of x in registers throughout, in the layout of the tensor cores, so
// that shared memory only holds the weight. If there are too many columns for that, the blocks of a
// cluster divide them.
#pragma once

#include "kernels/cuda/products/skinny_output.cuh"
#include "kernels/cuda/products/stream_stages.cuh"
#include "kernels/cuda/products/stream_weight.cuh"

namespace beamline::cuda {

// A lane's part of the rows of x. It is of row lane / 4, and has the columns of the 16 bytes of
// weight that the lane multiplies, step after step. Zeros where rows or columns are missing.
template <typename Layout>
struct StreamRows {
  using T = typename Layout::T;

  uint4 chunks[Layout::kMostSteps][Layout::kChunks];

  // The lane's first column in a step, counted from the part's first column.
  __device__ static int Column(int step) {
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    return step / Layout::kSteps * Layout::kStageColumns + warp * Layout::kWarpColumns +
           step % Layout::kSteps * Layout::kStepColumns + lane % 4 * (Layout::kStepColumns / 4);
  }

  __device__ void Load(const StreamOperands<T>& args, const StreamPart& part) {
    const int row = static_cast<int>(threadIdx.x) % kWarpSize / 4;
    const T* const from = args.x + row * args.x_stride + part.begin;
#pragma unroll
    for (int s = 0; s < Layout::kMostSteps; ++s) {
      const bool exists = row < args.num_rows && Column(s) < part.count;
#pragma unroll
      for (int c = 0; c < Layout::kChunks; ++c) {
        chunks[s][c] = {};
        if (exists) chunks[s][c] = *reinterpret_cast<const uint4*>(from + Column(s) + 8 * c);
      }
    }
  }
};

// A lane's scales of the two weight rows that it multiplies, for the blocks of columns that its
// warp has in the stages of a tile.
template <typename Layout, typename Weight>
struct BlockScales {
  float low[Layout::kMostStages], high[Layout::kMostStages];

  template <typename T>
  __device__ void Load(const StreamOperands<T>& args, const StreamPart& part, int low_feature,
                       int high_feature) {
    static_assert(Layout::kWarpColumns == kScaleBlock);
    const int first = part.begin / kScaleBlock + static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
    for (int s = 0; s < Layout::kMostStages; ++s) {
      low[s] = high[s] = 0.0f;
      const int block = first + s * kStreamWarps;
      if (block * kScaleBlock >= part.begin + part.count) continue;
      low[s] = args.scales[low_feature / kScaleBlock * args.scale_step + block];
      high[s] = args.scales[high_feature / kScaleBlock * args.scale_step + block];
    }
  }
};

// sums += one step of a stage: 16 rows of the weight times the rows of x.
template <typename Weight, typename Layout>
__device__ void MultiplyStep(const char* low_row, uint32_t low_zero, uint32_t high_zero,
                             const StreamRows<Layout>& x, int step, float (&sums)[4]) {
  uint32_t low[Weight::kElements / 2], high[Weight::kElements / 2];
  Weight::Widen(*reinterpret_cast<const uint4*>(low_row), low_zero, low);
  Weight::Widen(*reinterpret_cast<const uint4*>(low_row + 8 * Layout::kPitch), high_zero, high);
#pragma unroll
  for (int c = 0; c < Layout::kChunks; ++c) {
    const uint32_t first[4] = {low[4 * c], high[4 * c], low[4 * c + 1], high[4 * c + 1]};
    const uint32_t second[4] = {low[4 * c + 2], high[4 * c + 2], low[4 * c + 3], high[4 * c + 3]};
    const uint4& b = x.chunks[step][c];
    MultiplyAdd<typename Weight::Activation>(first, b.x, b.y, sums);
    MultiplyAdd<typename Weight::Activation>(second, b.z, b.w, sums);
  }
}

// sums += part, scaled by the scales of the lane's two rows of the weight.
__device__ inline void AddScaled(const float (&part)[4], float low, float high, float (&sums)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] += part[i] * (i < 2 ? low : high);
}

// The lane's sums of a tile over its warp's columns.
template <typename Weight, typename Layout, typename Scales>
__device__ void MultiplyTile(const StreamPart& part, const StreamRows<Layout>& x,
                             const Scales& scales, const char* ring, StreamShared<Layout>& shared,
                             Ring<Layout::kStages>& place, float (&sums)[4]) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int row_at = lane / 4 * Layout::kPitch;
  const int own_at = row_at + warp * (kStreamPiece / kStreamWarps) + lane % 4 * 16;
#pragma unroll
  for (int s = 0; s < Layout::kMostStages; ++s) {
    if (s >= part.stages) break;
    float of_stage[4] = {};
    WaitFor(shared.full[place.at], place.parity);
    const char* const stage = ring + place.at * Layout::kStageBytes;
#pragma unroll
    for (int j = 0; j < Layout::kSteps; ++j) {
      const int step = s * Layout::kSteps + j;
      // A step exists as a whole or not at all.
      const int first =
          s * Layout::kStageColumns + warp * Layout::kWarpColumns + j * Layout::kStepColumns;
      if (first >= part.count) break;
      const char* const at = stage + own_at + j * Layout::kStepBytes;
      if constexpr (Weight::kScale == ScaleKind::kGroups) {
        // The columns of a step are one group.
        const char* const group =
            stage + row_at + kStreamPiece + (warp * Layout::kSteps + j) * sizeof(GroupScale);
        const auto& low = *reinterpret_cast<const GroupScale*>(group);
        const auto& high = *reinterpret_cast<const GroupScale*>(group + 8 * Layout::kPitch);
        float of_step[4] = {};
        MultiplyStep<Weight>(at, low.zero, high.zero, x, step, of_step);
        AddScaled(of_step, __half2float(low.scale), __half2float(high.scale), sums);
      } else if constexpr (Weight::kScale == ScaleKind::kBlocks) {
        MultiplyStep<Weight>(at, 0, 0, x, step, of_stage);
      } else {
        MultiplyStep<Weight>(at, 0, 0, x, step, sums);
      }
    }
    __syncwarp();
    if (lane == 0) Arrive(shared.empty[place.at]);
    place.Advance();
    if constexpr (Weight::kScale == ScaleKind::kBlocks) {
      AddScaled(of_stage, scales.low[s], scales.high[s], sums);
    }
  }
}

// Adds up the sums of a cluster's blocks, in the order of their columns, in the block that leads
// this tile. Returns false in the others, which have sent their sums. Called by the threads that
// complete a tile. A block sends to the same place again only after it has led a tile itself. All
// other blocks have sent it their sums of that later tile, so they are done with this one.
template <typename Output, typename Layout>
__device__ bool AddOfRanks(int rank, int split, int leader, int num_sums, uint32_t& parity,
                           StreamShared<Layout>& shared, float& sum, float& second) {
  const int own = static_cast<int>(threadIdx.x);
  if (rank != leader) {
    SendToBlock(&shared.of_ranks[rank][0][own], leader, sum, shared.ranks_sent);
    if (Output::kPaired) {
      SendToBlock(&shared.of_ranks[rank][1][own], leader, second, shared.ranks_sent);
    }
    return false;
  }
  if (own == 0) {
    const int bytes = (split - 1) * num_sums * static_cast<int>(sizeof(float));
    ArriveAndExpect(shared.ranks_sent, Output::kPaired ? 2 * bytes : bytes);
  }
  WaitFor(shared.ranks_sent, parity);
  parity ^= 1;
  float total = 0.0f, second_total = 0.0f;
  for (int r = 0; r < split; ++r) {
    total += r == rank ? sum : shared.of_ranks[r][0][own];
    if (Output::kPaired) second_total += r == rank ? second : shared.of_ranks[r][1][own];
  }
  sum = total, second = second_total;
  return true;
}

// Grid: clusters of args.split blocks, as many as the GPU holds at once.
template <typename Weight, typename Output>
__global__ void __launch_bounds__(kStreamThreads, 1)
    StreamTilesKernel(StreamOperands<typename Weight::Activation> args, Output output) {
  using Layout = StreamLayout<Weight>;
  constexpr int kUnits = Output::kPaired ? kStreamFeatures / 2 : kStreamFeatures;
  extern __shared__ __align__(128) char memory[];
  auto& shared = *reinterpret_cast<StreamShared<Layout>*>(memory);
  char* const ring = memory + sizeof(StreamShared<Layout>);
  const int warp = __shfl_sync(kFullMask, static_cast<int>(threadIdx.x) / kWarpSize, 0);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int rank = args.split > 1 ? RankInCluster() : 0;
  if (threadIdx.x == 0) {
    for (SharedBarrier& barrier : shared.full) InitBarrier(barrier, 1);
    for (SharedBarrier& barrier : shared.empty) InitBarrier(barrier, kStreamWarps);
    InitBarrier(shared.ranks_sent, 1);
    PublishBarriers();
  }
  __syncthreads();
  // The other blocks' barriers must be initialised before something is sent to them.
  if (args.split > 1) ClusterArriveRelaxed();
  const StreamPart part = PartOf<Layout>(args, rank, kUnits);
  if (warp == kStreamWarps) {
    CopyTiles(args, output, part, ring, shared);
    if (args.split > 1) ClusterWait();
    return;
  }
  WaitForEarlierKernels();
  StreamRows<Layout> x;
  x.Load(args, part);
  if (args.split > 1) ClusterWait();

  constexpr int kSums = Layout::kRows * kUnits;
  const int own = static_cast<int>(threadIdx.x);
  const int row = own / kUnits, of_tile = own % kUnits;
  BlockScales<Layout, Weight> scales;
  const auto load_scales = [&](int first) {
    if constexpr (Weight::kScale == ScaleKind::kBlocks) {
      const int low = min(first + lane / 4, args.num_units - 1);
      const int high = min(first + lane / 4 + 8, args.num_units - 1);
      scales.Load(args, part, output.First(low),
                  Output::kPaired ? output.Second(low) : output.First(high));
    }
  };
  load_scales(part.first_unit);
  Ring<Layout::kStages> place;
  uint32_t ranks_parity = 0;
  int leader = 0, turn = 0;
  for (int first = part.first_unit; first < args.num_units; first += part.unit_step) {
    const int unit = first + of_tile;
    const bool stores =
        own < kSums && row < args.num_rows && unit < args.num_units && rank == leader;
    typename Output::Inputs inputs = {};
    if (stores) {
      inputs = output.LoadWeights(row, unit);
      output.LoadRest(row, unit, inputs);
    }
    float scale = 1.0f, second_scale = 1.0f;
    if constexpr (Weight::kScale == ScaleKind::kRows) {
      if (stores) scale = args.scales[output.First(unit) * args.scale_step];
      if (stores && Output::kPaired) {
        second_scale = args.scales[output.Second(unit) * args.scale_step];
      }
    }
    float sums[4] = {};
    MultiplyTile<Weight>(part, x, scales, ring, shared, place, sums);
    // The next tile's scales are in flight while the sums of this one are added.
    load_scales(first + part.unit_step);
    auto& of_warp = shared.sums[turn][warp];
#pragma unroll
    for (int i = 0; i < 4; ++i) of_warp[lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = sums[i];
    SyncMultiplying();
    if (own < kSums) {
      float sum = 0.0f, second = 0.0f;
#pragma unroll
      for (int w = 0; w < kStreamWarps; ++w) {
        sum += shared.sums[turn][w][row][of_tile];
        if (Output::kPaired) second += shared.sums[turn][w][row][of_tile + kUnits];
      }
      const bool whole = args.split == 1 || AddOfRanks<Output>(rank, args.split, leader, kSums,
                                                               ranks_parity, shared, sum, second);
      if (whole && stores) output.Store(row, unit, inputs, sum * scale, second * second_scale);
    }
    turn ^= 1;
    if (++leader == args.split) leader = 0;
  }
}

}  // namespace beamline::cuda
