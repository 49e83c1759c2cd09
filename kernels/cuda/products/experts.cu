// Mixture of experts. Rows are routed and sorted by expert on the device. So the host never waits
// for the routes, and a replayed CUDA graph may have other routes. One kernel then multiplies the
// rows of all experts by their experts' weights, first `in`, then `out`. The last kernel adds up
// the outputs of a row's experts.
#include "kernels/cuda/products/experts.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/expert_stages.cuh"
#include "kernels/cuda/products/expert_tiles.cuh"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {
namespace {

// Choices are numbered row by row, a row's best first. A place is a row of an expert; the experts'
// places follow each other.
struct Routes {
  int32_t* experts;  // [num_choices]
  float* weights;    // [num_choices]
  int32_t* places;   // [num_choices]
  int32_t* rows;     // [num_choices], the row of each place
  int32_t* offsets;  // [num_experts + 1], the first place of each expert
};

constexpr int kRouteWarps = 4;

// One warp per row. Bound by latency: a row's logits are in the registers of its warp.
__global__ void __launch_bounds__(kRouteWarps* kWarpSize)
    RouteKernel(const float* logits, int64_t stride, int num_rows, int num_experts, int num_chosen,
                bool renormalize, Routes routes) {
  const int row = blockIdx.x * kRouteWarps + threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  if (row >= num_rows) return;
  float values[kExpertsPerLane];
  bool open[kExpertsPerLane];  // the expert is not chosen yet
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
  float own = 0.0f, chosen = 0.0f;  // of the choice with the lane's number
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
      // A total order, NaN included, so that every lane ends with the same choice.
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

// Gives every choice of an expert its place, in the order of rows. Grid: one block per expert,
// which reads all choices twice, from L2. There are no atomics, so the order is the same in each
// run.
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
  // Exact: floats hold all integers up to the number of choices.
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

template <typename T>
struct CombineArgs {
  const T* outputs;  // [num_places, columns]
  int64_t outputs_stride;
  const T* shared;  // may be null
  int64_t shared_stride;
  const float* shared_logits;  // the shared expert's column of the router's logits
  int64_t logits_stride;
  const T* residual;  // may be null
  int64_t residual_stride;
  T* y;
  int64_t y_stride;
  int columns, num_chosen;
  Routes routes;
};

constexpr int kCombineThreads = 256;

// y = the weighted outputs of a row's experts, in the order of its choices, plus the shared
// expert's output and the residual. Grid: one block per row; a thread computes kSize columns at a
// time. Bound by memory: each input is read once, y is written once.
template <typename T, int kSize>
__global__ void __launch_bounds__(kCombineThreads) CombineKernel(CombineArgs<T> args) {
  const int64_t row = blockIdx.x;
  float share = 0.0f;  // weight of the shared expert's output
  if (args.shared != nullptr) {
    share = 1.0f / (1.0f + expf(-args.shared_logits[row * args.logits_stride]));
  }
  const auto add = [](float(&sums)[kSize], float weight, const T* from) {
    float values[kSize];
    LoadFloats(from, values);
#pragma unroll
    for (int i = 0; i < kSize; ++i) sums[i] += weight * values[i];
  };
  for (int column = threadIdx.x * kSize; column < args.columns; column += kCombineThreads * kSize) {
    float sums[kSize] = {};
#pragma unroll 4
    for (int i = 0; i < args.num_chosen; ++i) {
      const int64_t choice = row * args.num_chosen + i;
      const int64_t place = args.routes.places[choice];
      add(sums, args.routes.weights[choice], args.outputs + place * args.outputs_stride + column);
    }
    if (args.shared != nullptr) add(sums, share, args.shared + row * args.shared_stride + column);
    if (args.residual != nullptr) {
      add(sums, 1.0f, args.residual + row * args.residual_stride + column);
    }
    StoreFloats(sums, args.y + row * args.y_stride + column);
  }
}

template <typename T, typename Tile, bool kGated>
void MultiplyInStages(Device& device, const ProductArgs<T>& args, const ExpertPointers& weights,
                      int64_t num_places) {
  constexpr int kUnits = kGated ? Tile::kFeatures / 2 : Tile::kFeatures;
  const auto kernel = StagedExpertKernel<T, Tile, kGated>;
  device.Check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes),
      "Experts: shared memory");
  const int64_t row_tiles =
      num_places / Tile::kRows + std::min<int64_t>(args.num_experts, num_places);
  const dim3 grid(static_cast<unsigned>(CeilDiv(args.columns, kUnits)),
                  static_cast<unsigned>(row_tiles));
  kernel<<<grid, Tile::kThreads, Tile::kSharedBytes, device.stream()>>>(args, weights);
  device.CheckLaunch("Experts: product in stages");
}

// Multiplies all places by `experts`, into y.
template <typename T, bool kGated>
void Multiply(Device& device, ProductArgs<T> args, std::span<const PackedWeight* const> experts,
              int64_t num_places) {
  ExpertPointers weights = {};
  for (size_t e = 0; e < experts.size(); ++e) {
    const auto& weight = static_cast<const CudaWeight&>(*experts[e]);
    BEAMLINE_CHECK(weight.dtype() == static_cast<const CudaWeight&>(*experts[0]).dtype());
    weights.experts[e] = weight.data();
    args.weight_stride = weight.row_stride();
  }
  args.num_experts = static_cast<int>(experts.size());
  if constexpr (sizeof(T) == 2) {
    if (args.x_is_aligned && args.y_is_aligned) {
      const int64_t most = std::min<int64_t>(args.num_experts, num_places);
      if (num_places <= kMostOfSmallTiles * most) {
        MultiplyInStages<T, SmallExpertTile, kGated>(device, args, weights, num_places);
      } else if (num_places <= kMostOfMiddlingTiles * most) {
        MultiplyInStages<T, MiddlingExpertTile, kGated>(device, args, weights, num_places);
      } else {
        MultiplyInStages<T, LargeExpertTile, kGated>(device, args, weights, num_places);
      }
      return;
    }
  }
  // Every expert that has rows may have one partial tile.
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
  in.y_is_aligned = IsVectorizable(params.inner);
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
  out.y_is_aligned = IsVectorizable(params.outputs);
  Multiply<T, false>(device, out, params.out, num_places);
  CombineArgs<T> combine = {};
  combine.outputs = params.outputs.as<T>();
  combine.outputs_stride = params.outputs.row_stride;
  combine.shared = params.shared.as<T>();
  combine.shared_stride = params.shared.row_stride;
  combine.shared_logits = params.router_logits.as<float>() + params.in.size();
  combine.logits_stride = params.router_logits.row_stride;
  combine.residual = params.residual.as<T>();
  combine.residual_stride = params.residual.row_stride;
  combine.y = params.y.as<T>();
  combine.y_stride = params.y.row_stride;
  combine.columns = out.columns;
  combine.num_chosen = params.num_chosen;
  combine.routes = routes;
  const bool aligned = IsVectorizable(params.outputs) && IsVectorizable(params.shared) &&
                       IsVectorizable(params.residual) && IsVectorizable(params.y);
  const auto kernel = aligned ? CombineKernel<T, kVecSize<T>> : CombineKernel<T, 1>;
  kernel<<<static_cast<unsigned>(params.x.num_rows()), kCombineThreads, 0, device.stream()>>>(
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
