// ProjectHeads: computes the product into the workspace, then moves every head to its destination.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/project_heads.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "kernels/cpu/bf16_convert.h"
#include "kernels/cpu/fetch_lines.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/simd-inl.h"
#include "kernels/cpu/transpose-inl.h"
#include "kernels/float16.h"
#include "kernels/input_norm.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

void CopyScaled(const float* from, float scale, size_t size, float* to) {
  const VF scales = hn::Set(kF32, scale);
  ForEachVector(size, [&](size_t i, auto load, auto store)
                          HWY_ATTR { store(hn::Mul(load(from + i), scales), to + i); });
}

// to[d * stride + i] = rows[i][d] for i < num_rows.
void StoreColumns(const float* const* rows, int num_rows, int num_columns, int64_t stride,
                  float* to) {
  // Uses vectors of 4 rows: runs of neighbouring slots seldom fill the longest vectors.
  const hn::CappedTag<float, 4> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const int whole = num_rows / lanes * lanes;
  TransposeRows(d, rows, whole, num_columns, stride, to);
  for (int i = whole; i < num_rows; ++i) {
    for (int c = 0; c < num_columns; ++c) to[c * stride + i] = rows[i][c];
  }
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace beamline::cpu {
namespace {

HWY_EXPORT(CopyScaled);
HWY_EXPORT(StoreColumns);

constexpr double kNsPerElement = 0.2;

// Rotates the first rotary_dim values of a head, [head_dim], in place.
void Rotate(const float* cos_sin, int64_t rotary_dim, bool interleaved, float* head) {
  const int64_t half = rotary_dim / 2;
  const float* cosines = cos_sin;
  const float* sines = cos_sin + half;
  const int64_t pair_step = interleaved ? 2 : 1;
  const int64_t partner = interleaved ? 1 : half;
  for (int64_t i = 0; i < half; ++i) {
    float& first = head[i * pair_step];
    float& second = head[i * pair_step + partner];
    const float a = first;
    const float b = second;
    first = a * cosines[i] - b * sines[i];
    second = b * cosines[i] + a * sines[i];
  }
}

// Moves tokens' heads from their workspace rows to the outputs.
class HeadMover {
 public:
  // Tokens moved before their keys are stored. The prefetched destinations of their keys stay in
  // the L2 cache meanwhile.
  static constexpr int64_t kGroup = 16;

  explicit HeadMover(const ProjectHeadsParams& params) : p_(params) {}

  // Prefetches the destination of a token's keys: one cache line per element, which the CPU would
  // otherwise fetch one after the other. Skipped if a previous token, from `first` on, has fetched
  // the same lines.
  void FetchKeyColumns(int64_t token, int64_t first) const {
    if (p_.cache == nullptr) return;
    const Tensor& keys = p_.cache->keys;
    const int64_t block_size = keys.dim(2);
    const int64_t slot = p_.slots[token];
    if (token > first && p_.slots[token - 1] == slot - 1 && slot % block_size != 0) return;
    const int64_t element = SizeOf(keys.dtype);
    const int64_t step = std::max<int64_t>(block_size * element, kCacheLineBytes);
    const int64_t bytes = p_.num_kv_heads * p_.head_dim * block_size * element;
    const char* const columns = keys.as<char>() + KeyOffset(token, 0, block_size) * element;
    FetchLines(columns, bytes, step);
  }

  void Move(int64_t token) const {
    float* heads = p_.workspace.row<float>(token);
    const int64_t query_size = static_cast<int64_t>(p_.num_heads) * p_.head_dim;
    if (p_.clip > 0) Clip(heads);
    NormHeads(p_.query_norm, p_.num_heads, heads);
    NormHeads(p_.key_norm, p_.num_kv_heads, heads + query_size);
    if (p_.rotary != nullptr) RotateHeads(token, heads);
    const int64_t key_size = static_cast<int64_t>(p_.num_kv_heads) * p_.head_dim;
    if (query_size > 0) {
      HWY_DYNAMIC_DISPATCH(CopyScaled)
      (heads, p_.query_scale, query_size, p_.query.row<float>(token));
    }
    const float* keys = heads + query_size;
    const float* values = keys + key_size;
    if (key_size == 0) return;
    if (p_.cache == nullptr) {
      std::copy_n(keys, key_size, p_.key.row<float>(token));
      std::copy_n(values, key_size, p_.value.row<float>(token));
      return;
    }
    const int64_t block_size = p_.cache->keys.dim(2);
    const int64_t block = p_.slots[token] / block_size, position = p_.slots[token] % block_size;
    for (int h = 0; h < p_.num_kv_heads; ++h) {
      const int64_t row = (block * p_.num_kv_heads + h) * block_size + position;
      Store(values + h * p_.head_dim, p_.cache->values, row * p_.head_dim);
    }
  }

  // Stores the keys of moved tokens in the cache, as columns (KeyLayout).
  void StoreKeys(int64_t begin, int64_t end, Scratch& scratch) const {
    if (p_.cache == nullptr || p_.num_kv_heads == 0) return;
    if (p_.cache->keys.dtype != DType::kFloat32) return StoreNarrowKeys(begin, end, scratch);
    const int64_t block_size = p_.cache->keys.dim(2);
    const float* rows[kMostNeighbours];
    for (int64_t token = begin; token < end;) {
      const int count = Neighbours(token, end, block_size);
      for (int h = 0; h < p_.num_kv_heads; ++h) {
        for (int i = 0; i < count; ++i) rows[i] = Key(token + i, h);
        HWY_DYNAMIC_DISPATCH(StoreColumns)
        (rows, count, p_.head_dim, block_size,
         p_.cache->keys.as<float>() + KeyOffset(token, h, block_size));
      }
      token += count;
    }
  }

 private:
  void Clip(float* heads) const {
    for (int64_t i = 0; i < p_.weight->out_features(); ++i) {
      heads[i] = std::clamp(heads[i], -p_.clip, p_.clip);  // NaN stays
    }
  }

  static constexpr int kMostNeighbours = 16;

  // Number of tokens, from this one on, with consecutive slots in one block.
  int Neighbours(int64_t token, int64_t end, int64_t block_size) const {
    const int64_t slot = p_.slots[token];
    const int64_t most = std::min(
        {end - token, block_size - slot % block_size, static_cast<int64_t>(kMostNeighbours)});
    int count = 1;
    while (count < most && p_.slots[token + count] == slot + count) ++count;
    return count;
  }

  const float* Key(int64_t token, int head) const {
    return p_.workspace.row<float>(token) + int64_t{p_.num_heads + head} * p_.head_dim;
  }

  // Offset of a token's key in the cache. Its elements are block_size apart.
  int64_t KeyOffset(int64_t token, int64_t head, int64_t block_size) const {
    const int64_t block = p_.slots[token] / block_size;
    return (block * p_.num_kv_heads + head) * block_size * p_.head_dim +
           p_.slots[token] % block_size;
  }

  void StoreNarrowKeys(int64_t begin, int64_t end, Scratch& scratch) const {
    const Tensor& cache = p_.cache->keys;
    const int64_t block_size = cache.dim(2);
    scratch.Reset(Scratch::BytesFor<uint16_t>(p_.head_dim));
    auto* const narrow = scratch.Take<uint16_t>(p_.head_dim);
    for (int64_t token = begin; token < end; ++token) {
      for (int h = 0; h < p_.num_kv_heads; ++h) {
        Narrow(Key(token, h), cache.dtype, narrow);
        uint16_t* const to = cache.as<uint16_t>() + KeyOffset(token, h, block_size);
        for (int d = 0; d < p_.head_dim; ++d) to[d * block_size] = narrow[d];
      }
    }
  }

  void Narrow(const float* head, DType dtype, uint16_t* to) const {
    if (dtype == DType::kBFloat16) {
      ConvertToBFloat16(head, static_cast<size_t>(p_.head_dim), to);
    } else {
      std::transform(head, head + p_.head_dim, to, ToFloat16);
    }
  }

  // Stores a head contiguously, in the cache's type.
  void Store(const float* head, const Tensor& cache, int64_t offset) const {
    if (cache.dtype == DType::kFloat32) {
      std::copy_n(head, p_.head_dim, cache.as<float>() + offset);
    } else {
      Narrow(head, cache.dtype, cache.as<uint16_t>() + offset);
    }
  }

  void NormHeads(const FusedNorm& norm, int num_heads, float* heads) const {
    if (norm.gain.empty()) return;
    const bool all = IsOfAllHeads(norm, p_.head_dim);
    const int64_t size = all ? int64_t{num_heads} * p_.head_dim : p_.head_dim;
    for (int h = 0; h < (all ? 1 : num_heads); ++h) {
      float* head = heads + h * size;
      NormalizeRow({.kind = norm.kind,
                    .x = head,
                    .gain = norm.gain.as<float>(),
                    .bias = norm.bias.as<float>(),
                    .epsilon = norm.epsilon,
                    .hidden_size = static_cast<size_t>(size),
                    .sum = head,
                    .y = head});
    }
  }

  void RotateHeads(int64_t token, float* heads) const {
    const float* cos_sin = p_.rotary->cos_sin.row<float>(p_.positions[token]);
    for (int h = 0; h < p_.num_heads + p_.num_kv_heads; ++h) {
      Rotate(cos_sin, p_.rotary->cos_sin.dim(-1), p_.rotary->interleaved, heads + h * p_.head_dim);
    }
  }

  const ProjectHeadsParams& p_;
};

}  // namespace

void Compute(Context& context, const ProjectHeadsParams& params) {
  MatMulParams product;
  product.x = params.x;
  product.weight = params.weight;
  product.bias = params.bias;
  product.y = params.workspace;
  Compute(context, product);
  const int64_t num_tokens = params.x.num_rows();
  const double cost_ns = kNsPerElement * num_tokens * params.weight->out_features();
  const HeadMover mover(params);
  context.Run(num_tokens, 16, cost_ns, [&](int64_t begin, int64_t end, Scratch& scratch) {
    for (int64_t first = begin; first < end; first += HeadMover::kGroup) {
      const int64_t last = std::min(first + HeadMover::kGroup, end);
      for (int64_t token = first; token < last; ++token) {
        mover.FetchKeyColumns(token, first);
        mover.Move(token);
      }
      mover.StoreKeys(first, last, scratch);
    }
  });
}

}  // namespace beamline::cpu
#endif  // HWY_ONCE
