// Benchmarks operators over rows. Arguments: rows and hidden_size.
#include "bench/kernels/bench_arrays.h"

namespace beamline::bench {
namespace {

constexpr int kVocabSize = 8000;

void RowShapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->UseRealTime();
  for (int64_t rows : {1, 8, 64, 2048}) benchmark->Args({rows, 192})->Args({rows, 256});
}

void LayerNormResidual(benchmark::State& state) {
  Matrix x(state.range(0), state.range(1));
  Matrix residual(state.range(0), state.range(1));
  Matrix y(state.range(0), state.range(1));
  Matrix gain(1, state.range(1));
  Matrix bias(1, state.range(1));
  NormParams params;
  params.x = x.tensor();
  params.residual = residual.tensor();
  params.gain = gain.vector();
  params.bias = bias.vector();
  params.y = y.tensor();
  for (auto _ : state) TheBackend().Norm(params);
  CountBytes(state, 12.0 * static_cast<double>(state.range(0) * state.range(1)));
}
BENCHMARK(LayerNormResidual)->Apply(RowShapes);

void EmbedTokens(benchmark::State& state) {
  Matrix table(kVocabSize, state.range(1));
  Matrix positions(512, state.range(1));
  Matrix output(state.range(0), state.range(1));
  std::vector<int32_t> token_ids(state.range(0));
  std::vector<int32_t> position_ids(state.range(0));
  for (size_t i = 0; i < token_ids.size(); ++i) {
    token_ids[i] = static_cast<int32_t>(i * 7919 % kVocabSize);
    position_ids[i] = static_cast<int32_t>(i % 512);
  }
  EmbedParams params;
  params.token_ids = token_ids.data();
  params.positions = position_ids.data();
  params.num_tokens = state.range(0);
  params.token_table = table.tensor();
  params.position_table = positions.tensor();
  params.output = output.tensor();
  for (auto _ : state) TheBackend().Embed(params);
  CountBytes(state, 12.0 * static_cast<double>(state.range(0) * state.range(1)));
}
BENCHMARK(EmbedTokens)->Apply(RowShapes);

// Sequences of 32 tokens.
void MeanPool(benchmark::State& state) {
  const int num_sequences = static_cast<int>(state.range(0));
  Matrix hidden(num_sequences * 32, state.range(1));
  Matrix output(num_sequences, state.range(1));
  std::vector<int32_t> offsets(num_sequences + 1);
  for (int s = 0; s <= num_sequences; ++s) offsets[s] = 32 * s;
  PoolParams params;
  params.normalize = true;
  params.hidden = hidden.tensor();
  params.offsets = offsets.data();
  params.num_sequences = num_sequences;
  params.output = output.tensor();
  for (auto _ : state) TheBackend().Pool(params);
  CountBytes(state, 128.0 * static_cast<double>(num_sequences * state.range(1)));
}
BENCHMARK(MeanPool)->UseRealTime()->Args({1, 256})->Args({64, 256});

// Arguments: tokens, hidden_size, heads. head_dim is 64; keys and values are written to the cache.
void ProjectHeads(benchmark::State& state) {
  const int64_t num_tokens = state.range(0);
  const int64_t hidden_size = state.range(1);
  const int num_heads = static_cast<int>(state.range(2));
  const auto weight = RandomWeight(3 * num_heads * 64, hidden_size, DType::kFloat32);
  Matrix x(num_tokens, hidden_size);
  Matrix bias(1, 3 * num_heads * 64);
  Matrix query(num_tokens, num_heads * 64);
  Matrix workspace(num_tokens, 3 * num_heads * 64);
  const int64_t num_blocks = num_tokens / 16 + 1;
  Matrix keys(num_blocks * num_heads * 16, 64);
  Matrix values(num_blocks * num_heads * 16, 64);
  const KvLayer cache = {
      .keys = Tensor(keys.data(), DType::kFloat32, {num_blocks, num_heads, 16, 64}),
      .values = Tensor(values.data(), DType::kFloat32, {num_blocks, num_heads, 16, 64}),
      .key_layout = TheBackend().key_layout()};
  std::vector<int32_t> slots(num_tokens);
  std::iota(slots.begin(), slots.end(), 0);
  ProjectHeadsParams params;
  params.x = x.tensor();
  params.weight = weight.get();
  params.bias = bias.vector();
  params.num_heads = num_heads;
  params.num_kv_heads = num_heads;
  params.head_dim = 64;
  params.query = query.tensor();
  params.cache = &cache;
  params.slots = slots.data();
  params.workspace = workspace.tensor();
  for (auto _ : state) TheBackend().ProjectHeads(params);
  CountFlops(state, 2.0 * static_cast<double>(num_tokens * hidden_size * 3 * num_heads * 64));
}
BENCHMARK(ProjectHeads)
    ->UseRealTime()
    ->Args({1, 192, 3})
    ->Args({8, 256, 4})
    ->Args({64, 256, 4})
    ->Args({2048, 256, 4});

}  // namespace
}  // namespace beamline::bench
