#include "kernels/check_params.h"

#include <cmath>
#include <initializer_list>

#include "base/check.h"
#include "fmt/format.h"
#include "kernels/input_norm.h"

namespace beamline {
namespace {

constexpr size_t kCacheAlignment = 16;  // of KvLayer, for accesses of this size

void CheckActivations(DType dtype, const CheckOptions& options) {
  BEAMLINE_CHECK(
      dtype == DType::kFloat32 ||
      (!options.float32_only && (dtype == DType::kFloat16 || dtype == DType::kBFloat16)));
}

// A matrix [rows, cols]. Its rows do not overlap.
void CheckMatrix(const Tensor& tensor, int64_t rows, int64_t cols, DType dtype) {
  BEAMLINE_CHECK(tensor.dtype == dtype);
  BEAMLINE_CHECK(tensor.rank >= 1 && tensor.num_rows() == rows && tensor.dim(-1) == cols);
  BEAMLINE_CHECK(rows == 0 || !tensor.empty());
  BEAMLINE_CHECK(tensor.row_stride >= cols);
}

void CheckOptionalMatrix(const Tensor& tensor, int64_t rows, int64_t cols, DType dtype) {
  if (!tensor.empty()) CheckMatrix(tensor, rows, cols, dtype);
}

void CheckVector(const Tensor& tensor, int64_t size, DType dtype) {
  BEAMLINE_CHECK(!tensor.empty() && tensor.dtype == dtype);
  BEAMLINE_CHECK(tensor.num_elements() == size);
}

void CheckOptionalVector(const Tensor& tensor, int64_t size, DType dtype) {
  if (!tensor.empty()) CheckVector(tensor, size, dtype);
}

// The cache's type: `dtype`, or any that the device converts.
DType CacheTypeOf(const KvLayer& cache, DType dtype, const CheckOptions& options) {
  if (!options.converts_cache) return dtype;
  const DType own = cache.keys.dtype;
  BEAMLINE_CHECK(own == DType::kFloat32 || own == DType::kFloat16 || own == DType::kBFloat16);
  return own;
}

void CheckCache(const KvLayer& cache, int64_t num_kv_heads, int64_t head_dim, DType dtype,
                const CheckOptions& options) {
  BEAMLINE_CHECK(cache.key_layout == options.key_layout);
  for (const Tensor* tensor : {&cache.keys, &cache.values}) {
    BEAMLINE_CHECK(!tensor->empty() && tensor->dtype == dtype && tensor->rank == 4);
    BEAMLINE_CHECK(tensor->dim(1) == num_kv_heads && tensor->dim(3) == head_dim);
    BEAMLINE_CHECK(tensor->row_stride == head_dim);
    BEAMLINE_CHECK(reinterpret_cast<uintptr_t>(tensor->data) % kCacheAlignment == 0);
  }
  BEAMLINE_CHECK(cache.keys.dims == cache.values.dims);
}

void CheckFusedNorm(const FusedNorm& norm, int64_t hidden_size, DType dtype) {
  CheckOptionalVector(norm.gain, hidden_size, dtype);
  CheckOptionalVector(norm.bias, hidden_size, dtype);
}

// Checks the norm of a product's input. `normed` must not share memory with `others`.
template <typename Params>
void CheckInputNorm(const Params& p, std::initializer_list<const Tensor*> others) {
  CheckFusedNorm(p.input_norm, p.x.dim(-1), p.x.dtype);
  if (!HasInputNorm(p)) return;
  CheckMatrix(p.normed, p.x.num_rows(), p.x.dim(-1), p.x.dtype);
  if (p.x.num_rows() == 0) return;
  for (const Tensor* other : others) BEAMLINE_CHECK(p.normed.data != other->data);
}

}  // namespace

void Check(const EmbedParams& p, const CheckOptions& options) {
  const DType dtype = p.output.dtype;
  CheckActivations(dtype, options);
  const int64_t hidden_size = p.output.dim(-1);
  CheckMatrix(p.output, p.num_tokens, hidden_size, dtype);
  BEAMLINE_CHECK(p.num_tokens == 0 || p.token_ids != nullptr);
  CheckMatrix(p.token_table, p.token_table.num_rows(), hidden_size, dtype);
  CheckOptionalMatrix(p.position_table, p.position_table.num_rows(), hidden_size, dtype);
  CheckOptionalMatrix(p.type_table, p.type_table.num_rows(), hidden_size, dtype);
  CheckFusedNorm(p.norm, hidden_size, dtype);
  BEAMLINE_CHECK(p.num_tokens == 0 || p.position_table.empty() || p.positions != nullptr);
  BEAMLINE_CHECK(p.num_tokens == 0 || p.type_table.empty() || p.type_ids != nullptr);
}

void Check(const MatMulParams& p, const CheckOptions& options) {
  const DType dtype = p.x.dtype;
  CheckActivations(dtype, options);
  BEAMLINE_CHECK(p.weight != nullptr);
  BEAMLINE_CHECK(!p.gated || p.weight->out_features() % 2 == 0);
  BEAMLINE_CHECK(std::isfinite(p.softcap) && p.softcap >= 0);
  const int64_t num_rows = p.x.num_rows();
  const int64_t columns = p.gated ? p.weight->out_features() / 2 : p.weight->out_features();
  CheckMatrix(p.x, num_rows, p.weight->in_features(), dtype);
  CheckInputNorm(p, {&p.x, &p.residual, &p.y});
  // Logits are float32, whatever the activations' type.
  BEAMLINE_CHECK(p.y.dtype == dtype || p.y.dtype == DType::kFloat32);
  CheckMatrix(p.y, num_rows, columns, p.y.dtype);
  CheckOptionalMatrix(p.residual, num_rows, columns, p.y.dtype);
  BEAMLINE_CHECK(p.bias.empty() || p.bias.dtype == dtype || p.bias.dtype == p.y.dtype);
  CheckOptionalVector(p.bias, p.weight->out_features(), p.bias.dtype);
  BEAMLINE_CHECK(num_rows == 0 || p.y.data != p.x.data);
}

void Check(const NormParams& p, const CheckOptions& options) {
  const DType dtype = p.x.dtype;
  CheckActivations(dtype, options);
  const int64_t num_rows = p.x.num_rows();
  const int64_t hidden_size = p.x.dim(-1);
  CheckMatrix(p.x, num_rows, hidden_size, dtype);
  CheckMatrix(p.y, num_rows, hidden_size, dtype);
  CheckOptionalMatrix(p.residual, num_rows, hidden_size, dtype);
  CheckOptionalMatrix(p.sum, num_rows, hidden_size, dtype);
  CheckOptionalMatrix(p.addend, num_rows, hidden_size, dtype);
  CheckVector(p.gain, hidden_size, dtype);
  CheckOptionalVector(p.bias, hidden_size, dtype);
}

void Check(const ProjectHeadsParams& p, const CheckOptions& options) {
  const DType dtype = p.x.dtype;
  CheckActivations(dtype, options);
  BEAMLINE_CHECK(p.weight != nullptr && p.head_dim > 0);
  BEAMLINE_CHECK(p.num_heads >= 0 && p.num_kv_heads >= 0);
  const int64_t num_tokens = p.x.num_rows();
  const int64_t query_size = static_cast<int64_t>(p.num_heads) * p.head_dim;
  const int64_t key_size = static_cast<int64_t>(p.num_kv_heads) * p.head_dim;
  BEAMLINE_CHECK(p.weight->out_features() == query_size + 2 * key_size);
  CheckMatrix(p.x, num_tokens, p.weight->in_features(), dtype);
  CheckInputNorm(p, {&p.x, &p.query, &p.key, &p.value, &p.workspace});
  CheckOptionalVector(p.bias, p.weight->out_features(), dtype);
  CheckMatrix(p.workspace, num_tokens, p.weight->out_features(), dtype);
  if (query_size > 0) CheckMatrix(p.query, num_tokens, query_size, dtype);
  if (key_size > 0 && p.cache == nullptr) {
    CheckMatrix(p.key, num_tokens, key_size, dtype);
    CheckMatrix(p.value, num_tokens, key_size, dtype);
  }
  if (key_size > 0 && p.cache != nullptr) {
    CheckCache(*p.cache, p.num_kv_heads, p.head_dim, CacheTypeOf(*p.cache, dtype, options),
               options);
    BEAMLINE_CHECK(num_tokens == 0 || p.slots != nullptr);
  }
  CheckFusedNorm(p.query_norm, IsOfAllHeads(p.query_norm, p.head_dim) ? query_size : p.head_dim,
                 dtype);
  CheckFusedNorm(p.key_norm, IsOfAllHeads(p.key_norm, p.head_dim) ? key_size : p.head_dim, dtype);
  BEAMLINE_CHECK(std::isfinite(p.clip) && p.clip >= 0);
  BEAMLINE_CHECK(p.clip == 0 || (p.query_norm.gain.empty() && p.key_norm.gain.empty()));
  if (p.rotary != nullptr) {
    BEAMLINE_CHECK(num_tokens == 0 || p.positions != nullptr);
    BEAMLINE_CHECK(p.rotary->cos_sin.dtype == DType::kFloat32);
    const int64_t rotary_dim = p.rotary->cos_sin.dim(-1);
    BEAMLINE_CHECK(rotary_dim % 2 == 0 && rotary_dim <= p.head_dim);
  }
}

void CheckRelative(const AttentionParams& p, const CheckOptions& options) {
  const RelativePositions& relative = p.relative;
  if (relative.empty()) return;
  BEAMLINE_CHECK(p.cache == nullptr && p.num_kv_heads == p.num_heads);
  BEAMLINE_CHECK(relative.rows != nullptr && relative.max_distance >= 0);
  const Tensor& given = relative.keys.empty() ? relative.queries : relative.keys;
  const int64_t num_rows = given.num_rows();
  const int64_t width = static_cast<int64_t>(p.num_heads) * p.head_dim;
  CheckOptionalMatrix(relative.keys, num_rows, width, p.query.dtype);
  CheckOptionalMatrix(relative.queries, num_rows, width, p.query.dtype);
  for (int i = 0; options.host_readable && i <= 2 * relative.max_distance; ++i) {
    BEAMLINE_CHECK(relative.rows[i] >= 0 && relative.rows[i] < num_rows);
  }
}

void Check(const AttentionParams& p, const CheckOptions& options) {
  const DType dtype = p.query.dtype;
  CheckActivations(dtype, options);
  BEAMLINE_CHECK(p.head_dim > 0 && p.num_kv_heads > 0 && p.num_heads % p.num_kv_heads == 0);
  const int64_t num_tokens = p.query.num_rows();
  const int64_t query_size = static_cast<int64_t>(p.num_heads) * p.head_dim;
  CheckMatrix(p.query, num_tokens, query_size, dtype);
  CheckMatrix(p.output, num_tokens, query_size, dtype);
  BEAMLINE_CHECK(std::isfinite(p.scale) && p.scale > 0);
  BEAMLINE_CHECK(std::isfinite(p.softcap) && p.softcap >= 0);
  BEAMLINE_CHECK(p.window >= 0);
  BEAMLINE_CHECK(std::isfinite(p.rounded_alibi_factor) && p.rounded_alibi_factor >= 0);
  BEAMLINE_CHECK(p.num_sequences == 0 || p.query_offsets != nullptr);
  if (p.cache == nullptr) {
    const int64_t key_size = static_cast<int64_t>(p.num_kv_heads) * p.head_dim;
    CheckMatrix(p.key, num_tokens, key_size, dtype);
    CheckMatrix(p.value, num_tokens, key_size, dtype);
  } else {
    CheckCache(*p.cache, p.num_kv_heads, p.head_dim, CacheTypeOf(*p.cache, dtype, options),
               options);
    BEAMLINE_CHECK(p.num_sequences == 0 || p.context_lengths != nullptr);
    BEAMLINE_CHECK(p.max_context_length == 0 || p.num_sequences == 0 || p.block_tables != nullptr);
  }
  for (int s = 0; options.host_readable && s < p.num_sequences; ++s) {
    BEAMLINE_CHECK(p.query_offsets[s + 1] - p.query_offsets[s] <= p.max_query_length);
    if (p.cache == nullptr) continue;
    BEAMLINE_CHECK(p.context_lengths[s] <= p.max_blocks * p.cache->keys.dim(2));
  }
  if (!p.position_bias.empty()) {
    CheckMatrix(p.position_bias, p.num_heads, p.position_bias.dim(-1), p.position_bias.dtype);
    BEAMLINE_CHECK(p.position_bias.dim(-1) % 2 == 1);
  }
  CheckRelative(p, options);
}

void Check(const ExpertsParams& p, const CheckOptions& options) {
  const DType dtype = p.x.dtype;
  CheckActivations(dtype, options);
  const auto num_experts = static_cast<int64_t>(p.in.size());
  BEAMLINE_CHECK(num_experts >= 1 && num_experts <= kMostExperts);
  BEAMLINE_CHECK(p.out.size() == p.in.size());
  BEAMLINE_CHECK(p.num_chosen >= 1 && p.num_chosen <= num_experts);
  BEAMLINE_CHECK(p.num_chosen <= kMostChosenExperts);
  const int64_t num_rows = p.x.num_rows(), num_places = num_rows * p.num_chosen;
  const int64_t hidden_size = p.x.dim(-1), inner_size = p.inner.dim(-1);
  for (size_t e = 0; e < p.in.size(); ++e) {
    BEAMLINE_CHECK(p.in[e] != nullptr && p.out[e] != nullptr);
    BEAMLINE_CHECK(p.in[e]->in_features() == hidden_size);
    BEAMLINE_CHECK(p.in[e]->out_features() == 2 * inner_size);
    BEAMLINE_CHECK(p.out[e]->in_features() == inner_size);
    BEAMLINE_CHECK(p.out[e]->out_features() == hidden_size);
  }
  CheckMatrix(p.x, num_rows, hidden_size, dtype);
  CheckOptionalMatrix(p.shared, num_rows, hidden_size, dtype);
  CheckMatrix(p.router_logits, num_rows, num_experts + (p.shared.empty() ? 0 : 1), DType::kFloat32);
  CheckMatrix(p.inner, num_places, inner_size, dtype);
  CheckMatrix(p.outputs, num_places, hidden_size, dtype);
  CheckOptionalMatrix(p.residual, num_rows, hidden_size, dtype);
  CheckMatrix(p.y, num_rows, hidden_size, dtype);
  BEAMLINE_CHECK(num_rows == 0 || p.y.data != p.x.data);
}

void Check(const PoolParams& p, const CheckOptions& options) {
  const DType dtype = p.hidden.dtype;
  CheckActivations(dtype, options);
  CheckMatrix(p.hidden, p.hidden.num_rows(), p.hidden.dim(-1), dtype);
  CheckMatrix(p.output, p.num_sequences, p.hidden.dim(-1), DType::kFloat32);
  BEAMLINE_CHECK(p.num_sequences == 0 || p.offsets != nullptr);
}

void Check(const TopCandidatesParams& p, const CheckOptions&) {
  const size_t num_rows = static_cast<size_t>(p.logits.num_rows());
  CheckMatrix(p.logits, p.logits.num_rows(), p.logits.dim(-1), DType::kFloat32);
  BEAMLINE_CHECK(p.edits.empty() || p.edits.size() == num_rows);
  BEAMLINE_CHECK(p.normalize_first.empty() || p.normalize_first.size() == num_rows);
  BEAMLINE_CHECK(p.counts.size() == num_rows);
  BEAMLINE_CHECK(num_rows == 0 || (p.values != nullptr && p.ids != nullptr));
  for (int32_t count : p.counts) BEAMLINE_CHECK(count >= 1 && count <= p.max_count);
  BEAMLINE_CHECK(p.max_count <= kMaxCandidates);
}

void Check(const SampleParams& p, const CheckOptions&) {
  CheckMatrix(p.logits, p.logits.num_rows(), p.logits.dim(-1), DType::kFloat32);
  BEAMLINE_CHECK(p.rows.empty() || p.ids != nullptr);
  for (const SampleRow& row : p.rows) {
    BEAMLINE_CHECK(row.row >= 0 && row.row < p.logits.num_rows());
    BEAMLINE_CHECK(row.temperature > 0);
  }
}

void Check(const AdvanceBeamsParams& p, const CheckOptions&) {
  if (p.searches.empty()) return;
  BEAMLINE_CHECK(p.values != nullptr && p.ids != nullptr);
  BEAMLINE_CHECK(p.parents != nullptr && p.tokens != nullptr && p.scores != nullptr);
  const auto num_rows = static_cast<int32_t>(p.counts.size());
  for (const int32_t count : p.counts) BEAMLINE_CHECK(count >= 0 && count <= p.max_count);
  for (const BeamSearch& search : p.searches) {
    BEAMLINE_CHECK(search.num_rows >= 1 && search.num_rows <= search.width);
    BEAMLINE_CHECK(search.width <= kMaxBeams);
    BEAMLINE_CHECK(!search.renormalize || p.normalizers != nullptr);
    BEAMLINE_CHECK(search.first_row >= 0 && search.first_row <= num_rows - search.num_rows);
    if (search.scores.empty()) {
      BEAMLINE_CHECK(p.words != nullptr && search.score_word >= 0);
    } else {
      BEAMLINE_CHECK(search.scores.size() == static_cast<size_t>(search.num_rows));
    }
  }
}

void Check(const ReorderBeamsParams& p, const CheckOptions& options) {
  if (p.groups.empty()) return;
  BEAMLINE_CHECK(p.words != nullptr && p.block_tables != nullptr && p.slots != nullptr);
  BEAMLINE_CHECK(!p.layers.empty());
  Check(FillTokensParams{p.words, p.fills, p.token_ids}, options);
  const KvLayer& first = p.layers[0];
  for (const KvLayer& layer : p.layers) {
    CheckCache(layer, first.keys.dim(1), first.keys.dim(3), first.keys.dtype, options);
    BEAMLINE_CHECK(layer.keys.dims == first.keys.dims);
  }
  for (const BeamTables& group : p.groups) {
    BEAMLINE_CHECK(group.first_row >= 0 && group.first_token >= 0 && group.num_rows >= 1);
    BEAMLINE_CHECK(group.num_rows <= kMaxBeams);
    BEAMLINE_CHECK(group.column >= 0 && group.column < p.max_blocks);
    BEAMLINE_CHECK(p.host_tables.empty() ||
                   p.host_tables.size() >=
                       static_cast<size_t>(group.first_row + group.num_rows) * p.max_blocks);
    BEAMLINE_CHECK(group.num_filled >= 0 && group.num_filled < first.keys.dim(2));
    for (int32_t row = 0; options.host_readable && row < group.num_rows; ++row) {
      const int32_t parent = p.words[group.parent_word + row];
      BEAMLINE_CHECK(parent >= 0 && parent < group.num_rows);
    }
  }
}

void Check(const GatherRowsParams& p, const CheckOptions&) {
  BEAMLINE_CHECK(p.input.dtype == p.output.dtype && p.input.dim(-1) == p.output.dim(-1));
  BEAMLINE_CHECK(p.output.num_rows() == 0 ||
                 (p.rows != nullptr && !p.input.empty() && !p.output.empty()));
}

void Check(const UnfoldParams& p, const CheckOptions& options) {
  BEAMLINE_CHECK(p.kernel_size > 0 && p.kernel_size % 2 == 1);
  const int64_t num_tokens = p.input.num_rows();
  CheckMatrix(p.input, num_tokens, p.input.dim(-1), p.output.dtype);
  CheckMatrix(p.output, num_tokens, p.input.dim(-1) * p.kernel_size, p.output.dtype);
  BEAMLINE_CHECK(num_tokens == 0 || p.output.data != p.input.data);
  BEAMLINE_CHECK(p.num_sequences == 0 || p.offsets != nullptr);
  BEAMLINE_CHECK(!options.host_readable || p.num_sequences == 0 ||
                 p.offsets[p.num_sequences] == num_tokens);
}

void Check(const FillTokensParams& p, const CheckOptions&) {
  BEAMLINE_CHECK(p.fills.empty() || (p.words != nullptr && p.token_ids != nullptr));
  for (const TokenFill& fill : p.fills) BEAMLINE_CHECK(fill.source >= 0 && fill.target >= 0);
}

void Check(const CopyBlocksParams& p, const CheckOptions& options) {
  const Tensor& keys = p.layer.keys;
  CheckCache(p.layer, keys.dim(1), keys.dim(3), keys.dtype, options);
  for (const BlockCopy& copy : p.copies) {
    BEAMLINE_CHECK(copy.source >= 0 && copy.source < keys.dim(0));
    BEAMLINE_CHECK(copy.target >= 0 && copy.target < keys.dim(0));
  }
}

absl::Status ValidateWeightParts(std::span<const HostMatrix> parts) {
  if (parts.empty()) return absl::InvalidArgumentError("a weight needs at least one part");
  const auto in_features = [](const HostMatrix& part) {
    return part.transposed ? part.rows : part.cols;
  };
  for (const HostMatrix& part : parts) {
    if (part.data == nullptr || part.rows <= 0 || part.cols <= 0) {
      return absl::InvalidArgumentError(
          fmt::format("a weight of shape [{}, {}] is empty", part.rows, part.cols));
    }
    if (part.dtype != DType::kFloat32 && part.dtype != DType::kBFloat16 &&
        part.dtype != DType::kFloat16) {
      return absl::InvalidArgumentError(
          fmt::format("a weight of type {} cannot be packed; float32, bfloat16 and float16 can",
                      Name(part.dtype)));
    }
    if (in_features(part) != in_features(parts[0])) {
      return absl::InvalidArgumentError(
          fmt::format("stacked weights read {} and {} input features; they must agree",
                      in_features(parts[0]), in_features(part)));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamline
