// Operators that move rows: embedding, gathering, unfolding, block copies.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embed.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "kernels/cpu/norm.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

// output = token * scale + position + type, each [hidden_size]; position and type may be null.
void EmbedRow(const float* token, float scale, const float* position, const float* type,
              size_t hidden_size, float* output) {
  const VF vector_scale = hn::Set(kF32, scale);
  ForEachVector(hidden_size, [&](size_t i, auto load, auto store) HWY_ATTR {
    VF sum = hn::Mul(load(token + i), vector_scale);
    if (type != nullptr) sum = hn::Add(sum, load(type + i));
    if (position != nullptr) sum = hn::Add(sum, load(position + i));
    store(sum, output + i);
  });
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstring>

namespace beamline::cpu {
namespace {

HWY_EXPORT(EmbedRow);

constexpr double kCopyBytesPerNs = 8;

}  // namespace

void Compute(Context& context, const EmbedParams& params) {
  const int64_t hidden_size = params.output.dim(-1);
  const auto row_of = [](const Tensor& table, const int32_t* index, int64_t i) -> const float* {
    return table.empty() ? nullptr : table.row<float>(index[i]);
  };
  const double cost_ns = params.num_tokens * (20.0 + hidden_size * 4 / kCopyBytesPerNs);
  context.Run(params.num_tokens, 16, cost_ns, [&](int64_t begin, int64_t end, Scratch& scratch) {
    scratch.Reset(Scratch::BytesFor<float>(hidden_size));
    float* sum = scratch.Take<float>(hidden_size);
    for (int64_t i = begin; i < end; ++i) {
      HWY_DYNAMIC_DISPATCH(EmbedRow)
      (params.token_table.row<float>(params.token_ids[i]), params.token_scale,
       row_of(params.position_table, params.positions, i),
       row_of(params.type_table, params.type_ids, i), hidden_size, params.output.row<float>(i));
      if (params.norm.gain.empty()) continue;
      NormalizeRow({.kind = params.norm.kind,
                    .x = params.output.row<float>(i),
                    .gain = params.norm.gain.as<float>(),
                    .bias = params.norm.bias.as<float>(),
                    .epsilon = params.norm.epsilon,
                    .hidden_size = static_cast<size_t>(hidden_size),
                    .sum = sum,
                    .y = params.output.row<float>(i)});
    }
  });
}

void Compute(Context& context, const GatherRowsParams& params) {
  const Tensor& input = params.input;
  const int32_t* rows = params.rows;
  const Tensor& output = params.output;
  const size_t element_bytes = SizeOf(input.dtype);
  const size_t row_bytes = output.dim(-1) * element_bytes;
  const double cost_ns = output.num_rows() * (10.0 + row_bytes / kCopyBytesPerNs);
  context.Run(output.num_rows(), 16, cost_ns, [&](int64_t begin, int64_t end, Scratch&) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(output.as<char>() + i * output.row_stride * element_bytes,
                  input.as<char>() + rows[i] * input.row_stride * element_bytes, row_bytes);
    }
  });
}

void Compute(Context& context, const UnfoldParams& params) {
  const Tensor& input = params.input;
  const Tensor& output = params.output;
  const int64_t width = input.dim(-1);
  const int kernel_size = params.kernel_size;
  const double cost_ns =
      static_cast<double>(output.num_elements()) * sizeof(float) / kCopyBytesPerNs;
  const auto unfold = [&](int64_t row, int64_t first, int64_t last, float* to) {
    for (int t = 0; t < kernel_size; ++t) {
      const int64_t from = row + t - kernel_size / 2;
      const bool exists = from >= first && from < last;
      const float* const values = exists ? input.row<float>(from) : nullptr;
      for (int64_t c = 0; c < width; ++c) {
        to[c * kernel_size + t] = exists ? values[c] : 0.0f;
      }
    }
  };
  context.Run(params.num_sequences, 1, cost_ns, [&](int64_t begin, int64_t end, Scratch&) {
    for (int64_t s = begin; s < end; ++s) {
      const int64_t first = params.offsets[s], last = params.offsets[s + 1];
      for (int64_t row = first; row < last; ++row) {
        unfold(row, first, last, output.row<float>(row));
      }
    }
  });
}

void Compute(Context&, const FillTokensParams& params) {
  for (const TokenFill& fill : params.fills) {
    params.token_ids[fill.target] = params.words[fill.source];
  }
}

void Compute(Context& context, const CopyBlocksParams& params) {
  const KvLayer& layer = params.layer;
  const std::span<const BlockCopy> copies = params.copies;
  const size_t block_bytes =
      layer.keys.dim(1) * layer.keys.dim(2) * layer.keys.dim(3) * SizeOf(layer.keys.dtype);
  const int64_t num_copies = static_cast<int64_t>(copies.size());
  const double cost_ns = num_copies * 2 * block_bytes / kCopyBytesPerNs;
  context.Run(num_copies, 1, cost_ns, [&](int64_t begin, int64_t end, Scratch&) {
    for (int64_t i = begin; i < end; ++i) {
      for (const Tensor* tensor : {&layer.keys, &layer.values}) {
        std::memcpy(tensor->as<char>() + copies[i].target * block_bytes,
                    tensor->as<char>() + copies[i].source * block_bytes, block_bytes);
      }
    }
  });
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
