// Merges the candidates of several ranks. Each list is sorted. So a candidate's place among all is
// its place in its own list plus the number of candidates before it in each other list, which a
// binary search finds. Bound by latency: a few KiB, once per step.
#include "kernels/cuda/communication/merge_candidates.h"

#include "base/math.h"
#include "kernels/cuda/device/launch_values.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kHeaderWords = 4;  // num_columns, first_column, and padding that keeps arrays aligned

// Offsets of a rank's arrays in the data that it sends, in words.
struct Layout {
  int num_rows, max_count;
  bool has_raw, has_normalizers;

  __host__ __device__ int64_t num_entries() const { return int64_t{num_rows} * max_count; }
  __host__ __device__ int64_t values() const { return kHeaderWords; }
  __host__ __device__ int64_t ids() const { return values() + num_entries(); }
  __host__ __device__ int64_t raw() const { return ids() + num_entries(); }
  __host__ __device__ int64_t normalizers() const { return raw() + (has_raw ? num_entries() : 0); }
  __host__ __device__ int64_t num_words() const {
    return RoundUp(normalizers() + (has_normalizers ? num_rows : 0), int64_t{4});
  }
};

Layout LayoutOf(const MergeCandidatesParams& params) {
  return {static_cast<int>(params.counts.size()), params.max_count, params.raw_values != nullptr,
          params.log_normalizers != nullptr};
}

struct PackArgs {
  Layout layout;
  int32_t first_column, num_columns;
  const float* values;
  const int32_t* ids;
  const float* raw_values;
  const float* log_normalizers;
  uint32_t* packed;
};

// Grid: one thread per word that is sent. Entries past a row's count are sent as 0.
__global__ void PackKernel(const __grid_constant__ LaunchValues counts, PackArgs args) {
  const int64_t word = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const Layout& layout = args.layout;
  if (word >= layout.num_words()) return;
  uint32_t value = 0;
  if (word < layout.values()) {
    value = word == 0 ? args.num_columns : word == 1 ? args.first_column : 0;
  } else if (word < layout.normalizers()) {
    const int64_t entry = (word - layout.values()) % layout.num_entries();
    const int row = static_cast<int>(entry / layout.max_count);
    const int count = min(counts.Get<int32_t>(0, row), args.num_columns);
    if (entry % layout.max_count < count) {
      value = word < layout.ids()   ? __float_as_uint(args.values[entry])
              : word < layout.raw() ? static_cast<uint32_t>(args.ids[entry])
                                    : __float_as_uint(args.raw_values[entry]);
    }
  } else if (word < layout.normalizers() + (layout.has_normalizers ? layout.num_rows : 0)) {
    value = __float_as_uint(args.log_normalizers[word - layout.normalizers()]);
  }
  args.packed[word] = value;
}

struct MergeArgs {
  Layout layout;
  int num_ranks;
  const uint32_t* packed;  // [num_ranks, layout.num_words()]
  float* values;
  int32_t* ids;
  float* raw_values;
  float* log_normalizers;

  __device__ const uint32_t* Rank(int rank) const { return packed + rank * layout.num_words(); }
};

// NaN counts as -infinity, as in the operators.
__device__ float Comparable(uint32_t bits) {
  const float value = __uint_as_float(bits);
  return isnan(value) ? -INFINITY : value;
}

