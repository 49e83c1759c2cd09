// Random arguments of attention over ragged batches, on the device and on the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "tests/gpu/typed_arrays.h"

namespace beamline {

// A ragged batch, packed (no contexts) or paged.
struct AttentionBatch {
  int num_heads, num_kv_heads, head_dim;
  std::vector<int32_t> query_lengths, context_lengths;
  int block_size = 16;

  bool paged() const { return !context_lengths.empty(); }
  int num_sequences() const { return static_cast<int>(query_lengths.size()); }
  int num_tokens() const { return std::accumulate(query_lengths.begin(), query_lengths.end(), 0); }
  int max_context() const {
    return paged() ? *std::max_element(context_lengths.begin(), context_lengths.end()) : 0;
  }
};

// Masks and what becomes of scores, as bits.
enum Variant {
  kFull = 0,
  kCausal = 1,
  kAlibi = 2,
  kPositionBias = 4,
  kSoftcap = 8,
  kNumVariants = 16
};

// A batch's arrays, and the parameters that look at the device's or at the host's copies of them.
class AttentionInputs {
 public:
  AttentionInputs(Backend& backend, DType dtype, AttentionBatch batch, std::mt19937& random)
      : batch_(std::move(batch)), dtype_(dtype), random_(random) {
    offsets_ = {0};
    for (int32_t length : batch_.query_lengths) offsets_.push_back(offsets_.back() + length);
    const float scale = 1.5f / std::sqrt(static_cast<float>(batch_.head_dim));
    query_ = TypedArray::Random(backend, dtype, batch_.num_tokens(),
                                batch_.num_heads * batch_.head_dim, scale, random);
    if (batch_.paged()) {
      MakeCache(backend);
    } else {
      const int64_t width = int64_t{batch_.num_kv_heads} * batch_.head_dim;
      key_ = TypedArray::Random(backend, dtype, batch_.num_tokens(), width, 1.0f, random);
      value_ = TypedArray::Random(backend, dtype, batch_.num_tokens(), width, 1.0f, random);
    }
    for (int h = 0; h < batch_.num_heads; ++h) slopes_.push_back(0.01f * static_cast<float>(h + 1));
    device_slopes_.emplace(backend, DType::kFloat32, 1, batch_.num_heads, slopes_);
    position_bias_ = TypedArray::Random(backend, dtype, batch_.num_heads, 41, 1.0f, random);
    device_offsets_.emplace(backend, offsets_);
    device_tables_.emplace(backend, tables_);
    device_contexts_.emplace(backend, batch_.context_lengths);
  }

  // Without an output.
  AttentionParams Params(int variant, bool on_host) const {
    AttentionParams params;
    params.num_heads = batch_.num_heads, params.num_kv_heads = batch_.num_kv_heads;
    params.head_dim = batch_.head_dim, params.num_sequences = batch_.num_sequences();
    params.max_query_length =
        *std::max_element(batch_.query_lengths.begin(), batch_.query_lengths.end());
    params.max_context_length = batch_.max_context(), params.max_blocks = max_blocks_;
    params.causal = (variant & kCausal) != 0;
    params.scale = 0.8f;
    const auto matrix = [&](const TypedArray& array) {
      return on_host ? array.host_tensor() : array.device();
    };
    params.query = matrix(*query_);
    params.query_offsets = on_host ? offsets_.data() : device_offsets_->device();
    if (batch_.paged()) {
      params.cache = on_host ? &host_cache_ : &device_cache_;
      params.block_tables = on_host ? tables_.data() : device_tables_->device();
      params.context_lengths = on_host ? batch_.context_lengths.data() : device_contexts_->device();
    } else {
      params.key = matrix(*key_), params.value = matrix(*value_);
    }
    if ((variant & kAlibi) != 0) {
      params.alibi_slopes = on_host ? slopes_.data() : device_slopes_->device().as<float>();
    }
    if ((variant & kSoftcap) != 0) params.softcap = 1.2f;  // bends most scores
    if ((variant & kPositionBias) != 0) params.position_bias = matrix(*position_bias_);
    return params;
  }
  const AttentionBatch& batch() const { return batch_; }

 private:
  // Block 0 and what is past a sequence's context are NaN; unused entries of the tables say block
  // 0.
  void MakeCache(Backend& backend) {
    const int block_size = batch_.block_size, num_sequences = batch_.num_sequences();
    max_blocks_ = batch_.max_context() / block_size + 2;
    const int num_blocks = num_sequences * max_blocks_ + 1;
    std::vector<int32_t> blocks(num_blocks - 1);
    std::iota(blocks.begin(), blocks.end(), 1);
    std::shuffle(blocks.begin(), blocks.end(), random_);
    tables_.assign(num_sequences * max_blocks_, 0);
    const int64_t cols = batch_.head_dim, head_rows = int64_t{batch_.num_kv_heads} * block_size;
    std::vector<float> keys(num_blocks * head_rows * cols, std::numeric_limits<float>::quiet_NaN()),
        values = keys;
    std::normal_distribution<float> normal;
    for (int s = 0; s < num_sequences; ++s) {
      for (int position = 0; position < batch_.context_lengths[s]; ++position) {
        int32_t& block = tables_[s * max_blocks_ + position / block_size];
        if (block == 0) block = blocks.back(), blocks.pop_back();
        for (int h = 0; h < batch_.num_kv_heads; ++h) {
          const int64_t row = block * head_rows + h * block_size + position % block_size;
          for (int64_t d = 0; d < cols; ++d) {
            keys[row * cols + d] = normal(random_), values[row * cols + d] = normal(random_);
          }
        }
      }
    }
    key_.emplace(backend, dtype_, num_blocks * head_rows, cols, std::move(keys));
    value_.emplace(backend, dtype_, num_blocks * head_rows, cols, std::move(values));
    const auto pages = [&](Tensor tensor) {
      return Tensor(tensor.data, tensor.dtype,
                    {num_blocks, batch_.num_kv_heads, block_size, batch_.head_dim});
    };
    device_cache_ = {pages(key_->device()), pages(value_->device())};
    host_cache_ = {pages(key_->host_tensor()), pages(value_->host_tensor())};
  }

  AttentionBatch batch_;
  DType dtype_;
  std::mt19937& random_;
  std::vector<int32_t> offsets_, tables_;
  int max_blocks_ = 0;
  std::vector<float> slopes_;
  std::optional<TypedArray> query_, key_, value_, position_bias_, device_slopes_;
  std::optional<IndexArray> device_offsets_, device_tables_, device_contexts_;
  KvLayer device_cache_, host_cache_;
};

}  // namespace beamline
