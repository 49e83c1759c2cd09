// ReorderBeams for few beams, in one launch. The tables are sent with the launch, so that every
// block finds a row's next block from the parents of its group alone.
#include "kernels/cuda/choice/few_beams.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/launch_values.cuh"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMostLayers = 32;
constexpr int kMostTableBytes = 1536;  // of a launch, with its rows and fills

// A row of a group.
struct RowArgs {
  int32_t row;          // of its group
  int32_t num_rows;     // of the group
  int32_t parent_word;  // of the group
  int32_t table;        // the group's first entry in `tables`: [num_rows, column + 1]
  int32_t column;
  int32_t num_filled;
  int32_t table_row;  // in block_tables
  int32_t token;      // in slots
};

struct FewBeamsArgs {
  LaunchValues values_of_host;  // at these offsets:
  int rows;                     // [grid's x]
  int tables;
  int fills;  // [num_fills]
  int num_fills;
  const int32_t* words;
  int32_t* token_ids;
  int32_t* block_tables;
  int max_blocks;
  int32_t* slots;
  int block_size;
  int num_caches;                 // the grid's y, minus one
  char* caches[2 * kMostLayers];  // keys and values of each layer
  int num_heads;
  int64_t head_bytes;      // of a block
  int64_t position_bytes;  // of a head
};

// The rows whose blocks a row gets: `parent` for all blocks but the last, `blocks_of` for the last.
// As BeamTailWalk, but by the lanes of a warp in parallel.
struct Origin {
  int parent;
  int blocks_of;
  bool copied;
};

__device__ Origin OriginOf(const RowArgs& row, const int32_t* words) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const bool exists = lane < row.num_rows;
  const int parent = exists ? words[row.parent_word + lane] : -1 - lane;  // all different
  const unsigned alike = __match_any_sync(kFullMask, parent);
  const bool is_first = __ffs(static_cast<int>(alike)) - 1 == lane;
  const unsigned later = __ballot_sync(kFullMask, !is_first);
  const unsigned parents = __reduce_or_sync(kFullMask, exists ? 1u << parent : 0u);
  Origin origin = {__shfl_sync(kFullMask, parent, row.row), 0, (later >> row.row & 1u) != 0};
  origin.blocks_of = origin.parent;
  if (origin.copied) {
    // Earlier copied rows have taken as many rows without children.
    unsigned childless = ~parents;
#pragma unroll 1
    for (unsigned taken = later & ((1u << row.row) - 1u); taken != 0; taken &= taken - 1) {
      childless &= childless - 1;
    }
    origin.blocks_of = __ffs(static_cast<int>(childless)) - 1;
  }
  return origin;
}

// Grid: (rows of all groups, keys and values of the layers, and one more for tables and tokens).
// Bound by its launch, and by the latencies of a parent word and of the copy that depends on it.
template <typename Unit>
__global__ void __launch_bounds__(kThreads)
    FewBeamsKernel(const __grid_constant__ FewBeamsArgs args) {
  const LaunchValues& host = args.values_of_host;
  const auto row = host.Get<RowArgs>(args.rows, blockIdx.x);
  const int width = row.column + 1;
  const auto table = [&](int of_row, int column) {
    return host.Get<int32_t>(args.tables, row.table + of_row * width + column);
  };
  WaitForEarlierKernels();
  const Origin origin = OriginOf(row, args.words);
  const int32_t target = table(origin.blocks_of, row.column);
  if (static_cast<int>(blockIdx.y) == args.num_caches) {
    int32_t* const to = args.block_tables + static_cast<int64_t>(row.table_row) * args.max_blocks;
    for (int i = threadIdx.x; i < row.column; i += kThreads) to[i] = table(origin.parent, i);
    for (int i = blockIdx.x * kThreads + threadIdx.x; i < args.num_fills;
         i += gridDim.x * kThreads) {
      const auto fill = host.Get<TokenFill>(args.fills, i);
      args.token_ids[fill.target] = args.words[fill.source];
    }
    if (row.num_filled > 0 && threadIdx.x == 0) {
      to[row.column] = target;
      args.slots[row.token] = target * args.block_size + row.num_filled;
    }
    return;
  }
  if (row.num_filled == 0 || !origin.copied) return;
  const int32_t source = table(origin.parent, row.column);
  char* const cache = args.caches[blockIdx.y];
  const auto units = static_cast<unsigned>(row.num_filled * args.position_bytes /
                                           static_cast<int64_t>(sizeof(Unit)));
  for (unsigned i = threadIdx.x; i < args.num_heads * units; i += kThreads) {
    const unsigned head = i / units;
    const auto at = [&](int32_t block) {
      return reinterpret_cast<Unit*>(cache + (static_cast<int64_t>(block) * args.num_heads + head) *
                                                 args.head_bytes) +
             (i - head * units);
    };
    *at(target) = *at(source);
  }
}