// The number of entries of a descending list before `value`. `or_equal`: equal entries count too.
__device__ int NumBefore(const uint32_t* list, int size, float value, bool or_equal) {
  int low = 0, high = size;
  while (low < high) {
    const int middle = (low + high) / 2;
    const float other = Comparable(list[middle]);
    if (other > value || (or_equal && other == value)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// log(sum(exp(normalizers))). Returns an infinite maximum, or a NaN, as it is.
__device__ float MergeNormalizers(const MergeArgs& args, int row) {
  const auto normalizer = [&](int rank) {
    return __uint_as_float(args.Rank(rank)[args.layout.normalizers() + row]);
  };
  float maximum = -INFINITY;
  for (int rank = 0; rank < args.num_ranks; ++rank) {
    if (isnan(normalizer(rank))) return normalizer(rank);
    maximum = fmaxf(maximum, normalizer(rank));
  }
  if (isinf(maximum)) return maximum;
  double sum = 0.0;
  for (int rank = 0; rank < args.num_ranks; ++rank) {
    sum += exp(static_cast<double>(normalizer(rank)) - maximum);
  }
  return static_cast<float>(maximum + log(sum));
}

// Grid: one thread per candidate of each rank.
__global__ void MergeKernel(const __grid_constant__ LaunchValues counts, MergeArgs args) {
  const Layout& layout = args.layout;
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= layout.num_entries() * args.num_ranks) return;
  const int64_t of_row = int64_t{layout.max_count} * args.num_ranks;
  const int row = static_cast<int>(index / of_row);
  const int rank = static_cast<int>(index % of_row / layout.max_count);
  const int own_place = static_cast<int>(index % layout.max_count);
  if (layout.has_normalizers && rank == 0 && own_place == 0) {
    args.log_normalizers[row] = MergeNormalizers(args, row);
  }
  const int count = counts.Get<int32_t>(0, row);
  const int64_t first = int64_t{row} * layout.max_count;
  const auto list = [&](int r) { return args.Rank(r) + layout.values() + first; };
  const auto size = [&](int r) { return min(count, static_cast<int>(args.Rank(r)[0])); };
  if (own_place >= size(rank)) return;
  const uint32_t bits = list(rank)[own_place];
  const float value = Comparable(bits);
  // Ranks hold ascending columns, so the lower rank wins ties.
  int place = own_place;
  for (int other = 0; other < args.num_ranks; ++other) {
    if (other != rank) place += NumBefore(list(other), size(other), value, other < rank);
  }
  if (place >= count) return;
  const uint32_t* const own = args.Rank(rank);
  args.values[first + place] = __uint_as_float(bits);
  args.ids[first + place] = static_cast<int32_t>(own[1] + own[layout.ids() + first + own_place]);
  if (layout.has_raw) {
    args.raw_values[first + place] = __uint_as_float(own[layout.raw() + first + own_place]);
  }
}

unsigned Blocks(int64_t num_threads) {
  return static_cast<unsigned>(CeilDiv(num_threads, int64_t{kThreads}));
}

void Pack(Device& device, const MergeCandidatesParams& params, const LaunchValues& counts,
          void* packed) {
  const Layout layout = LayoutOf(params);
  const PackArgs args = {
      layout,     params.first_column, params.num_columns,     params.values,
      params.ids, params.raw_values,   params.log_normalizers, static_cast<uint32_t*>(packed)};
  PackKernel<<<Blocks(layout.num_words()), kThreads, 0, device.stream()>>>(counts, args);
  device.CheckLaunch("PackCandidates");
}

void Merge(Device& device, const MergeCandidatesParams& params, const LaunchValues& counts,
           const void* received, int num_ranks) {
  const Layout layout = LayoutOf(params);
  const MergeArgs args = {layout,
                          num_ranks,
                          static_cast<const uint32_t*>(received),
                          params.merged_values,
                          params.merged_ids,
                          params.merged_raw_values,
                          params.merged_log_normalizers};
  MergeKernel<<<Blocks(layout.num_entries() * num_ranks), kThreads, 0, device.stream()>>>(counts,
                                                                                          args);
  device.CheckLaunch("MergeCandidates");
}

}  // namespace

void MergeCandidates(Device& device, const MergeCandidatesParams& params, int num_ranks,
                     GatherBytes gather) {
  LaunchValuesBuilder builder;
  builder.Add(params.counts);
  LaunchValues counts;
  builder.Send(device, counts);
  const size_t bytes = static_cast<size_t>(LayoutOf(params).num_words()) * sizeof(uint32_t);
  char* const packed = device.TakeScratch<char>(bytes);
  char* const received = device.TakeScratch<char>(bytes * static_cast<size_t>(num_ranks));
  if (device.ok()) Pack(device, params, counts, packed);
  if (gather(packed, received, bytes)) Merge(device, params, counts, received, num_ranks);
}

}  // namespace beamline::cuda
