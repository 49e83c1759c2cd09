#include "bench/kernels/prefill_bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/math.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// in_place: queries, keys and values are columns of one matrix, as in an encoder. paged: keys and
// values are in cache blocks, in random order.
struct Prefill {
  std::vector<int32_t> lengths;
  int heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = false;
  DType dtype = DType::kBFloat16;
  bool in_place = false, paged = false;
  bool has_positions = false;  // disentangled attention, with all distances in the texts
};

// One set of queries, keys and values. If paged, `cache` gets the pages.
AttentionParams PrefillInputs(Bench& bench, const Prefill& work, int64_t tokens, KvLayer& cache) {
  constexpr int kBlockSize = 16;
  const int64_t width = int64_t{work.heads} * work.head_dim;
  const int64_t kv_width = int64_t{work.kv_heads} * work.head_dim;
  AttentionParams params;
  params.output = bench.RandomTensor({tokens, width}, work.dtype);
  if (work.in_place) {
    const Tensor packed = bench.RandomTensor({tokens, width + 2 * kv_width}, work.dtype);
    params.query = packed.Columns(0, width);
    params.key = packed.Columns(width, kv_width);
    params.value = packed.Columns(width + kv_width, kv_width);
    return params;
  }
  params.query = bench.RandomTensor({tokens, width}, work.dtype);
  if (!work.paged) {
    params.key = bench.RandomTensor({tokens, kv_width}, work.dtype);
    params.value = bench.RandomTensor({tokens, kv_width}, work.dtype);
    return params;
  }
  params.max_context_length = *std::max_element(work.lengths.begin(), work.lengths.end());
  params.max_blocks = CeilDiv(params.max_context_length, kBlockSize);
  std::vector<int32_t> tables(work.lengths.size() * static_cast<size_t>(params.max_blocks));
  std::iota(tables.begin(), tables.end(), 0);
  std::shuffle(tables.begin(), tables.end(), std::mt19937(5));
  const auto num_blocks = static_cast<int64_t>(tables.size());
  for (Tensor* tensor : {&cache.keys, &cache.values}) {
    *tensor =
        bench.RandomTensor({num_blocks, work.kv_heads, kBlockSize, work.head_dim}, work.dtype);
  }
  params.cache = &cache;
  params.block_tables = bench.Ids(tables);
  params.context_lengths = bench.Ids(work.lengths);
  return params;
}

void TimePrefill(Bench& bench, const std::string& name, const Prefill& work) {
  if (!bench.Wants(name)) return;
  std::vector<int32_t> offsets = {0};
  double pairs = 0;
  for (const int32_t length : work.lengths) {
    offsets.push_back(offsets.back() + length);
    pairs += static_cast<double>(length) * length * (work.causal ? 0.5 : 1.0);
  }
  const int64_t tokens = offsets.back(), width = int64_t{work.heads} * work.head_dim;
  const size_t bytes =
      static_cast<size_t>(2 * tokens * work.head_dim * (work.heads + work.kv_heads)) *
      SizeOf(work.dtype);
  std::vector<KvLayer> caches(std::clamp<size_t>(kRotationBytes / bytes, 1, 8));
  std::vector<AttentionParams> sets;
  for (KvLayer& cache : caches) {
    AttentionParams& params = sets.emplace_back(PrefillInputs(bench, work, tokens, cache));
    params.num_heads = work.heads, params.num_kv_heads = work.kv_heads;
    params.head_dim = work.head_dim;
    params.num_sequences = static_cast<int>(work.lengths.size());
    params.max_query_length = *std::max_element(work.lengths.begin(), work.lengths.end());
    params.causal = work.causal;
    params.query_offsets = bench.Ids(offsets);
    if (!work.has_positions) continue;
    const int64_t rows = 2 * int64_t{params.max_query_length};
    std::vector<int32_t> distances(static_cast<size_t>(rows) - 1);
    std::iota(distances.begin(), distances.end(), 0);
    params.relative = {.keys = bench.RandomTensor({rows, width}, work.dtype),
                       .queries = bench.RandomTensor({rows, width}, work.dtype),
                       .rows = bench.Ids(distances),
                       .max_distance = params.max_query_length - 1};
  }
  bench.Time(name, (work.has_positions ? 9.0 : 4.0) * pairs * width, static_cast<double>(bytes),
             [&](int i) { bench.backend().Attention(sets[i % sets.size()]); });
  bench.Clear();
}

