// Experts: rows are routed and sorted by their experts on the device, so that the host never waits
// for the routes, and a recorded step may route others. Then one kernel multiplies the rows of all
// experts, each with its expert's weights, first in, then out, and the last adds up what a row's
// experts have computed.
#include "kernels/cuda/products/experts.h"

#include <mma.h>

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/activation.cuh"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {
namespace {

// Choices are numbered row by row, a row's best first. A place is a row of an expert, the experts'
// one behind the other.
struct Routes {
  int32_t* experts;  // [num_choices]
  float* weights;    // [num_choices]
  int32_t* places;   // [num_choices]
  int32_t* rows;     // [num_choices], of each place
  int32_t* offsets;  // [num_experts + 1], places of an expert
};

constexpr int kRouteWarps = 4;
constexpr int kExpertsPerLane = kMostExperts / kWarpSize;

// A warp a row. Bound by latency: a row's logits lie in the registers of its warp.
__global__ void __launch_bounds__(kRouteWarps* kWarpSize)
    RouteKernel(const float* logits, int64_t stride, int num_rows, int num_experts, int num_chosen,
                bool renormalize, Routes routes) {
  const int row = blockIdx.x * kRouteWarps + threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  if (row >= num_rows) return;
  float values[kExpertsPerLane];
  bool open[kExpertsPerLane];  // an expert that is not chosen yet
  float maximum = -INFINITY;
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    const int expert = lane + i * kWarpSize;
    open[i] = expert < num_experts;
    values[i] = open[i] ? logits[row * stride + expert] : -INFINITY;
    maximum = fmaxf(maximum, values[i]);
  }
  maximum = WarpMax(maximum);
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    if (open[i]) total += expf(values[i] - maximum);  // NaN stays
  }
  total = WarpSum(total);
  float own = 0.0f, chosen = 0.0f;  // of the choice whose number is the lane's
  int own_expert = 0;
  for (int choice = 0; choice < num_chosen; ++choice) {
    float best = -INFINITY;
    int best_expert = kMostExperts;
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (!open[i]) continue;
      if (best_expert == kMostExperts || values[i] > best) {
        best = values[i], best_expert = lane + i * kWarpSize;
      }
    }
    for (int offset = kWarpSize / 2; offset > 0; offset /= 2) {
      const float other = __shfl_xor_sync(kFullMask, best, offset);
      const int other_expert = __shfl_xor_sync(kFullMask, best_expert, offset);
      // One order of all, NaN included, so that every lane ends with the same.
      const float rank = isnan(best) ? -INFINITY : best;
      const float other_rank = isnan(other) ? -INFINITY : other;
      const bool none = best_expert == kMostExperts, other_none = other_expert == kMostExperts;
      const bool first = other_rank > rank || (other_rank == rank && other_expert < best_expert);
      if (!other_none && (none || first)) best = other, best_expert = other_expert;
    }
#pragma unroll
    for (int i = 0; i < kExpertsPerLane; ++i) {
      if (lane + i * kWarpSize == best_expert) open[i] = false;
    }
    const float weight = expf(best - maximum);
    chosen += weight;
    if (choice == lane) own = weight, own_expert = best_expert;
  }
  if (lane >= num_chosen) return;
  const int64_t at = static_cast<int64_t>(row) * num_chosen + lane;
  routes.experts[at] = own_expert;
  routes.weights[at] = own / (renormalize ? chosen : total);
}

constexpr int kSortThreads = 256;

// Gives every choice of an expert its place, in the order of rows. Grid: a block an expert, which
// reads all choices twice, from L2: without atomics, the order is the same in each run.
__global__ void __launch_bounds__(kSortThreads)
    SortKernel(int num_choices, int num_chosen, Routes routes) {
  __shared__ float partials[kWarpSize];
  __shared__ int warp_counts[kSortThreads / kWarpSize];
  const int expert = blockIdx.x;
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  int before = 0;
  for (int i = threadIdx.x; i < num_choices; i += kSortThreads) {
    before += routes.experts[i] < expert ? 1 : 0;
  }
  // Exact: there are fewer choices than floats have whole numbers.
  int next = static_cast<int>(BlockSum(static_cast<float>(before), partials));
  if (threadIdx.x == 0) routes.offsets[expert] = next;
  if (threadIdx.x == 0 && expert + 1 == gridDim.x) routes.offsets[gridDim.x] = num_choices;
  for (int first = 0; first < num_choices; first += kSortThreads) {
    const int choice = first + threadIdx.x;
    const bool mine = choice < num_choices && routes.experts[choice] == expert;
    const unsigned votes = __ballot_sync(kFullMask, mine);
    if (lane == 0) warp_counts[warp] = __popc(votes);
    __syncthreads();
    int place = next + __popc(votes & ((1u << lane) - 1));
#pragma unroll
    for (int w = 0; w < kSortThreads / kWarpSize; ++w) {
      if (w < warp) place += warp_counts[w];
      next += warp_counts[w];
    }
    if (mine) {
      routes.places[choice] = place;
      routes.rows[place] = choice / num_chosen;
    }
    __syncthreads();
  }
}

