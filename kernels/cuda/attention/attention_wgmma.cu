// Attention on Hopper's tensor cores (sm_90a only): packed and paged prefill in float16 and
// bfloat16, for heads of 64 and 128 elements. One or two blocks per multiprocessor process a list
// of tiles of query rows. One warp of a block copies queries, keys and values ahead, for the
// current tile and the next ones. Warpgroups of 64 rows each multiply. While the tensor cores
// compute the next tile's scores and add this tile's values, a warpgroup computes its exponentials.
// Warpgroups take turns to issue products, so that they compute exponentials at different times.
// Long because the steps of a multiplier share its registers.
// Source: Shah et al., "FlashAttention-3", arXiv:2407.08608.
#include <algorithm>
#include <bit>

#include "base/math.h"
#include "kernels/cuda/attention/attention_args.cuh"
#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/attention/attention_wgmma_tiles.cuh"
#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/tensor_map.h"

namespace beamline::cuda {
namespace wgmma {
namespace {

// A warpgroup that multiplies 64 query rows. A lane holds parts of two rows, eight apart.
template <typename T, typename S>
struct Multiplier {
  static constexpr int kHeadDim = S::kHeadSize;

  Shared<T, S>& shared;
  const AttentionArgs<T>& args;
  const int head_shift;
  const int group, warp, lane;
  Ring<kQueryStages> queries;
  Ring<S::kStages> keys, values;

  float scores[kKeys / 2];
  uint32_t probabilities[kKeys / 4];
  float output[kHeadDim / 2];
  float maximum[2];  // of score * log2_factor
  float total[2];    // this lane's part
  float decay[2];    // factor for the sums of earlier tiles

  __device__ void Run() {
    if (!S::kAlone && group == 0) ArriveSome(TurnOf(0), 2 * kWarpgroupSize);
    while (true) {
      WaitFor(shared.query_full[queries.at], queries.parity);
      Tile tile = {};
      if (lane == 0) tile = shared.tiles[queries.at];  // read before it is released
      tile = Broadcast(tile, 0);
      if (tile.first_row < 0) return;
      Attend(tile);
      queries.Advance();
    }
  }

  // The named barrier for a group's turn to issue products. 0 is the block's own barrier.
  __device__ static int TurnOf(int group) { return 1 + group; }
  __device__ void TakeTurn() const {
    if (!S::kAlone) SyncSome(TurnOf(group), 2 * kWarpgroupSize);
  }
  __device__ void PassTurn() const {
    if (S::kAlone) return;
    ArriveSome(TurnOf(group + 1 == S::kGroups ? 0 : group + 1), 2 * kWarpgroupSize);
  }
  // Each warp releases on its own, because products end warp by warp.
  __device__ void Release(SharedBarrier& empty) const {
    if (lane == 0) Arrive(empty);
  }

  __device__ void Attend(const Tile& tile) {
    const int num_rows = tile.query_length << head_shift;
    const int first_row = tile.first_row + group * kGroupRows;
    const int last_row = min(first_row + kGroupRows, num_rows) - 1;
    const int own_keys = first_row < num_rows ? KeysOf(args, tile, last_row, head_shift) : 0;
    const int own_tiles = CeilDiv(own_keys, kKeys);
    const int fewest_keys = KeysOf(args, tile, first_row, head_shift);
    const int own_row = first_row + warp * 16 + lane / 4;

#pragma unroll
    for (int h = 0; h < 2; ++h) total[h] = 0.0f;
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) output[i] = 0.0f;
    int i = tile.num_key_tiles;
    for (; i > own_tiles; --i) SkipTile(i > 1);
    if (i == 0) {
      Release(shared.query_empty[queries.at]);
    } else {
      WaitFor(shared.key_full[keys.at], keys.parity);
      StartScores();
      FinishScores<0>(--i);
      if (i * kKeys + kKeys > fewest_keys) Mask(tile, own_row, i);
      Softmax<true>();
      Pack();
      if (i > 0) WaitFor(shared.key_full[keys.at], keys.parity);
      while (i > 0) {
        TakeTurn();
        StartScores();
        WaitFor(shared.value_full[values.at], values.parity);
        StartOutput();
        PassTurn();
        FinishScores<1>(--i);
        if (i * kKeys + kKeys > fewest_keys) Mask(tile, own_row, i);
        Softmax<false>();
        KeepInOrder(scores);
        // This branch keeps the compiler from moving the exponentials past the end of the products.
        if (i > 0) WaitFor(shared.key_full[keys.at], keys.parity);
        FinishOutput();
        Pack();
#pragma unroll
        for (int n = 0; n < kHeadDim / 2; ++n) output[n] *= decay[n / 2 % 2];
      }
      WaitFor(shared.value_full[values.at], values.parity);
      StartOutput();
      FinishOutput();
    }
    Store(tile, own_row, num_rows);
  }

