#include "engine/transformer/weights.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/transformer/position_embeddings.h"
#include "engine/transformer/relative_bias.h"
#include "engine/transformer/rotary_table.h"
#include "engine/transformer/sinusoidal_positions.h"
#include "engine/transformer/tensor_reader.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// `name` with its "{}" replaced by the layer's id.
std::string OfLayer(std::string name, const std::string& layer) {
  const size_t hole = name.find("{}");
  if (hole != std::string::npos) name.replace(hole, 2, layer);
  return name;
}

LinearNames OfLayer(LinearNames names, const std::string& layer) {
  for (std::string& name : names.weights) name = OfLayer(std::move(name), layer);
  for (std::string& name : names.biases) name = OfLayer(std::move(name), layer);
  return names;
}

NormNames OfLayer(const NormNames& names, const std::string& layer) {
  return {OfLayer(names.gain, layer), OfLayer(names.bias, layer), names.offset, names.plain};
}

std::string IdOf(const StackSpec& spec, int32_t layer) {
  return spec.layer_ids.empty() ? std::to_string(layer) : spec.layer_ids[layer];
}

// Where a layer's feed-forward applies stream_scale: in a linear part before the last matmul, whose
// input then has headroom, or in the last matmul itself.
struct FeedForwardScales {
  LinearScale in, out;
};

FeedForwardScales ScalesOf(const StackSpec& spec) {
  const LinearScale scale = {spec.stream_scale, 0};
  if (spec.gated && spec.layers.feed_forward_in.weights.size() > 1) {
    return {{spec.stream_scale, 1}, {}};  // the up projection
  }
  // ReLU passes a positive factor through. A bias after it would need the factor itself.
  const bool passes = spec.activation == Activation::kRelu && !spec.gated &&
                      spec.layers.feed_forward_out.biases.empty();
  return passes ? FeedForwardScales{scale, {}} : FeedForwardScales{{}, scale};
}

absl::StatusOr<ExpertWeights> LoadExperts(const StackSpec& spec, const std::string& layer,
                                          TensorReader& reader) {
  const ExpertsSpec& experts = spec.experts;
  const LayerNames& names = spec.layers;
  ExpertWeights weights;
  std::vector<int64_t> router_parts = {experts.num_experts};
  if (experts.shared_size > 0) router_parts.push_back(1);
  BEAMLINE_ASSIGN_OR_RETURN(weights.router,
                            reader.Linear(OfLayer(names.router, layer), std::move(router_parts),
                                          spec.hidden_size, LinearSplit::kWhole));
  if (experts.shared_size > 0) {
    BEAMLINE_ASSIGN_OR_RETURN(
        weights.shared_in,
        reader.Linear(OfLayer(names.shared_in, layer), {experts.shared_size, experts.shared_size},
                      spec.hidden_size, LinearSplit::kOut));
    BEAMLINE_ASSIGN_OR_RETURN(weights.shared_out,
                              reader.Linear(OfLayer(names.shared_out, layer), {spec.hidden_size},
                                            experts.shared_size, LinearSplit::kIn));
  }
  const auto keep = [&](LinearWeights loaded, std::vector<const PackedWeight*>& list) {
    list.push_back(loaded.weight.get());
    weights.packed.push_back(std::move(loaded.weight));
  };
  for (int32_t index = 0; index < experts.num_experts; ++index) {
    const std::string expert = std::to_string(index);
    BEAMLINE_ASSIGN_OR_RETURN(
        LinearWeights in, reader.Linear(OfLayer(OfLayer(names.expert_in, layer), expert),
                                        {experts.inner_size, experts.inner_size}, spec.hidden_size,
                                        LinearSplit::kOut));
    keep(std::move(in), weights.in);
    BEAMLINE_ASSIGN_OR_RETURN(
        LinearWeights out, reader.Linear(OfLayer(OfLayer(names.expert_out, layer), expert),
                                         {spec.hidden_size}, experts.inner_size, LinearSplit::kIn));
    keep(std::move(out), weights.out);
  }
  return weights;
}

absl::Status LoadFeedForward(const StackSpec& spec, const std::string& layer_id,
                             TensorReader& reader, LayerWeights& layer) {
  const int64_t hidden = spec.hidden_size, inner = spec.feed_forward_size;
  const std::vector<int64_t> parts =
      spec.gated ? std::vector<int64_t>{inner, inner} : std::vector<int64_t>{inner};
  const FeedForwardScales scales = ScalesOf(spec);
  BEAMLINE_ASSIGN_OR_RETURN(layer.feed_forward_in,
                            reader.Linear(OfLayer(spec.layers.feed_forward_in, layer_id), parts,
                                          hidden, LinearSplit::kOut, {}, scales.in));
  BEAMLINE_ASSIGN_OR_RETURN(layer.feed_forward_out,
                            reader.Linear(OfLayer(spec.layers.feed_forward_out, layer_id), {hidden},
                                          inner, LinearSplit::kIn, {}, scales.out));
  return absl::OkStatus();
}