struct Weights {
  const void* experts[kMostExperts];  // [out_features, in_features] each
};

template <typename T>
struct ProductArgs {
  const T* x;  // rows of places, or where `rows` is set those that it names
  int64_t x_stride;
  bool x_is_aligned;    // 16 bytes at a time
  const int32_t* rows;  // may be null
  const int32_t* offsets;
  int num_experts;
  int64_t weight_stride;
  int in_features;
  int columns;  // of y; a gated weight has twice as many rows
  Activation activation;
  T* y;  // [num_places, columns]
  int64_t y_stride;
};

constexpr int kTile = 64;  // rows and columns of y that a block computes
constexpr int kTileThreads = 128;
// A row of the tiles in shared memory, of `kDepth` features: 16 bytes more, so that the rows of a
// warp's access lie in different banks.
template <typename T>
inline constexpr int kDepth = 64 / static_cast<int>(sizeof(T));
template <typename T>
inline constexpr int kPitch = kDepth<T> + kVecSize<T>;
constexpr int kSumPitch = kTile + 4;

// The part of a tile of kTile rows that a thread brings to shared memory.
template <typename T>
struct TilePart {
  static constexpr int kVecs = kTile * kDepth<T> / kVecSize<T> / kTileThreads;
  Vec<T, kVecSize<T>> vecs[kVecs];

  static __device__ int Row(int i) {
    return (threadIdx.x + i * kTileThreads) / (kDepth<T> / kVecSize<T>);
  }
  static __device__ int Column(int i) {
    return (threadIdx.x + i * kTileThreads) % (kDepth<T> / kVecSize<T>)*kVecSize<T>;
  }

  // row_of: a row's first element, null where there is none; elements from `end` on are 0.
  template <typename RowOf>
  __device__ void Load(const RowOf& row_of, int first, int end, bool aligned) {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const T* const row = row_of(Row(i));
      const int column = first + Column(i);
      if (row != nullptr && aligned && column + kVecSize<T> <= end) {
        vecs[i] = *reinterpret_cast<const Vec<T, kVecSize<T>>*>(row + column);
        continue;
      }
#pragma unroll
      for (int j = 0; j < kVecSize<T>; ++j) {
        vecs[i].values[j] =
            row != nullptr && column + j < end ? row[column + j] : FromFloat<T>(0.0f);
      }
    }
  }
  __device__ void Store(T* tile) const {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      *reinterpret_cast<Vec<T, kVecSize<T>>*>(tile + Row(i) * kPitch<T> + Column(i)) = vecs[i];
    }
  }
};

// The sums of kTile x kTile products: on tensor cores, a warp 32 x 32 of them ...
template <typename T>
struct TileSums {
  static constexpr int kSide = 16, kSides = 2;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kSide, kSide, kSide, float> sums[kSides]
                                                                                    [kSides];

  static __device__ int FirstRow() { return threadIdx.x / kWarpSize / 2 * kSide * kSides; }
  static __device__ int FirstColumn() { return threadIdx.x / kWarpSize % 2 * kSide * kSides; }

