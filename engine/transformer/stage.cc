#include "engine/transformer/stage.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "base/check.h"
#include "base/field_error.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// Of a model that several stages divide, which takes the square of their number. No model has as
// many; a damaged config.json may say so.
constexpr int32_t kMostLayers = 4096;

int32_t NumLayers(const std::optional<StackSpec>& stack) {
  return stack.has_value() ? stack->num_layers : 0;
}

double LayerCost(const StackSpec& stack, int32_t layer) {
  const double hidden = stack.hidden_size;
  const double query = static_cast<double>(stack.num_heads) * stack.head_dim;
  const double key = static_cast<double>(stack.num_kv_heads) * stack.head_dim;
  const double attention = hidden * (query + 2 * key) + query * hidden;
  // All experts' weights are read where a batch has rows enough.
  const ExpertsSpec& experts = stack.experts;
  const double inner =
      stack.has_experts(layer)
          ? static_cast<double>(experts.num_experts) * experts.inner_size + experts.shared_size
          : stack.feed_forward_size;
  const double feed_forward = hidden * inner * (stack.gated ? 3 : 2);
  return attention * (stack.cross_attention ? 2 : 1) + feed_forward;
}

// Of each layer, encoder first, with what is before the first and behind the last of a stack.
std::vector<double> Costs(const TransformerSpec& spec) {
  std::vector<double> costs;
  for (const auto& stack : {spec.encoder, spec.decoder}) {
    if (NumLayers(stack) == 0) continue;
    const size_t first = costs.size();
    for (int32_t layer = 0; layer < stack->num_layers; ++layer) {
      costs.push_back(LayerCost(*stack, layer));
    }
    const bool has_positions = stack->positions == PositionKind::kLearned ||
                               stack->positions == PositionKind::kSinusoidal ||
                               stack->positions == PositionKind::kShiftedSinusoidal;
    const int tables = 1 + (has_positions ? 1 : 0) + (stack->type_table.empty() ? 0 : 1);
    costs[first] += static_cast<double>(tables) * stack->hidden_size;
  }
  if (spec.decoder.has_value()) {
    costs.back() += static_cast<double>(spec.vocab_size) * spec.decoder->hidden_size;
  }
  return costs;
}

// Ends of `num_ranges` ranges of costs, none empty and none above `most`, whose costs joined one
// after the other come to the least. REQUIRES: there are such ranges.
template <typename Join>
std::vector<int32_t> BestEnds(std::span<const double> costs, int32_t num_ranges, double most,
                              const Join& join) {
  const auto count = static_cast<int32_t>(costs.size());
  constexpr double kNone = std::numeric_limits<double>::infinity();
  // Of the first `end` costs in so many ranges.
  std::vector<std::vector<double>> best(num_ranges + 1, std::vector<double>(count + 1, kNone));
  std::vector<std::vector<int32_t>> begins(num_ranges + 1, std::vector<int32_t>(count + 1, 0));
  best[0][0] = 0.0;
  for (int32_t ranges = 1; ranges <= num_ranges; ++ranges) {
    for (int32_t end = ranges; end <= count; ++end) {
      double cost = 0.0;
      for (int32_t begin = end - 1; begin >= ranges - 1; --begin) {
        cost += costs[begin];
        if (cost > most) break;
        const double joined = join(best[ranges - 1][begin], cost);
        if (joined >= best[ranges][end]) continue;
        best[ranges][end] = joined;
        begins[ranges][end] = begin;
      }
    }
  }
  std::vector<int32_t> ends;
  for (int32_t ranges = num_ranges, end = count; ranges > 0; --ranges) {
    ends.insert(ends.begin(), end);
    end = begins[ranges][end];
  }
  return ends;
}

LayerRange Within(int32_t begin, int32_t end, int32_t first, int32_t num_layers) {
  return {std::clamp(begin - first, 0, num_layers), std::clamp(end - first, 0, num_layers)};
}

}  // namespace

absl::Status CheckStages(const TransformerSpec& spec, int32_t num_stages) {
  const int32_t num_layers = NumLayers(spec.encoder) + NumLayers(spec.decoder);
  const int32_t most = num_layers <= kMostLayers ? std::max(num_layers, 1) : 1;
  if (num_stages >= 1 && num_stages <= most) return absl::OkStatus();
  FieldFault fault;
  fault.field = "pipeline_parallel";
  fault.value = std::to_string(num_stages);
  fault.accepted = most > 1 ? fmt::format("1 to {}", most) : "1";
  fault.text = num_stages > num_layers
                   ? fmt::format("pipeline_parallel is {}, more than the {} layers of the model",
                                 num_stages, num_layers)
                   : fmt::format("pipeline_parallel is {}, which does not divide {} layers",
                                 num_stages, num_layers);
  return FieldError(fault);
}

std::vector<Stage> DivideLayers(const TransformerSpec& spec, int32_t num_stages) {
  BEAMLINE_CHECK(CheckStages(spec, num_stages).ok());
  const int32_t num_encoder = NumLayers(spec.encoder), num_decoder = NumLayers(spec.decoder);
  if (num_stages == 1) return {{{0, num_encoder}, {0, num_decoder}}};
  const std::vector<double> costs = Costs(spec);
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const std::vector<int32_t> cheapest = BestEnds(
      costs, num_stages, kAny, [](double before, double cost) { return std::max(before, cost); });
  double most = 0.0;
  for (int32_t begin = 0; const int32_t end : cheapest) {
    // In the order in which BestEnds adds, so that the same sum is the same number.
    most = std::max(most, std::accumulate(costs.rbegin() + (costs.size() - end),
                                          costs.rbegin() + (costs.size() - begin), 0.0));
    begin = end;
  }
  const std::vector<int32_t> ends = BestEnds(
      costs, num_stages, most, [](double before, double cost) { return before + cost * cost; });
  std::vector<Stage> stages;
  for (int32_t begin = 0; const int32_t end : ends) {
    stages.push_back(
        {Within(begin, end, 0, num_encoder), Within(begin, end, num_encoder, num_decoder)});
    begin = end;
  }
  return stages;
}

TransformerSpec SpecOf(const TransformerSpec& spec, const Stage& stage) {
  TransformerSpec part = spec;
  const auto keep = [](const LayerRange& range, std::optional<StackSpec>& stack) {
    if (!stack.has_value()) return;
    stack->first_layer = range.begin;
    stack->layers_after = stack->num_layers - range.end;
    stack->num_layers = range.size();
  };
  keep(stage.encoder, part.encoder);
  keep(stage.decoder, part.decoder);
  return part;
}

}  // namespace beamline