// The name lists key-value heads only if their number differs from that of query heads.
void TimePackedAttention(Bench& bench, int batch, int length, Prefill work) {
  const std::string kv_heads = work.kv_heads == work.heads ? "" : fmt::format("/{}", work.kv_heads);
  const std::string name = fmt::format("attention prefill{} {}: B{} H{}{} T{} D{}{}",
                                       work.has_positions ? " with positions"
                                       : work.in_place    ? " in place"
                                       : work.paged       ? " paged"
                                                          : "",
                                       Name(work.dtype), batch, work.heads, kv_heads, length,
                                       work.head_dim, work.causal ? " causal" : "");
  work.lengths.assign(batch, length);
  TimePrefill(bench, name, work);
}

void TimePackedAttention(Bench& bench, int batch, int heads, int length, int head_dim, bool causal,
                         DType dtype = DType::kBFloat16, bool in_place = false) {
  TimePackedAttention(bench, batch, length,
                      {.heads = heads,
                       .kv_heads = heads,
                       .head_dim = head_dim,
                       .causal = causal,
                       .dtype = dtype,
                       .in_place = in_place});
}

// Lengths like those of real texts: log-normal with a median of 58.
void TimeRaggedAttention(Bench& bench, int batch) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> length(std::log(58.0), 0.75);
  Prefill work = {.heads = 12, .kv_heads = 12, .head_dim = 64, .in_place = true};
  work.lengths.resize(batch);
  for (int32_t& l : work.lengths) l = std::clamp(static_cast<int32_t>(length(random)), 4, 500);
  TimePrefill(bench,
              fmt::format("attention prefill in place bfloat16: {} ragged, {} tokens, H12 D64",
                          batch, std::accumulate(work.lengths.begin(), work.lengths.end(), 0)),
              work);
}

// Prompts of GPT-2, and of a model with 32 query heads and 8 key-value heads.
void TimePrompts(Bench& bench) {
  for (const auto& [batch, length] : {std::pair(1, 512), {8, 512}, {1, 1024}}) {
    TimePackedAttention(
        bench, batch, length,
        {.heads = 12, .kv_heads = 12, .head_dim = 64, .causal = true, .paged = true});
  }
  for (const auto& [batch, length] : {std::pair(1, 2048), {4, 2048}, {1, 8192}}) {
    for (const bool paged : {false, true}) {
      TimePackedAttention(
          bench, batch, length,
          {.heads = 32, .kv_heads = 8, .head_dim = 128, .causal = true, .paged = paged});
    }
  }
}

}  // namespace

void TimePrefills(Bench& bench) {
  const DType bf16 = DType::kBFloat16, f32 = DType::kFloat32;
  TimePackedAttention(bench, 4, 16, 4096, 64, true);
  TimePackedAttention(bench, 4, 32, 4096, 128, true);
  TimePackedAttention(bench, 4, 32, 4096, 128, false);
  TimePackedAttention(bench, 12, 12, 1024, 64, true);
  TimePackedAttention(bench, 32, 12, 128, 64, false);
  for (int head_dim : {32, 80, 96, 256}) {
    TimePackedAttention(bench, 12, 12, 1024, head_dim, true);
    TimePackedAttention(bench, 32, 12, 128, head_dim, false);
  }
  for (int head_dim : {32, 64, 128}) {
    TimePackedAttention(bench, 12, 12, 1024, head_dim, true, f32);
    TimePackedAttention(bench, 32, 12, 128, head_dim, false, f32);
  }
  TimePackedAttention(bench, 1, 12, 128, 64, false, f32);
  for (const auto& [batch, length] : {std::pair(1, 32), {1, 128}, {256, 128}, {32, 512}}) {
    TimePackedAttention(bench, batch, 12, length, 64, false, bf16, true);
  }
  for (const DType dtype : {bf16, f32}) {
    for (const auto& [batch, length] : {std::pair(1, 32), {1, 128}, {256, 128}, {32, 512}}) {
      TimePackedAttention(bench, batch, length,
                          {.heads = 12,
                           .kv_heads = 12,
                           .head_dim = 64,
                           .dtype = dtype,
                           .in_place = true,
                           .has_positions = true});
    }
  }
  TimeRaggedAttention(bench, 512);
  TimePrompts(bench);
}

}  // namespace beamline