  __device__ void Clear() {
#pragma unroll
    for (int m = 0; m < kSides; ++m) {
#pragma unroll
      for (int n = 0; n < kSides; ++n) nvcuda::wmma::fill_fragment(sums[m][n], 0.0f);
    }
  }
  __device__ void Add(const T* x, const T* weight) {
    using namespace nvcuda::wmma;
#pragma unroll
    for (int k = 0; k < kDepth<T>; k += kSide) {
      fragment<matrix_a, kSide, kSide, kSide, T, row_major> a[kSides];
      fragment<matrix_b, kSide, kSide, kSide, T, col_major> b[kSides];
#pragma unroll
      for (int i = 0; i < kSides; ++i) {
        load_matrix_sync(a[i], x + (FirstRow() + i * kSide) * kPitch<T> + k, kPitch<T>);
        load_matrix_sync(b[i], weight + (FirstColumn() + i * kSide) * kPitch<T> + k, kPitch<T>);
      }
#pragma unroll
      for (int m = 0; m < kSides; ++m) {
#pragma unroll
        for (int n = 0; n < kSides; ++n) mma_sync(sums[m][n], a[m], b[n], sums[m][n]);
      }
    }
  }
  __device__ void Store(float* tile) const {
#pragma unroll
    for (int m = 0; m < kSides; ++m) {
#pragma unroll
      for (int n = 0; n < kSides; ++n) {
        float* const at = tile + (FirstRow() + m * kSide) * kSumPitch + FirstColumn() + n * kSide;
        nvcuda::wmma::store_matrix_sync(at, sums[m][n], kSumPitch, nvcuda::wmma::mem_row_major);
      }
    }
  }
};

// ... and in float32 without, a thread 8 rows of 4 columns that are 16 apart.
template <>
struct TileSums<float> {
  static constexpr int kRows = 8, kColumns = 4, kApart = kTile / kColumns;
  float sums[kRows][kColumns];

  static __device__ int FirstRow() { return threadIdx.x / kApart * kRows; }
  static __device__ int FirstColumn() { return threadIdx.x % kApart; }

  __device__ void Clear() {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) sums[m][n] = 0.0f;
    }
  }
  __device__ void Add(const float* x, const float* weight) {
#pragma unroll 4
    for (int k = 0; k < kDepth<float>; ++k) {
      float b[kColumns];
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        b[n] = weight[(FirstColumn() + n * kApart) * kPitch<float> + k];
      }
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        const float a = x[(FirstRow() + m) * kPitch<float> + k];
#pragma unroll
        for (int n = 0; n < kColumns; ++n) sums[m][n] = fmaf(a, b[n], sums[m][n]);
      }
    }
  }
  __device__ void Store(float* tile) const {
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
        tile[(FirstRow() + m) * kSumPitch + FirstColumn() + n * kApart] = sums[m][n];
      }
    }
  }
};

// Which rows of which expert a block has.
struct RowTile {
  int expert;
  int first_place, num_rows;
};

// Tile `index` of those of all experts; num_rows 0: there are fewer. By the first warp.
__device__ RowTile FindTile(const int32_t* offsets, int num_experts, int index) {
  const int lane = threadIdx.x;
  int counts[kExpertsPerLane];
  int own = 0;
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    const int expert = lane * kExpertsPerLane + i;
    counts[i] =
        expert < num_experts ? (offsets[expert + 1] - offsets[expert] + kTile - 1) / kTile : 0;
    own += counts[i];
  }
  int end = own;
  for (int offset = 1; offset < kWarpSize; offset *= 2) {
    const int before = __shfl_up_sync(kFullMask, end, offset);
    if (lane >= offset) end += before;
  }
  RowTile tile = {0, 0, 0};
  int first = end - own;
#pragma unroll
  for (int i = 0; i < kExpertsPerLane; ++i) {
    const int expert = lane * kExpertsPerLane + i;
    if (index >= first && index < first + counts[i]) {
      tile.expert = expert;
      tile.first_place = offsets[expert] + (index - first) * kTile;
      tile.num_rows = min(kTile, offsets[expert + 1] - tile.first_place);
    }
    first += counts[i];
  }
  const unsigned found = __ballot_sync(kFullMask, tile.num_rows > 0);
  const int source = found == 0 ? 0 : __ffs(static_cast<int>(found)) - 1;
  tile.expert = __shfl_sync(kFullMask, tile.expert, source);
  tile.first_place = __shfl_sync(kFullMask, tile.first_place, source);
  tile.num_rows = __shfl_sync(kFullMask, tile.num_rows, source);
  return tile;
}