  // Skips a tile of keys that only rows of other warpgroups see.
  __device__ void SkipTile(bool with_turn) {
    if (with_turn) TakeTurn(), PassTurn();
    WaitFor(shared.key_full[keys.at], keys.parity);
    Release(shared.key_empty[keys.at]);
    keys.Advance();
    WaitFor(shared.value_full[values.at], values.parity);
    Release(shared.value_empty[values.at]);
    values.Advance();
  }

  __device__ void StartScores() {
    constexpr int kStepBytes = 16 * static_cast<int>(sizeof(T));
    const uint64_t a = TileDescriptor(shared.queries[queries.at][group][0]);
    const uint64_t b = TileDescriptor(shared.keys[keys.at][0], 16, S::kGroupBytes);
    KeepInOrder(scores);
    StartProducts();
#pragma unroll
    for (int part = 0; part < S::kParts; ++part) {
#pragma unroll
      for (int k = 0; k < kSwizzledColumns / 16; ++k) {
        const int a_bytes = part * kGroupRows * kSwizzledColumns * static_cast<int>(sizeof(T));
        MultiplyTiles<T>(Further(a, a_bytes + k * kStepBytes),
                         Further(b, part * S::kPartBytes + k * kStepBytes), part + k > 0, scores);
      }
    }
    CommitProducts();
    KeepInOrder(scores);
  }

  // i: the key tile of the scores. After tile 0, the last one, the queries are no longer needed.
  template <int kPending>
  __device__ void FinishScores(int i) {
    WaitForProducts<kPending>();
    KeepInOrder(scores);
    Release(shared.key_empty[keys.at]);
    keys.Advance();
    if (i == 0) Release(shared.query_empty[queries.at]);
  }

  __device__ void StartOutput() {
    constexpr int kStepBytes = (16 >> kGroupShift) * S::kGroupBytes;
    const uint64_t b = TileDescriptor(shared.values[values.at][0], S::kPartBytes, S::kGroupBytes);
    KeepInOrder(output);
    KeepInOrder(probabilities);
    StartProducts();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      MultiplyRegisters<T>(probabilities + 4 * k, Further(b, k * kStepBytes), output);
    }
    CommitProducts();
    KeepInOrder(output);
  }

  __device__ void FinishOutput() {
    WaitForProducts<0>();
    KeepInOrder(output);
    Release(shared.value_empty[values.at]);
    values.Advance();
  }

