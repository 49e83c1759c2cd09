// Attention: sets the arguments of the kernels, and calls the chosen kernel.
#include "kernels/cuda/attention/attention.h"

#include <limits>
#include <numbers>

#include "kernels/cuda/attention/attention_args.cuh"

namespace beamline::cuda {
namespace {

template <typename T>
void SetPositions(const RelativePositions& relative, AttentionArgs<T>& args) {
  args.position_keys = relative.keys.as<T>();
  args.position_queries = relative.queries.as<T>();
  args.position_key_stride = relative.keys.row_stride;
  args.position_query_stride = relative.queries.row_stride;
  args.position_rows = relative.rows;
  args.max_position_distance = relative.max_distance;
}

template <typename T>
AttentionArgs<T> MakeArgs(const AttentionParams& params) {
  AttentionArgs<T> args = {};
  args.query = params.query.as<T>();
  args.output = params.output.as<T>();
  args.query_stride = params.query.row_stride;
  args.output_stride = params.output.row_stride;
  args.query_offsets = params.query_offsets;
  args.num_kv_heads = params.num_kv_heads;
  args.group_size = params.num_heads / params.num_kv_heads;
  args.head_dim = params.head_dim;
  args.scale = params.scale;
  args.causal = params.causal;
  constexpr int kAll = 1 << 30;  // more than any context, and small enough not to overflow
  args.window = params.window > 0 ? params.window : kAll;
  args.ahead = params.causal ? 0 : args.window - 1;
  args.alibi_slopes = params.alibi_slopes;
  args.rounded_alibi_factor = params.rounded_alibi_factor;
  args.block_size = Divisor(std::numeric_limits<int>::max());
  if (params.cache == nullptr) {
    args.keys = params.key.as<T>();
    args.values = params.value.as<T>();
    args.key_stride = params.key.row_stride;
    args.value_stride = params.value.row_stride;
  } else {
    const Tensor& keys = params.cache->keys;
    args.keys = keys.as<T>();
    args.values = params.cache->values.as<T>();
    args.block_tables = params.block_tables;
    args.max_blocks = params.max_blocks;
    args.block_size = Divisor(static_cast<int>(keys.dim(2)));
    args.block_stride = keys.dim(1) * keys.dim(2) * keys.dim(3);
    args.context_lengths = params.context_lengths;
  }
  args.softcap = params.softcap;
  if (!params.position_bias.empty()) {
    args.position_bias = params.position_bias.data;
    args.bias_is_float = params.position_bias.dtype == DType::kFloat32;
    args.bias_stride = params.position_bias.row_stride;
    args.max_distance = static_cast<int>(params.position_bias.dim(-1) / 2);
  }
  SetPositions(params.relative, args);
  args.log2_factor = std::numbers::log2e_v<float> * (EditsScores(args) ? 1.0f : params.scale);
  return args;
}

}  // namespace

void Compute(Device& device, const AttentionParams& params, const AttentionChoice& choice) {
  DispatchFloat(params.query.dtype, [&]<typename T>() {
    const AttentionArgs<T> args = MakeArgs<T>(params);
    switch (choice.kernel) {
      case AttentionKernel::kMath:
        return AttendMath<T>(device, args, params);
      case AttentionKernel::kRows:
        return AttendRows<T>(device, args, params, choice);
      case AttentionKernel::kShortRows:
        return AttendShortRows<T>(device, args, params);
      case AttentionKernel::kGroups:
        if constexpr (sizeof(T) == 2) return AttendGroups<T>(device, args, params, choice);
        break;
      case AttentionKernel::kTiles:
        if constexpr (sizeof(T) == 4) return AttendTiles(device, args, params);
        break;
      case AttentionKernel::kTensorCore:
        if constexpr (sizeof(T) == 2) {
          return AttendTensorCore<T>(device, args, params, choice.rows_per_block);
        }
        break;
      case AttentionKernel::kWgmma:
        if constexpr (sizeof(T) == 2) {
          return AttendWgmma<T>(device, args, params, choice.rows_per_block);
        }
        break;
      case AttentionKernel::kDisentangled:
        return AttendDisentangled<T>(device, args, params);
    }
  });
}

}  // namespace beamline::cuda