// y = x W^T of a place's expert, or act(gate) * up. Grid: tiles of columns, tiles of places. The
// next part of the features is loaded while one is multiplied. Bound by memory where experts have
// few rows, by the loads from shared memory where they have many.
template <typename T, bool kGated>
__global__ void __launch_bounds__(kTileThreads)
    ExpertProductKernel(ProductArgs<T> args, Weights weights) {
  constexpr int kParts = kGated ? 2 : 1;
  constexpr int kInputBytes = (1 + kParts) * kTile * kPitch<T> * static_cast<int>(sizeof(T));
  constexpr int kSumBytes = kParts * kTile * kSumPitch * static_cast<int>(sizeof(float));
  __shared__ alignas(128) char memory[kInputBytes > kSumBytes ? kInputBytes : kSumBytes];
  __shared__ RowTile shared_tile;
  if (threadIdx.x < kWarpSize) {
    const RowTile found = FindTile(args.offsets, args.num_experts, blockIdx.y);
    if (threadIdx.x == 0) shared_tile = found;
  }
  __syncthreads();
  const RowTile tile = shared_tile;
  if (tile.num_rows == 0) return;
  const int first_column = blockIdx.x * kTile;
  const T* const weight = static_cast<const T*>(weights.experts[tile.expert]);
  const auto x_row = [&](int r) -> const T* {
    if (r >= tile.num_rows) return nullptr;
    const int place = tile.first_place + r;
    return args.x + (args.rows == nullptr ? place : args.rows[place]) * args.x_stride;
  };
  const auto weight_row = [&](int part, int r) -> const T* {
    const int column = first_column + r;
    if (column >= args.columns) return nullptr;
    return weight + (static_cast<int64_t>(part) * args.columns + column) * args.weight_stride;
  };
  T* const x_tile = reinterpret_cast<T*>(memory);
  TilePart<T> x, w[kParts];
  const auto load = [&](int k) {
    x.Load(x_row, k, args.in_features, args.x_is_aligned);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      w[part].Load([&](int r) { return weight_row(part, r); }, k, args.in_features, true);
    }
  };
  TileSums<T> sums[kParts];
#pragma unroll
  for (int part = 0; part < kParts; ++part) sums[part].Clear();
  load(0);
  for (int k = 0; k < args.in_features; k += kDepth<T>) {
    __syncthreads();  // the part before is multiplied
    x.Store(x_tile);
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      w[part].Store(x_tile + (1 + part) * kTile * kPitch<T>);
    __syncthreads();
    if (k + kDepth<T> < args.in_features) load(k + kDepth<T>);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      sums[part].Add(x_tile, x_tile + (1 + part) * kTile * kPitch<T>);
    }
  }
  __syncthreads();
  float* const results = reinterpret_cast<float*>(memory);
#pragma unroll
  for (int part = 0; part < kParts; ++part) sums[part].Store(results + part * kTile * kSumPitch);
  __syncthreads();
  for (int i = threadIdx.x; i < tile.num_rows * kTile; i += kTileThreads) {
    const int r = i / kTile, column = i % kTile;
    if (first_column + column >= args.columns) continue;
    float value = results[r * kSumPitch + column];
    if constexpr (kGated) {
      value = Activate(args.activation, value) * results[(kTile + r) * kSumPitch + column];
    }
    args.y[(tile.first_place + r) * args.y_stride + first_column + column] = FromFloat<T>(value);
  }
}

template <typename T>
struct CombineArgs {
  const T* outputs;  // [num_places, columns]
  int64_t outputs_stride;
  const T* residual;  // may be null
  int64_t residual_stride;
  T* y;
  int64_t y_stride;
  int columns, num_chosen;
  Routes routes;
};

constexpr int kCombineThreads = 256;

// y = what a row's experts have computed, in the order of its choices, and the residual. Grid: a
// block a row. Bound by memory: each of them read once, y written once.
template <typename T>
__global__ void __launch_bounds__(kCombineThreads) CombineKernel(CombineArgs<T> args) {
  const int64_t row = blockIdx.x;
  for (int column = threadIdx.x; column < args.columns; column += kCombineThreads) {
    float sum = 0.0f;
    for (int i = 0; i < args.num_chosen; ++i) {
      const int64_t choice = row * args.num_chosen + i;
      const int64_t place = args.routes.places[choice];
      sum +=
          args.routes.weights[choice] * ToFloat(args.outputs[place * args.outputs_stride + column]);
    }
    if (args.residual != nullptr) {
      sum += ToFloat(args.residual[row * args.residual_stride + column]);
    }
    args.y[row * args.y_stride + column] = FromFloat<T>(sum);
  }
}

