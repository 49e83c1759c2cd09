#include "engine/transformer/activations.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/math.h"
#include "base/status.h"

namespace beamline {
namespace {

absl::StatusOr<Tensor> Allocate(std::initializer_list<int64_t> shape, DType dtype, MemoryKind kind,
                                Backend& backend, std::vector<std::unique_ptr<Buffer>>& buffers) {
  Tensor tensor(nullptr, dtype, shape);
  BEAMLINE_ASSIGN_OR_RETURN(
      std::unique_ptr<Buffer> buffer,
      backend.Allocate(static_cast<size_t>(tensor.num_elements()) * SizeOf(dtype), kind));
  tensor.data = buffer->data();
  buffers.push_back(std::move(buffer));
  return tensor;
}

// The largest widths over the stacks.
struct Widths {
  int64_t hidden = 0, normed = 0, query = 0, key = 0, inner = 0;

  void Include(const StackSpec& stack) {
    if (!stack.is_here()) return;  // on another stage
    hidden = std::max<int64_t>(hidden, stack.hidden_size);
    normed = std::max<int64_t>({normed, stack.hidden_size, stack.projected_size});
    query = std::max(query, int64_t{stack.num_heads} * stack.head_dim);
    key = std::max(key, int64_t{stack.num_kv_heads} * stack.head_dim);
    inner = std::max<int64_t>({inner, stack.feed_forward_size, stack.experts.shared_size});
  }
};

struct Part {
  Tensor Activations::*tensor;
  int64_t rows, width;
  DType dtype;
};

// Buffers for branches and experts beside the residual stream.
void AppendBranches(const StackSpec& stack, int64_t tokens, DType dtype, std::vector<Part>& parts) {
  if (!stack.is_here()) return;
  const int64_t hidden = stack.hidden_size;
  if (stack.keeps_branches()) parts.push_back({&Activations::branch, tokens, hidden, dtype});
  const ExpertsSpec& experts = stack.experts;
  if (experts.num_experts == 0) return;
  const int64_t places = tokens * experts.num_chosen;
  parts.push_back({&Activations::router, tokens, stack.router_size(), DType::kFloat32});
  if (experts.shared_size > 0) parts.push_back({&Activations::shared, tokens, hidden, dtype});
  parts.push_back({&Activations::expert_inner, places, experts.inner_size, dtype});
  parts.push_back({&Activations::expert_outputs, places, hidden, dtype});
}

std::vector<Part> PartsOf(const TransformerSpec& spec, DType activation_dtype,
                          const StepLimits& limits) {
  Widths widths;
  if (spec.encoder.has_value()) widths.Include(*spec.encoder);
  if (spec.decoder.has_value()) widths.Include(*spec.decoder);
  const int64_t tokens = limits.max_batch_tokens;
  const DType dtype = activation_dtype;
  std::vector<Part> parts = {
      {&Activations::hidden, tokens, widths.hidden, dtype},
      {&Activations::normed, tokens, widths.normed, dtype},
      {&Activations::query, tokens, widths.query, dtype},
      {&Activations::attended, tokens, widths.query, dtype},
      {&Activations::workspace, tokens, widths.query + 2 * widths.key, dtype},
      {&Activations::inner, tokens, widths.inner, dtype},
  };
  if (spec.encoder.has_value() && spec.encoder->is_here()) {
    const StackSpec& encoder = *spec.encoder;
    if (encoder.edits_heads()) {
      const int64_t key = int64_t{encoder.num_kv_heads} * encoder.head_dim;
      parts.push_back({&Activations::key, tokens, key, dtype});
      parts.push_back({&Activations::value, tokens, key, dtype});
    }
    if (encoder.convolution.kernel_size > 0 && encoder.begins()) {
      const int64_t width = int64_t{encoder.hidden_size} * encoder.convolution.kernel_size;
      parts.push_back({&Activations::unfolded, tokens, width, dtype});
    }
    if (encoder.projected_size > 0 && encoder.begins()) {
      parts.push_back({&Activations::embedded, tokens, encoder.projected_size, dtype});
    }
  }
  if (spec.decoder.has_value() && spec.decoder->projected_size > 0 &&
      (spec.decoder->begins() || spec.decoder->ends())) {
    parts.push_back({&Activations::embedded, tokens, spec.decoder->projected_size, dtype});
  }
  if (limits.max_input_tokens > 0) {
    const StackSpec& encoder = *spec.encoder;
    const int64_t positions = int64_t{limits.num_input_blocks()} * limits.block_size;
    const int64_t rows = positions * encoder.num_kv_heads;
    parts.push_back(
        {&Activations::long_hidden, limits.max_input_tokens, encoder.hidden_size, dtype});
    parts.push_back({&Activations::long_keys, rows, encoder.head_dim, dtype});
    parts.push_back({&Activations::long_values, rows, encoder.head_dim, dtype});
  }
  // For stacks of decoder families, which may be served as encoders.
  AppendBranches(spec.decoder.has_value() ? *spec.decoder : *spec.encoder, tokens, dtype, parts);
  if (spec.decoder.has_value() && spec.decoder->ends()) {
    const int64_t padded = RoundUp(spec.vocab_size, kLogitsPadding);
    parts.push_back({&Activations::selected, limits.max_logits_rows, widths.hidden, dtype});
    parts.push_back({&Activations::logits, limits.head_rows(), padded, DType::kFloat32});
  } else if (!spec.decoder.has_value() && spec.encoder->ends()) {
    parts.push_back({&Activations::pooled, limits.max_sequences, widths.hidden, DType::kFloat32});
  }
  return parts;
}

}  // namespace

absl::StatusOr<Activations> PlanActivations(const TransformerSpec& spec, DType activation_dtype,
                                            const StepLimits& limits, Backend& backend) {
  Activations plan;
  for (const Part& part : PartsOf(spec, activation_dtype, limits)) {
    BEAMLINE_ASSIGN_OR_RETURN(
        plan.*part.tensor, Allocate({part.rows, part.width}, part.dtype, MemoryKind::kActivations,
                                    backend, plan.buffers));
  }
  if (!plan.logits.empty()) plan.logits = plan.logits.Columns(0, spec.vocab_size);
  return plan;
}

int64_t ActivationBytes(const TransformerSpec& spec, DType activation_dtype,
                        const StepLimits& limits) {
  int64_t bytes = 0;
  for (const Part& part : PartsOf(spec, activation_dtype, limits)) {
    bytes += part.rows * part.width * static_cast<int64_t>(SizeOf(part.dtype));
  }
  return bytes;
}

absl::StatusOr<KvCache> AllocateKvCache(const StackSpec& decoder, DType cache_dtype,
                                        const StepLimits& limits, Backend& backend) {
  KvCache cache;
  // One extra block for the padding rows of a recorded step.
  const int64_t num_blocks = limits.num_blocks + (backend.Records() ? 1 : 0);
  for (int32_t layer = 0; layer < decoder.num_layers; ++layer) {
    const auto allocate = [&] {
      return Allocate({num_blocks, decoder.num_kv_heads, limits.block_size, decoder.head_dim},
                      cache_dtype, MemoryKind::kCache, backend, cache.buffers);
    };
    KvLayer pages;
    pages.key_layout = backend.key_layout();
    BEAMLINE_ASSIGN_OR_RETURN(pages.keys, allocate());
    BEAMLINE_ASSIGN_OR_RETURN(pages.values, allocate());
    cache.layers.push_back(pages);
  }
  return cache;
}

}  // namespace beamline
