#include "engine/loading/memory_plan.h"

#include <algorithm>
#include <set>
#include <string>

#include "engine/loading/cache_size.h"
#include "engine/loading/model_precision.h"
#include "engine/runahead/vocabulary_split.h"
#include "engine/transformer/position_embeddings.h"
#include "engine/transformer/shard.h"
#include "engine/transformer/stage.h"
#include "fmt/format.h"
#include "kernels/cpu/host_memory.h"

namespace beamline {
namespace {

// Matrices from which rows are gathered: the one of each name is stored once, in the type of
// activations.
std::set<std::string> TablesOf(const TransformerSpec& spec) {
  std::set<std::string> names;
  for (const auto& stack : {spec.encoder, spec.decoder}) {
    if (!stack.has_value() || !stack->begins()) continue;
    for (const std::string* name : {&stack->token_table, &stack->type_table}) {
      if (!name->empty()) names.insert(*name);
    }
    if (stack->positions == PositionKind::kLearned) names.insert(stack->position_table);
  }
  return names;
}

// Layers whose weights are different ones.
int32_t NumStoredLayers(const StackSpec& stack) {
  if (stack.layer_ids.empty()) return stack.num_layers;
  const std::set<std::string> ids(stack.layer_ids.begin(), stack.layer_ids.end());
  return static_cast<int32_t>(ids.size());
}

// Tables and gains that no file has.
int64_t ComputedElements(const TransformerSpec& spec) {
  int64_t elements = 0;
  for (const auto& stack : {spec.encoder, spec.decoder}) {
    if (!stack.has_value()) continue;
    const LayerNames& layer = stack->layers;
    const int32_t num_layers = NumStoredLayers(*stack);
    for (const NormNames* norm : {&layer.attention_norm, &layer.feed_forward_norm}) {
      if (norm->plain) elements += int64_t{num_layers} * stack->hidden_size;
    }
    if (stack->final_norm.plain) elements += stack->hidden_size;
    if (stack->positions != PositionKind::kSinusoidal &&
        stack->positions != PositionKind::kShiftedSinusoidal) {
      continue;
    }
    elements += int64_t{stack->position_offset + stack->max_positions} * stack->hidden_size;
  }
  return elements;
}

// Of the cosines and sines, which every rank of every stage with layers has.
int64_t RotaryBytes(const TransformerSpec& part) {
  int64_t elements = 0;
  for (const auto& stack : {part.encoder, part.decoder}) {
    if (!stack.has_value() || !stack->is_here()) continue;
    if (stack->positions != PositionKind::kRotary) continue;
    const auto pairs = static_cast<int64_t>(stack->rotary.frequencies.size());
    const auto local_pairs = static_cast<int64_t>(stack->local_rotary.frequencies.size());
    elements += 2 * (pairs * stack->num_position_rows() + local_pairs * stack->max_positions);
  }
  return elements * static_cast<int64_t>(sizeof(float));
}

// Of the biases by distance: every rank of a stage has its heads'.
int64_t RelativeBiasBytes(const TransformerSpec& part) {
  int64_t elements = 0;
  for (const auto& stack : {part.encoder, part.decoder}) {
    if (!stack.has_value() || !stack->is_here()) continue;
    if (stack->relative.table.empty()) continue;
    elements += int64_t{stack->num_heads} * (2 * stack->relative.max_distance + 1);
  }
  return elements * static_cast<int64_t>(sizeof(float));
}

// Of what distances stand for in disentangled attention, besides the file's table and the matrices
// of which it is computed.
int64_t RelativePositionElements(const TransformerSpec& part) {
  if (!part.encoder.has_value()) return 0;
  const StackSpec& encoder = *part.encoder;
  int64_t elements = 0;
  for (const LinearNames* names : {&encoder.layers.position_key, &encoder.layers.position_query}) {
    if (names->weights.empty()) continue;
    elements += int64_t{encoder.num_layers} * encoder.disentangled.num_rows() * encoder.num_heads *
                encoder.head_dim;
  }
  return elements;
}

// Of the numbers of their rows, which every rank of every stage with layers has.
int64_t DistanceRowBytes(const TransformerSpec& part) {
  if (!part.encoder.has_value() || !part.encoder->is_here()) return 0;
  if (part.encoder->disentangled.empty()) return 0;
  const auto rows = DistanceRows(part.encoder->disentangled, part.encoder->max_positions);
  return static_cast<int64_t>(rows.size() * sizeof(int32_t));
}

int64_t ElementsOf(const NormNames& names, int32_t size) {
  return int64_t{(names.empty() ? 0 : 1) + (names.bias.empty() ? 0 : 1)} * size;
}

// Of the norms, and the convolution's bias, which every rank of a stage has.
int64_t NormElements(const TransformerSpec& spec) {
  int64_t elements = 0;
  for (const auto& stack : {spec.encoder, spec.decoder}) {
    if (!stack.has_value()) continue;
    const auto of_norm = [&](const NormNames& names) {
      return ElementsOf(names, stack->hidden_size);
    };
    const LayerNames& layer = stack->layers;
    elements += ElementsOf(stack->embedding_norm,
                           stack->norms_projected ? stack->hidden_size : stack->embedding_size());
    elements += of_norm(stack->final_norm) + of_norm(stack->convolution.norm);
    if (stack->convolution.kernel_size > 0) elements += stack->hidden_size;  // its bias
    const int32_t num_layers = NumStoredLayers(*stack);
    if (!stack->first_is_normed) elements -= of_norm(layer.attention_norm);
    elements +=
        num_layers * (of_norm(layer.attention_norm) + of_norm(layer.cross_norm) +
                      of_norm(layer.feed_forward_norm) + of_norm(layer.attention_output_norm) +
                      of_norm(layer.feed_forward_output_norm));
    for (const NormNames* names : {&layer.query_norm, &layer.key_norm}) {
      elements += num_layers * ElementsOf(*names, stack->head_dim);
    }
  }
  return elements;
}

// Of the convolution, and of the experts' routers, which every rank of a stage has.
int64_t WholeElements(const TransformerSpec& spec) {
  if (!spec.decoder.has_value()) {
    const int64_t hidden_size = spec.encoder->hidden_size;
    return hidden_size * hidden_size * spec.encoder->convolution.kernel_size;
  }
  const StackSpec& stack = *spec.decoder;
  int64_t elements = 0;
  for (int32_t layer = 0; layer < stack.num_layers; ++layer) {
    if (!stack.has_experts(layer)) continue;
    elements += int64_t{stack.router_size()} * stack.hidden_size;
  }
  return elements;
}

// Of the key/value heads that several ranks have.
int64_t RepeatedKvElements(const TransformerSpec& spec, int num_ranks) {
  int64_t elements = 0;
  for (const auto& stack : {spec.encoder, spec.decoder}) {
    if (!stack.has_value()) continue;
    const int64_t repeated = HeldKvHeads(stack->num_kv_heads, num_ranks) - stack->num_kv_heads;
    const int64_t products = stack->cross_attention ? 4 : 2;
    elements += NumStoredLayers(*stack) * products * repeated * stack->head_dim *
                (int64_t{stack->hidden_size} + (stack->layers.qkv.biases.empty() ? 0 : 1));
  }
  return elements;
}

// Of the norms that a stage has besides those of its layers.
int64_t EntryNormElements(const TransformerSpec& part) {
  int64_t elements = 0;
  for (const auto& stack : {part.encoder, part.decoder}) {
    if (!stack.has_value() || !stack->is_here() || stack->begins()) continue;
    if (stack->placement != NormPlacement::kPost) continue;
    elements += ElementsOf(stack->layers.feed_forward_norm, stack->hidden_size);
  }
  return elements;
}

int64_t NumElements(const Checkpoint& checkpoint, const std::string& name) {
  const auto tensor = checkpoint.Find(name);
  return tensor.ok() ? static_cast<int64_t>(tensor->size / SizeOf(tensor->dtype)) : 0;
}

}  // namespace

MemoryPlan PlanMemory(const TransformerSpec& spec, const Checkpoint& checkpoint,
                      const ModelTypes& types, DType activation_dtype, const StepLimits& limits,
                      int num_ranks, int num_stages) {
  MemoryPlan plan;
  // Of matrices that several ranks have.
  const auto of_weight = static_cast<int64_t>(
      SizeOf(types.keeps_stored ? StoredType(checkpoint) : types.precision.weights));
  const auto of_activation = static_cast<int64_t>(SizeOf(activation_dtype));
  plan.weights = WeightBytes(checkpoint, types) + ComputedElements(spec) * of_activation;
  const std::set<std::string> tables = TablesOf(spec);
  for (const std::string& name : tables) {
    plan.weights +=
        NumElements(checkpoint, name) * of_activation - MatrixBytes(checkpoint, types, name);
  }
  // A table that is the output's matrix too is stored once more, as a matrix.
  if (tables.contains(spec.head)) plan.weights += MatrixBytes(checkpoint, types, spec.head);
  plan.cache = limits.num_blocks *
               Transformer::BlockBytes(spec, types.precision.cache.value_or(activation_dtype),
                                       limits.block_size, num_ranks);
  plan.weights += (num_ranks - 1) * NormElements(spec) * of_activation;
  plan.weights += (num_ranks - 1) * WholeElements(spec) * of_weight;
  plan.weights += RepeatedKvElements(spec, num_ranks) * of_weight;
  // Stages that share layers have them each.
  if (spec.encoder.has_value() && !spec.encoder->layer_ids.empty()) {
    plan.weights += (num_stages - 1) * WeightBytes(checkpoint, types);
  }
  std::set<std::string> stored;  // tables; a later stage that reads one has one of its own
  for (const Stage& stage : DivideLayers(spec, num_stages)) {
    const TransformerSpec of_stage = SpecOf(spec, stage);
    plan.weights += num_ranks * EntryNormElements(of_stage) * of_activation;
    plan.weights += num_ranks * (RotaryBytes(of_stage) + DistanceRowBytes(of_stage));
    for (const std::string& name : TablesOf(of_stage)) {
      if (stored.insert(name).second) continue;
      plan.weights += NumElements(checkpoint, name) * of_activation;
    }
    const bool has_head = of_stage.decoder.has_value() && of_stage.decoder->ends();
    for (int rank = 0; rank < num_ranks; ++rank) {
      const TransformerSpec part = SpecOf(of_stage, Shard{rank, num_ranks});
      plan.weights += RelativeBiasBytes(part);
      plan.weights += RelativePositionElements(part) * of_activation;
      plan.activations += Transformer::BufferBytes(part, activation_dtype, limits);
      if (num_ranks > 1 && has_head) {
        plan.activations += VocabularySplit::GatheredBytes(spec.vocab_size);
      }
    }
  }
  return plan;
}

int64_t WorkspaceBytes(const TransformerSpec& spec, DType activation_dtype,
                       const StepLimits& limits, int num_ranks, int num_stages) {
  // Of each rank, whatever it computes: cuBLASLt's workspace, and the first scratch memory.
  constexpr int64_t kFixedBytes = int64_t{84} << 20;
  int64_t widest = 0;  // columns of a product that is finished apart
  for (const auto& stack : {spec.encoder, spec.decoder}) {
    if (!stack.has_value()) continue;
    const int64_t inner = int64_t{stack->feed_forward_size} * (stack->gated ? 2 : 1) / num_ranks;
    const ExpertsSpec& experts = stack->experts;
    const int64_t of_experts = int64_t{2} * experts.num_chosen * experts.inner_size;
    widest = std::max({widest, inner, of_experts, int64_t{stack->hidden_size}});
  }
  const int64_t product =
      limits.max_batch_tokens * widest * static_cast<int64_t>(SizeOf(activation_dtype));
  // An algorithm is measured with copies of its operands.
  const int64_t measured = product * 9 / 4;
  const int64_t logits = spec.decoder.has_value()
                             ? int64_t{limits.head_rows()} * spec.vocab_size / num_ranks *
                                   static_cast<int64_t>(sizeof(float))
                             : 0;
  return (kFixedBytes + std::max(measured, 2 * logits)) * num_ranks * num_stages;
}

int64_t FreeHostBytes() { return cpu::FreeHostMemory(); }

absl::Status CheckFits(const MemoryPlan& plan, int64_t free_bytes, std::string_view device) {
  if (plan.total() <= free_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "needs {} bytes of memory of {} (weights {}, cache {}, activations {}{}), and {} are free; "
      "unload another model, or lower max_model_len, cache_bytes, max_batch_tokens or "
      "max_sequences",
      plan.total(), device, plan.weights, plan.cache, plan.activations,
      plan.workspaces > 0 ? fmt::format(", workspaces {}", plan.workspaces) : "",
      std::max<int64_t>(free_bytes, 0)));
}

}  // namespace beamline