// Products of all places by `experts`, into y.
template <typename T, bool kGated>
void Multiply(Device& device, ProductArgs<T> args, std::span<const PackedWeight* const> experts,
              int64_t num_places) {
  Weights weights = {};
  for (size_t e = 0; e < experts.size(); ++e) {
    const auto& weight = static_cast<const CudaWeight&>(*experts[e]);
    BEAMLINE_CHECK(weight.dtype() == static_cast<const CudaWeight&>(*experts[0]).dtype());
    weights.experts[e] = weight.data();
    args.weight_stride = weight.row_stride();
  }
  args.num_experts = static_cast<int>(experts.size());
  // Every expert that has rows may have one tile that is not full.
  const int64_t row_tiles = num_places / kTile + std::min<int64_t>(args.num_experts, num_places);
  const dim3 grid(static_cast<unsigned>(CeilDiv(args.columns, kTile)),
                  static_cast<unsigned>(row_tiles));
  ExpertProductKernel<T, kGated><<<grid, kTileThreads, 0, device.stream()>>>(args, weights);
  device.CheckLaunch("Experts: product");
}

template <typename T>
void MultiplyAll(Device& device, const ExpertsParams& params, const Routes& routes) {
  const int64_t num_places = params.x.num_rows() * params.num_chosen;
  ProductArgs<T> in = {};
  in.x = params.x.as<T>();
  in.x_stride = params.x.row_stride;
  in.x_is_aligned = IsVectorizable(params.x);
  in.rows = routes.rows;
  in.offsets = routes.offsets;
  in.in_features = static_cast<int>(params.x.dim(-1));
  in.columns = static_cast<int>(params.inner.dim(-1));
  in.activation = params.activation;
  in.y = params.inner.as<T>();
  in.y_stride = params.inner.row_stride;
  Multiply<T, true>(device, in, params.in, num_places);
  ProductArgs<T> out = {};
  out.x = params.inner.as<T>();
  out.x_stride = params.inner.row_stride;
  out.x_is_aligned = IsVectorizable(params.inner);
  out.offsets = routes.offsets;
  out.in_features = in.columns;
  out.columns = static_cast<int>(params.outputs.dim(-1));
  out.y = params.outputs.as<T>();
  out.y_stride = params.outputs.row_stride;
  Multiply<T, false>(device, out, params.out, num_places);
  CombineArgs<T> combine = {};
  combine.outputs = params.outputs.as<T>();
  combine.outputs_stride = params.outputs.row_stride;
  combine.residual = params.residual.as<T>();
  combine.residual_stride = params.residual.row_stride;
  combine.y = params.y.as<T>();
  combine.y_stride = params.y.row_stride;
  combine.columns = out.columns;
  combine.num_chosen = params.num_chosen;
  combine.routes = routes;
  CombineKernel<T>
      <<<static_cast<unsigned>(params.x.num_rows()), kCombineThreads, 0, device.stream()>>>(
          combine);
  device.CheckLaunch("Experts: sum");
}

}  // namespace

void Compute(Device& device, const ExpertsParams& params) {
  const int64_t num_rows = params.x.num_rows(), num_places = num_rows * params.num_chosen;
  if (num_rows == 0) return;
  const auto num_experts = static_cast<unsigned>(params.in.size());
  Routes routes;
  routes.experts = device.TakeScratch<int32_t>(num_places);
  routes.weights = device.TakeScratch<float>(num_places);
  routes.places = device.TakeScratch<int32_t>(num_places);
  routes.rows = device.TakeScratch<int32_t>(num_places);
  routes.offsets = device.TakeScratch<int32_t>(num_experts + 1);
  if (!device.ok()) return;
  RouteKernel<<<static_cast<unsigned>(CeilDiv<int64_t>(num_rows, kRouteWarps)),
                kRouteWarps * kWarpSize, 0, device.stream()>>>(
      params.router_logits.as<float>(), params.router_logits.row_stride, static_cast<int>(num_rows),
      static_cast<int>(num_experts), params.num_chosen, params.renormalize, routes);
  device.CheckLaunch("Experts: routes");
  SortKernel<<<num_experts, kSortThreads, 0, device.stream()>>>(static_cast<int>(num_places),
                                                                params.num_chosen, routes);
  device.CheckLaunch("Experts: order");
  DispatchFloat(params.x.dtype, [&]<typename T>() { MultiplyAll<T>(device, params, routes); });
}

}  // namespace beamline::cuda