// `positions`: the distance embeddings, [num_rows, hidden_size]; may be empty.
absl::StatusOr<LayerWeights> LoadLayer(const StackSpec& spec, int32_t layer_index,
                                       const Tensor& positions, TensorReader& reader) {
  const std::string index = IdOf(spec, layer_index);
  const LayerNames& names = spec.layers;
  const int64_t hidden = spec.hidden_size;
  const int64_t query = int64_t{spec.num_heads} * spec.head_dim;
  const int64_t key = int64_t{spec.num_kv_heads} * spec.head_dim;
  const LinearScale to_stream = {spec.stream_scale, 0};
  // Key-value parts of a matrix of queries, keys and values; of a matrix of keys and values.
  const KvParts behind_queries = {spec.num_kv_heads, 1}, all = {spec.num_kv_heads, 0};
  const auto linear = [&](const LinearNames& stored, std::vector<int64_t> part_sizes,
                          int64_t in_features, LinearSplit split, const KvParts& kv = {},
                          const LinearScale& scale = {}) {
    return reader.Linear(OfLayer(stored, index), std::move(part_sizes), in_features, split, kv,
                         scale);
  };
  const auto norm = [&](const NormNames& stored) {
    return reader.Norm(OfLayer(stored, index), hidden);
  };

  LayerWeights layer;
  if (layer_index > 0 || spec.first_is_normed) {
    BEAMLINE_ASSIGN_OR_RETURN(layer.attention_norm, norm(names.attention_norm));
  }
  BEAMLINE_ASSIGN_OR_RETURN(
      layer.qkv, linear(names.qkv, {query, key, key}, hidden, LinearSplit::kOut, behind_queries));
  BEAMLINE_ASSIGN_OR_RETURN(
      layer.query_norm,
      reader.Norm(OfLayer(names.query_norm, index), spec.norms_all_heads ? query : spec.head_dim));
  BEAMLINE_ASSIGN_OR_RETURN(
      layer.key_norm,
      reader.Norm(OfLayer(names.key_norm, index), spec.norms_all_heads ? key : spec.head_dim));
  for (const auto& [stored, product] :
       {std::pair(&names.position_key, &layer.position_keys),
        std::pair(&names.position_query, &layer.position_queries)}) {
    if (stored->weights.empty()) continue;
    BEAMLINE_ASSIGN_OR_RETURN(*product, reader.Product(positions, OfLayer(*stored, index), query));
  }
  BEAMLINE_ASSIGN_OR_RETURN(layer.attention_output, linear(names.attention_output, {hidden}, query,
                                                           LinearSplit::kIn, {}, to_stream));
  if (spec.cross_attention) {
    BEAMLINE_ASSIGN_OR_RETURN(layer.cross_norm, norm(names.cross_norm));
    BEAMLINE_ASSIGN_OR_RETURN(layer.cross_query,
                              linear(names.cross_query, {query}, hidden, LinearSplit::kOut));
    BEAMLINE_ASSIGN_OR_RETURN(layer.cross_key_value, linear(names.cross_key_value, {key, key},
                                                            hidden, LinearSplit::kOut, all));
    BEAMLINE_ASSIGN_OR_RETURN(layer.cross_output, linear(names.cross_output, {hidden}, query,
                                                         LinearSplit::kIn, {}, to_stream));
  }
  BEAMLINE_ASSIGN_OR_RETURN(layer.feed_forward_norm, norm(names.feed_forward_norm));
  if (spec.has_experts(layer_index)) {
    BEAMLINE_ASSIGN_OR_RETURN(layer.experts, LoadExperts(spec, index, reader));
  } else {
    BEAMLINE_RETURN_IF_ERROR(LoadFeedForward(spec, index, reader, layer));
  }
  BEAMLINE_ASSIGN_OR_RETURN(layer.attention_output_norm, norm(names.attention_output_norm));
  BEAMLINE_ASSIGN_OR_RETURN(layer.feed_forward_output_norm, norm(names.feed_forward_output_norm));
  return layer;
}

