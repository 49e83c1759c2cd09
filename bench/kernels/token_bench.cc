// Benchmarks choosing tokens. Arguments: rows, vocabulary size, and one per benchmark.
#include "bench/kernels/bench_arrays.h"

namespace beamline::bench {
namespace {

// The third argument is the number of candidates; more than one means beam search.
void TopCandidates(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int count = static_cast<int>(state.range(2));
  Matrix logits(rows, state.range(1), 3.0f);
  Matrix values(rows, count);
  Matrix raw_values(rows, count);
  Matrix log_normalizers(rows, 1);
  std::vector<int32_t> ids(rows * count);
  const std::vector<int32_t> counts(rows, count);
  const std::vector<uint8_t> normalize(rows, count > 1 ? 1 : 0);
  TopCandidatesParams params;
  params.logits = logits.tensor();
  params.normalize_first = normalize;
  params.counts = counts;
  params.max_count = count;
  params.values = values.data();
  params.ids = ids.data();
  params.log_normalizers = log_normalizers.data();
  params.raw_values = raw_values.data();
  for (auto _ : state) TheBackend().TopCandidates(params);
  CountBytes(state, 4.0 * static_cast<double>(rows * state.range(1)));
}
BENCHMARK(TopCandidates)
    ->UseRealTime()
    ->Args({1, 8000, 1})
    ->Args({4, 8000, 8})
    ->Args({1, 6000, 130})
    ->Args({64, 8000, 1})
    ->Args({1, 128000, 8});

// The third argument is the filter: 0 none, 1 top-k 50, 2 top-p 0.9, 3 typical-p 0.9.
void Sample(benchmark::State& state) {
  const int64_t num_rows = state.range(0);
  Matrix logits(num_rows, state.range(1), 3.0f);
  std::vector<SampleRow> rows(num_rows);
  for (int64_t i = 0; i < num_rows; ++i) {
    rows[i].row = static_cast<int32_t>(i);
    rows[i].temperature = 0.8f;
    if (state.range(2) == 1) rows[i].top_k = 50;
    if (state.range(2) == 2) rows[i].top_p = 0.9f;
    if (state.range(2) == 3) rows[i].typical_p = 0.9f;
  }
  std::vector<int32_t> ids(num_rows);
  SampleParams params;
  params.logits = logits.tensor();
  params.rows = rows;
  params.ids = ids.data();
  for (auto _ : state) {
    TheBackend().Sample(params);
    ++rows[0].position;
  }
  CountBytes(state, 4.0 * static_cast<double>(num_rows * state.range(1)));
}
BENCHMARK(Sample)
    ->UseRealTime()
    ->Args({1, 6000, 0})
    ->Args({1, 6000, 1})
    ->Args({1, 6000, 2})
    ->Args({1, 6000, 3})
    ->Args({64, 8000, 2})
    ->Args({1, 128000, 2});

}  // namespace
}  // namespace beamline::bench