  __device__ void Mask(const Tile& tile, int own_row, int key_tile) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int limit =
          KeysOf(args, tile, own_row + 8 * h, head_shift) - key_tile * kKeys - lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (8 * n + i >= limit) scores[4 * n + 2 * h + i] = -INFINITY;
        }
      }
    }
  }

  // Converts scores to probabilities, relative to the running maximum.
  template <bool kFirst>
  __device__ void Softmax() {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float greatest = fmaxf(scores[2 * h], scores[2 * h + 1]);
#pragma unroll
      for (int n = 1; n < kKeys / 8; ++n) {
        greatest = fmaxf(greatest, fmaxf(scores[4 * n + 2 * h], scores[4 * n + 2 * h + 1]));
      }
      greatest = fmaxf(greatest, __shfl_xor_sync(kFullMask, greatest, 1));
      greatest = fmaxf(greatest, __shfl_xor_sync(kFullMask, greatest, 2)) * args.log2_factor;
      if (!kFirst) greatest = fmaxf(greatest, maximum[h]);
      // While a row has seen no key, every exponential is 0.
      const float shift = greatest == -INFINITY ? 0.0f : greatest;
      decay[h] = kFirst ? 0.0f : PowerOfTwo(maximum[h] - shift);
      maximum[h] = greatest;
      float sum = kFirst ? 0.0f : total[h] * decay[h];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 4 * n + 2 * h; i < 4 * n + 2 * h + 2; ++i) {
          scores[i] = PowerOfTwo(fmaf(scores[i], args.log2_factor, -shift));
          sum += scores[i];
        }
      }
      total[h] = sum;
    }
  }

  // Converts the probabilities to a register operand, with the element order of a product's sums.
  __device__ void Pack() {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      probabilities[i] = PackPair<T>(scores[2 * i], scores[2 * i + 1]);
    }
  }

  __device__ void Store(const Tile& tile, int own_row, int num_rows) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = total[h];
      sum += __shfl_xor_sync(kFullMask, sum, 1);
      sum += __shfl_xor_sync(kFullMask, sum, 2);
      const float scale = sum == 0.0f ? 0.0f : 1.0f / sum;  // a query without keys gets zeros
      const int row = own_row + 8 * h;
      const int query = row >> head_shift, head = row - (query << head_shift);
      T* const to = args.output + int64_t{tile.first_query + query} * args.output_stride +
                    (tile.first_head + head) * kHeadDim + lane % 4 * 8;
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; n += 4) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          words[i] = PackPair<T>(output[4 * (n + i) + 2 * h] * scale,
                                 output[4 * (n + i) + 2 * h + 1] * scale);
        }
        Transpose(words);
        if (row < num_rows) {
          *reinterpret_cast<uint4*>(to + 8 * n) =
              make_uint4(words[0], words[1], words[2], words[3]);
        }
      }
    }
  }

  // Transposes words among four neighbouring lanes, [lane % 4][i] to [i][lane % 4], so that each
  // lane holds 16 consecutive bytes.
  __device__ void Transpose(uint32_t (&words)[4]) const {
    const bool odd = lane % 2 != 0, high = lane % 4 >= 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t other = __shfl_xor_sync(kFullMask, odd ? words[i] : words[i + 1], 1);
      (odd ? words[i] : words[i + 1]) = other;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint32_t other = __shfl_xor_sync(kFullMask, high ? words[i] : words[i + 2], 2);
      (high ? words[i] : words[i + 2]) = other;
    }
  }
};

// Grid: S::kBlocks blocks per multiprocessor, or one per tile if there are fewer tiles. Bound by
// the tensor cores and by the exponentials (16 per clock and multiprocessor), about equally for
// heads of 64. With few keys bound by memory.
template <typename T, typename S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    WgmmaKernel(const __grid_constant__ Maps maps, const __grid_constant__ AttentionArgs<T> args,
                const __grid_constant__ TileList list, int box_shift) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char memory[];
  const uint32_t misplaced = SharedAddress(memory) % kSwizzledAlignment;
  auto& shared = *reinterpret_cast<Shared<T, S>*>(
      memory + (misplaced == 0 ? 0 : kSwizzledAlignment - misplaced));
  if (threadIdx.x == 0) {
    PrefetchMap(maps.query);
    PrefetchMap(maps.keys);
    PrefetchMap(maps.values);
    constexpr int kWarps = S::kGroups * kWarpsPerGroup;
    for (int i = 0; i < kQueryStages; ++i) {
      InitBarrier(shared.query_full[i], 1);
      InitBarrier(shared.query_empty[i], kWarps);
    }
    for (int i = 0; i < S::kStages; ++i) {
      InitBarrier(shared.key_full[i], 1);
      InitBarrier(shared.key_empty[i], kWarps);
      InitBarrier(shared.value_full[i], 1);
      InitBarrier(shared.value_empty[i], kWarps);
    }
    PublishBarriers();
  }
  __syncthreads();
  // Equal in all lanes; the shuffle lets the compiler know.
  const int warp = __shfl_sync(kFullMask, static_cast<int>(threadIdx.x) / kWarpSize, 0);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int group = warp / kWarpsPerGroup;
  if (group < S::kGroups) {
    if (!S::kAlone) TakeRegisters<S::kMultiplyRegisters>();
    Multiplier<T, S> multiplier = {shared, args, list.head_shift, group, warp % kWarpsPerGroup,
                                   lane};
    WaitForEarlierKernels();
    multiplier.Run();
  } else {
    if (!S::kAlone) GiveRegisters<S::kCopyRegisters>();
    if (warp % kWarpsPerGroup == 0) {
      Copier<T, S> copier = {shared, maps, args, list, box_shift, lane};
      copier.Run();
    } else {
      WaitForEarlierKernels();
    }
  }