// The biases of this rank's heads.
absl::StatusOr<Tensor> LoadRelativeBias(const StackSpec& spec, TensorReader& reader) {
  const RelativeSpec& relative = spec.relative;
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<float> table,
                            reader.Floats(relative.table, {relative.num_buckets, spec.num_heads}));
  if (table.empty()) return Tensor();
  const Shard& shard = reader.shard();
  const auto first_head = static_cast<int32_t>(shard.Begin(spec.num_heads));
  const auto fill = [&](int64_t first, std::span<float> rows) {
    FillRelativeBias(relative, /*bidirectional=*/!spec.causal, table, spec.num_heads,
                     first_head + static_cast<int32_t>(first), rows);
  };
  return reader.UploadFloats(shard.Width(spec.num_heads), 2 * int64_t{relative.max_distance} + 1,
                             fill);
}

absl::StatusOr<Rotary> LoadRotary(const RotarySpec& spec, int64_t num_rows, TensorReader& reader) {
  Rotary rotary;
  rotary.interleaved = spec.interleaved;
  if (spec.frequencies.empty()) return rotary;
  const auto fill = [&](int64_t first, std::span<float> rows) {
    FillRotaryTable(spec, first, rows);
  };
  BEAMLINE_ASSIGN_OR_RETURN(
      rotary.cos_sin,
      reader.UploadFloats(num_rows, 2 * static_cast<int64_t>(spec.frequencies.size()), fill));
  return rotary;
}

// Empty if nothing is added to the embedding.
absl::StatusOr<Tensor> LoadPositionTable(const StackSpec& spec, TensorReader& reader) {
  const int64_t num_positions = int64_t{spec.position_offset} + spec.max_positions;
  const auto num_rows = static_cast<int32_t>(num_positions);
  switch (spec.positions) {
    case PositionKind::kNone:
    case PositionKind::kRotary:
    case PositionKind::kRelative:
    case PositionKind::kAlibi:
      break;
    case PositionKind::kLearned:
      return reader.Table(spec.position_table, num_positions + spec.unused_positions,
                          spec.projects_tokens_alone ? spec.hidden_size : spec.embedding_size(),
                          spec.stream_scale);
    case PositionKind::kSinusoidal:
      return reader.Upload(SinusoidalPositions(num_rows, spec.hidden_size), num_positions,
                           spec.hidden_size, spec.stream_scale);
    case PositionKind::kShiftedSinusoidal:
      return reader.Upload(
          ShiftedSinusoidalPositions(num_rows, spec.hidden_size, spec.position_offset - 1),
          num_positions, spec.hidden_size, spec.stream_scale);
  }
  return Tensor();
}

// Loads what comes before the first layer.
absl::Status LoadEmbeddings(const StackSpec& spec, TensorReader& reader, StackWeights& stack) {
  const int32_t width = spec.embedding_size();
  BEAMLINE_ASSIGN_OR_RETURN(stack.token_table,
                            reader.Table(spec.token_table, spec.vocab_size, width));
  BEAMLINE_ASSIGN_OR_RETURN(stack.position_table, LoadPositionTable(spec, reader));
  if (!spec.type_table.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(stack.type_table,
                              reader.Table(spec.type_table, spec.num_types, width));
  }
  BEAMLINE_ASSIGN_OR_RETURN(
      stack.embedding_norm,
      reader.Norm(spec.embedding_norm, spec.norms_projected ? spec.hidden_size : width));
  if (spec.projected_size == 0) return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(stack.projection, reader.Linear(spec.projection, {spec.hidden_size},
                                                            width, LinearSplit::kOut));
  return absl::OkStatus();
}

// The norm that a layer leaves to be applied to hidden states.
const NormNames& NormBehind(const StackSpec& spec, int32_t layer) {
  return layer == 0 && spec.convolution.kernel_size > 0 ? spec.convolution.norm
                                                        : spec.layers.feed_forward_norm;
}

// Complete on every rank.
absl::Status LoadConvolution(const StackSpec& spec, TensorReader& reader, StackWeights& stack) {
  const ConvolutionSpec& convolution = spec.convolution;
  BEAMLINE_ASSIGN_OR_RETURN(
      stack.convolution,
      reader.Linear(convolution.linear, {spec.hidden_size},
                    int64_t{spec.hidden_size} * convolution.kernel_size, LinearSplit::kWhole));
  BEAMLINE_ASSIGN_OR_RETURN(stack.convolution_norm,
                            reader.Norm(convolution.norm, spec.hidden_size));
  return absl::OkStatus();
}

