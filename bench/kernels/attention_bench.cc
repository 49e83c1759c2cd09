// Benchmarks attention: packed batches of an encoder and paged decode steps.
#include <numeric>

#include "base/math.h"
#include "bench/kernels/bench_arrays.h"

namespace beamline::bench {
namespace {

constexpr int kBlockSize = 16;

AttentionParams HeadParams(int num_heads, int num_kv_heads, int head_dim) {
  AttentionParams params;
  params.num_heads = num_heads;
  params.num_kv_heads = num_kv_heads;
  params.head_dim = head_dim;
  return params;
}

std::vector<int32_t> UniformOffsets(int num_sequences, int length) {
  std::vector<int32_t> offsets(num_sequences + 1);
  for (int s = 0; s <= num_sequences; ++s) offsets[s] = s * length;
  return offsets;
}

// Arguments: sequences, length, heads, head_dim, and 1 for disentangled attention.
void EncoderAttention(benchmark::State& state) {
  const int num_sequences = static_cast<int>(state.range(0));
  const int length = static_cast<int>(state.range(1));
  const int num_heads = static_cast<int>(state.range(2));
  const int head_dim = static_cast<int>(state.range(3));
  const int64_t num_tokens = num_sequences * length;
  Matrix query(num_tokens, num_heads * head_dim);
  Matrix key(num_tokens, num_heads * head_dim);
  Matrix value(num_tokens, num_heads * head_dim);
  Matrix output(num_tokens, num_heads * head_dim);
  const std::vector<int32_t> offsets = UniformOffsets(num_sequences, length);
  AttentionParams params = HeadParams(num_heads, num_heads, head_dim);
  params.query = query.tensor();
  params.key = key.tensor();
  params.value = value.tensor();
  params.output = output.tensor();
  params.num_sequences = num_sequences;
  params.query_offsets = offsets.data();
  params.max_query_length = length;
  const bool disentangled = state.range(4) != 0;
  Matrix positions(2 * length, num_heads * head_dim);
  std::vector<int32_t> rows(2 * length - 1);
  std::iota(rows.begin(), rows.end(), 0);
  if (disentangled) {
    params.relative = {.keys = positions.tensor(),
                       .queries = positions.tensor(),
                       .rows = rows.data(),
                       .max_distance = length - 1};
  }
  for (auto _ : state) TheBackend().Attention(params);
  const double flops = disentangled ? 8.0 : 4.0;
  CountFlops(state, flops * num_sequences * length * length * num_heads * head_dim);
}
BENCHMARK(EncoderAttention)
    ->UseRealTime()
    ->Args({1, 16, 4, 64, 0})
    ->Args({8, 32, 4, 64, 0})
    ->Args({64, 32, 4, 64, 0})
    ->Args({8, 256, 4, 64, 0})
    ->Args({8, 256, 4, 64, 1})
    ->Args({1, 512, 12, 64, 0})
    ->Args({1, 512, 12, 64, 1})
    ->Args({1, 2048, 12, 64, 0});

// One query per sequence. The sequences of a group (beams) share their blocks. Arguments:
// sequences, context, heads, key-value heads, head_dim, beams per group, bits per cached number
// (16: bfloat16).
void DecodeAttention(benchmark::State& state) {
  const int num_sequences = static_cast<int>(state.range(0));
  const int context = static_cast<int>(state.range(1));
  const int num_heads = static_cast<int>(state.range(2));
  const int num_kv_heads = static_cast<int>(state.range(3));
  const int head_dim = static_cast<int>(state.range(4));
  const int num_beams = static_cast<int>(state.range(5));
  const DType dtype = state.range(6) == 16 ? DType::kBFloat16 : DType::kFloat32;
  const int max_blocks = CeilDiv(context, kBlockSize);
  const int64_t num_blocks = int64_t{num_sequences} / num_beams * max_blocks;
  Matrix query(num_sequences, num_heads * head_dim);
  Matrix output(num_sequences, num_heads * head_dim);
  Matrix keys(num_blocks * num_kv_heads * kBlockSize, head_dim);
  Matrix values(num_blocks * num_kv_heads * kBlockSize, head_dim);
  const auto shaped = [&](Matrix& matrix) {
    if (dtype == DType::kBFloat16) matrix.RoundToBFloat16();
    return Tensor(matrix.data(), dtype, {num_blocks, num_kv_heads, kBlockSize, head_dim});
  };
  const KvLayer cache = {
      .keys = shaped(keys), .values = shaped(values), .key_layout = TheBackend().key_layout()};
  std::vector<int32_t> all(num_blocks), blocks;
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), std::mt19937(1));
  for (int s = 0; s < num_sequences; ++s) {
    const auto first = all.begin() + int64_t{s} / num_beams * max_blocks;
    blocks.insert(blocks.end(), first, first + max_blocks);
  }
  const std::vector<int32_t> offsets = UniformOffsets(num_sequences, 1);
  const std::vector<int32_t> contexts(num_sequences, context);
  AttentionParams params = HeadParams(num_heads, num_kv_heads, head_dim);
  params.query = query.tensor();
  params.output = output.tensor();
  params.num_sequences = num_sequences;
  params.query_offsets = offsets.data();
  params.max_query_length = 1;
  params.cache = &cache;
  params.block_tables = blocks.data();
  params.max_blocks = max_blocks;
  params.context_lengths = contexts.data();
  params.max_context_length = context;
  params.causal = true;
  for (auto _ : state) TheBackend().Attention(params);
  CountBytes(state, 2.0 * static_cast<double>(SizeOf(dtype)) * num_sequences * context *
                        num_kv_heads * head_dim);
}

// 8 sequences and 4 key-value heads: separate sequences, groups of 4 beams, and 8 query heads per
// key-value head.
void DecodeCases(benchmark::internal::Benchmark* decode) {
  for (const int bits : {32, 16}) {
    for (const int head_dim : {64, 128}) {
      for (const int context : {32, 128, 512, 2048}) {
        decode->Args({8, context, 4, 4, head_dim, 1, bits});
        decode->Args({8, context, 4, 4, head_dim, 4, bits});
        decode->Args({8, context, 32, 4, head_dim, 1, bits});
      }
    }
  }
}
BENCHMARK(DecodeAttention)
    ->UseRealTime()
    ->Args({1, 32, 3, 3, 64, 1, 32})
    ->Args({1, 256, 4, 4, 64, 1, 32})
    ->Args({64, 128, 4, 4, 64, 1, 32})
    ->Args({8, 1024, 32, 8, 128, 1, 32})
    ->Apply(DecodeCases);

}  // namespace
}  // namespace beamline::bench