#endif
}

Maps MakeMaps(Device& device, const AttentionParams& params, int box_keys, bool whole_rows) {
  const int heads = 1 << HeadShift(params.num_heads / params.num_kv_heads);
  Maps maps;
  maps.query = MakeRaggedMap(
      device, {params.query.data, params.head_dim, params.num_heads, params.query.row_stride,
               params.query.num_rows(), heads, kGroupRows / heads});
  const auto keys_map = [&](const Tensor& packed, const Tensor& cached) {
    if (params.cache == nullptr) {
      return MakeRaggedMap(device, {packed.data, params.head_dim, params.num_kv_heads,
                                    packed.row_stride, packed.num_rows(), 1, box_keys});
    }
    const int64_t rows = cached.dim(0) * cached.dim(1) * cached.dim(2);
    return MakeRaggedMap(device,
                         {cached.data, params.head_dim, 1, params.head_dim, rows, 1, box_keys});
  };
  const KvLayer none;
  const KvLayer& cache = params.cache == nullptr ? none : *params.cache;
  if (whole_rows) {
    const auto set = [&](const Tensor& cached, CUtensorMap& whole, CUtensorMap& last) {
      const int64_t rows = cached.dim(0) * cached.dim(1) * cached.dim(2);
      const GroupedRows groups = {cached.data, params.head_dim, rows, box_keys >> kGroupShift};
      whole = MakeGroupedMap(device, groups), last = MakeRaggedGroupMap(device, groups);
    };
    set(cache.keys, maps.keys, maps.last_keys);
    set(cache.values, maps.values, maps.last_values);
    return maps;
  }
  maps.keys = keys_map(params.key, cache.keys);
  maps.values = keys_map(params.value, cache.values);
  return maps;
}

template <typename T, typename S>
void Launch(Device& device, const AttentionArgs<T>& args, const AttentionParams& params) {
  constexpr int kBytes = sizeof(Shared<T, S>) + kSwizzledAlignment;
  const auto kernel = WgmmaKernel<T, S>;
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "Attention (wgmma): shared memory");
  const int box_keys = params.cache == nullptr
                           ? kKeys
                           : std::min(kKeys, static_cast<int>(params.cache->keys.dim(2)));
  const TileList list = MakeTileList(params, S::kRows);
  const Maps maps = MakeMaps(device, params, box_keys, S::kWholeRows);
  if (!device.ok()) return;
  const int64_t blocks = std::min<int64_t>(list.size, device.num_multiprocessors() * S::kBlocks);
  LaunchOverlapped(device, "Attention (wgmma)", kernel, blocks, S::kThreads, kBytes, maps, args,
                   list, std::countr_zero(static_cast<unsigned>(box_keys)));
}

}  // namespace
}  // namespace wgmma

template <typename T>
void AttendWgmma(Device& device, const AttentionArgs<T>& args, const AttentionParams& params,
                 int rows_per_block) {
  BEAMLINE_CHECK(params.head_dim == 64 || params.head_dim == 128);
  BEAMLINE_CHECK(!EditsScores(args));
  const bool alone = rows_per_block == kSmallWgmmaRows;
  if (params.head_dim == 64) {  // a whole row is one part of 64 columns
    alone ? wgmma::Launch<T, wgmma::Shape<64, 1>>(device, args, params)
          : wgmma::Launch<T, wgmma::Shape<64, 3>>(device, args, params);
  } else if (params.cache == nullptr) {
    alone ? wgmma::Launch<T, wgmma::Shape<128, 1>>(device, args, params)
          : wgmma::Launch<T, wgmma::Shape<128, 2>>(device, args, params);
  } else {
    alone ? wgmma::Launch<T, wgmma::Shape<128, 1, true>>(device, args, params)
          : wgmma::Launch<T, wgmma::Shape<128, 2, true>>(device, args, params);
  }
}

template void AttendWgmma(Device&, const AttentionArgs<__half>&, const AttentionParams&, int);
template void AttendWgmma(Device&, const AttentionArgs<__nv_bfloat16>&, const AttentionParams&,
                          int);

}  // namespace beamline::cuda