// Collects the rows of all groups, and the filled parts of their tables.
void Gather(const ReorderBeamsParams& params, std::vector<RowArgs>& rows,
            std::vector<int32_t>& tables) {
  for (const BeamTables& group : params.groups) {
    const auto first = static_cast<int32_t>(tables.size());
    for (int32_t r = 0; r < group.num_rows; ++r) {
      rows.push_back({r, group.num_rows, group.parent_word, first, group.column, group.num_filled,
                      group.first_row + r, group.first_token + r});
      const auto table = params.host_tables.subspan(
          static_cast<size_t>(group.first_row + r) * params.max_blocks, group.column + 1);
      tables.insert(tables.end(), table.begin(), table.end());
    }
  }
}

bool AreFew(const ReorderBeamsParams& params) {
  if (params.host_tables.empty() || params.layers.size() > kMostLayers) return false;
  size_t num_rows = 0, num_entries = 0;
  for (const BeamTables& group : params.groups) {
    if (group.num_rows > kWarpSize) return false;
    num_rows += group.num_rows;
    num_entries += static_cast<size_t>(group.num_rows) * (group.column + 1);
  }
  return num_rows * sizeof(RowArgs) + num_entries * sizeof(int32_t) + params.fills.size_bytes() <=
         kMostTableBytes;
}

}  // namespace

bool ReorderFewBeams(Device& device, const ReorderBeamsParams& params) {
  if (!AreFew(params)) return false;
  std::vector<RowArgs> rows;
  std::vector<int32_t> tables;
  Gather(params, rows, tables);
  FewBeamsArgs args = {};
  LaunchValuesBuilder values;
  args.rows = values.Add(std::span(rows));
  args.tables = values.Add(std::span(tables));
  args.fills = values.Add(params.fills);
  args.num_fills = static_cast<int>(params.fills.size());
  values.Send(device, args.values_of_host);
  if (!device.ok()) return true;
  const Tensor& keys = params.layers[0].keys;
  const auto element_bytes = static_cast<int64_t>(SizeOf(keys.dtype));
  args.words = params.words;
  args.token_ids = params.token_ids;
  args.block_tables = params.block_tables;
  args.max_blocks = params.max_blocks;
  args.slots = params.slots;
  args.block_size = static_cast<int>(keys.dim(2));
  args.num_heads = static_cast<int>(keys.dim(1));
  args.head_bytes = keys.dim(2) * keys.dim(3) * element_bytes;
  args.position_bytes = keys.dim(3) * element_bytes;
  const auto is_filled = [](const BeamTables& group) { return group.num_filled > 0; };
  if (std::ranges::any_of(params.groups, is_filled)) {
    for (const KvLayer& layer : params.layers) {
      args.caches[args.num_caches++] = layer.keys.as<char>();
      args.caches[args.num_caches++] = layer.values.as<char>();
    }
  }
  const dim3 grid(static_cast<unsigned>(rows.size()), static_cast<unsigned>(args.num_caches) + 1);
  const auto kernel =
      args.position_bytes % 16 == 0 ? FewBeamsKernel<uint4> : FewBeamsKernel<uint16_t>;
  LaunchOverlapped(device, "ReorderBeams", kernel, grid, kThreads, /*shared_bytes=*/0, args);
  return true;
}

}  // namespace beamline::cuda
