#include "engine/transformer/shard.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/field_error.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

// A size that is divided among the ranks.
struct Divided {
  std::string_view stack, what;
  int32_t size = 0;
  bool may_repeat = false;  // several ranks may have the same part

  bool Divides(int32_t num_ranks) const {
    return size % num_ranks == 0 || (may_repeat && num_ranks % size == 0);
  }
};

std::vector<Divided> DividedOf(const TransformerSpec& spec) {
  std::vector<Divided> sizes;
  const auto add = [&](std::string_view name, const std::optional<StackSpec>& stack) {
    if (!stack.has_value()) return;
    sizes.push_back({name, "attention heads", stack->num_heads});
    sizes.push_back({name, "key/value heads", stack->num_kv_heads, true});
    sizes.push_back({name, "inner features of the feed-forward", stack->feed_forward_size});
    if (stack->experts.num_experts > 0) {
      sizes.push_back({name, "inner features of an expert", stack->experts.inner_size});
      sizes.push_back({name, "inner features of the shared expert", stack->experts.shared_size});
    }
    // No rank has all heads, which such a norm needs.
    if (stack->norms_all_heads) sizes.push_back({name, "norm over all query heads", 1});
  };
  add("encoder", spec.encoder);
  add("decoder", spec.decoder);
  return sizes;
}

// The first size that `num_ranks` ranks cannot divide; null: none.
const Divided* FirstUndivided(const std::vector<Divided>& sizes, int32_t num_ranks) {
  for (const Divided& divided : sizes) {
    if (!divided.Divides(num_ranks)) return &divided;
  }
  return nullptr;
}

}  // namespace

absl::Status CheckDivides(const TransformerSpec& spec, int32_t num_ranks) {
  std::vector<Divided> sizes = DividedOf(spec);
  const Divided* const undivided = FirstUndivided(sizes, num_ranks);
  if (undivided == nullptr && num_ranks <= spec.vocab_size) return absl::OkStatus();
  std::vector<int32_t> accepted;
  for (int32_t ranks = 1; ranks <= kMostRanks; ++ranks) {
    if (ranks <= spec.vocab_size && FirstUndivided(sizes, ranks) == nullptr) {
      accepted.push_back(ranks);
    }
  }
  FieldFault fault;
  fault.field = "tensor_parallel";
  fault.value = std::to_string(num_ranks);
  fault.accepted = fmt::format("{}", fmt::join(accepted, ", "));
  fault.text =
      undivided != nullptr
          ? fmt::format("tensor_parallel is {}, which does not divide the {} {} of the {}{}",
                        num_ranks, undivided->size, undivided->what, undivided->stack,
                        undivided->may_repeat ? " and is no multiple of them" : "")
          : fmt::format("tensor_parallel is {}, more than the {} tokens of the vocabulary",
                        num_ranks, spec.vocab_size);
  return FieldError(fault);
}

TransformerSpec SpecOf(const TransformerSpec& spec, const Shard& shard) {
  TransformerSpec part = spec;
  for (std::optional<StackSpec>* stack : {&part.encoder, &part.decoder}) {
    if (!stack->has_value()) continue;
    (*stack)->num_heads /= shard.size;
    (*stack)->num_kv_heads = static_cast<int32_t>(shard.KvWidth((*stack)->num_kv_heads));
    (*stack)->feed_forward_size /= shard.size;
    (*stack)->experts.inner_size /= shard.size;
    (*stack)->experts.shared_size /= shard.size;
  }
  if (spec.decoder.has_value()) {
    part.vocab_size = static_cast<int32_t>(shard.Width(spec.vocab_size));
  }
  return part;
}

}  // namespace beamline