absl::StatusOr<StackWeights> LoadStack(const StackSpec& spec, const LayerRange& own,
                                       TensorReader& reader, Backend& backend) {
  StackWeights stack;
  const bool is_here = own.size() > 0 || spec.num_layers == 0;
  reader.Keep(is_here && own.begin == 0);
  BEAMLINE_RETURN_IF_ERROR(LoadEmbeddings(spec, reader, stack));
  if (spec.convolution.kernel_size > 0) {
    BEAMLINE_RETURN_IF_ERROR(LoadConvolution(spec, reader, stack));
  }
  PositionEmbeddings positions;
  if (!spec.disentangled.empty()) {
    reader.Keep(is_here);
    BEAMLINE_ASSIGN_OR_RETURN(positions, LoadPositionEmbeddings(spec, reader, backend));
    const std::vector<int32_t> rows = DistanceRows(spec.disentangled, spec.max_positions);
    BEAMLINE_ASSIGN_OR_RETURN(stack.distance_rows, reader.UploadIndices(rows));
    stack.max_distance = static_cast<int32_t>(rows.size() / 2);
  }
  std::map<std::string, std::shared_ptr<const LayerWeights>> known;  // by id; null for layers that
                                                                     // are not kept
  for (int32_t index = 0; index < spec.num_layers; ++index) {
    const bool is_own = index >= own.begin && index < own.end;
    std::shared_ptr<const LayerWeights>& layer = known[IdOf(spec, index)];
    if (layer == nullptr) {
      reader.Keep(is_own);
      BEAMLINE_ASSIGN_OR_RETURN(LayerWeights loaded,
                                LoadLayer(spec, index, positions.rows, reader));
      if (is_own) layer = std::make_shared<const LayerWeights>(std::move(loaded));
    }
    if (is_own) stack.layers.push_back(layer);
  }
  if (spec.positions == PositionKind::kRotary) {
    reader.Keep(is_here);
    BEAMLINE_ASSIGN_OR_RETURN(stack.rotary,
                              LoadRotary(spec.rotary, spec.num_position_rows(), reader));
    BEAMLINE_ASSIGN_OR_RETURN(stack.local_rotary,
                              LoadRotary(spec.local_rotary, spec.max_positions, reader));
  }
  if (spec.positions == PositionKind::kAlibi) {
    reader.Keep(is_here);
    BEAMLINE_ASSIGN_OR_RETURN(stack.alibi_slopes, reader.UploadOfHeads(spec.alibi_slopes));
  }
  if (!spec.relative.table.empty()) {
    reader.Keep(is_here);
    BEAMLINE_ASSIGN_OR_RETURN(stack.position_bias, LoadRelativeBias(spec, reader));
  }
  if (is_here && own.begin > 0 && spec.placement == NormPlacement::kPost) {
    reader.Keep(true);
    const NormNames& before = NormBehind(spec, own.begin - 1);
    BEAMLINE_ASSIGN_OR_RETURN(
        stack.entry_norm,
        reader.Norm(OfLayer(before, IdOf(spec, own.begin - 1)), spec.hidden_size));
  }
  reader.Keep(is_here && own.end == spec.num_layers);
  BEAMLINE_ASSIGN_OR_RETURN(stack.final_norm,
                            reader.Norm(spec.final_norm, spec.hidden_size, spec.final_norm_scale));
  if (!spec.output_projection.weights.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(stack.output_projection,
                              reader.Linear(spec.output_projection, {spec.projected_size},
                                            spec.hidden_size, LinearSplit::kOut));
  }
  return stack;
}

}  // namespace

absl::StatusOr<TransformerWeights> LoadWeights(const TransformerSpec& spec, const Stage& stage,
                                               const Shard& shard, const Checkpoint& checkpoint,
                                               const ModelTypes& types, Backend& backend) {
  TransformerWeights weights;
  TensorReader reader(checkpoint, shard, types, backend, weights);
  if (spec.encoder.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(weights.encoder,
                              LoadStack(*spec.encoder, stage.encoder, reader, backend));
  }
  if (spec.decoder.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(weights.decoder,
                              LoadStack(*spec.decoder, stage.decoder, reader, backend));
    // Only the stage with the last layer keeps the head.
    const StackSpec& decoder = *spec.decoder;
    const int32_t head_input =
        decoder.output_projection.weights.empty() ? decoder.hidden_size : decoder.projected_size;
    BEAMLINE_ASSIGN_OR_RETURN(
        weights.head,
        reader.Linear({{spec.head}, {}, false}, {spec.vocab_size}, head_input, LinearSplit::kOut));
    if (!spec.head_bias.empty()) {
      BEAMLINE_ASSIGN_OR_RETURN(weights.head.bias,
                                reader.LogitsBias(spec.head_bias, spec.vocab_size));
    }
  }
  BEAMLINE_RETURN_IF_ERROR(reader.CheckAllRead(spec.ignored_tensors));
  return weights;
}

}  // namespace beamline
