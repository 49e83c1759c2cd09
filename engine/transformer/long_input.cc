#include "engine/transformer/long_input.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace beamline {
namespace {

// Attention has about half the throughput of matmuls.
constexpr double kAttentionFactor = 2.0;

// Multiplications per row in a layer's matmuls.
double ProductsOf(const StackSpec& stack, int32_t layer) {
  const double hidden = stack.hidden_size;
  const double query = static_cast<double>(stack.num_heads) * stack.head_dim;
  const double key = static_cast<double>(stack.num_kv_heads) * stack.head_dim;
  const ExpertsSpec& experts = stack.experts;
  const double inner =
      stack.has_experts(layer)
          ? static_cast<double>(experts.num_chosen) * experts.inner_size + experts.shared_size
          : stack.feed_forward_size;
  return hidden * (2 * query + 2 * key) + hidden * inner * (stack.gated ? 3 : 2);
}

ActivationTensors WithLongStream(ActivationTensors activations) {
  activations.hidden = activations.long_hidden;
  return activations;
}

std::vector<KvLayer> OneLayerForAll(const StackSpec& stack, const ActivationTensors& activations,
                                    const StepLimits& limits, KeyLayout key_layout) {
  const auto paged = [&](const Tensor& rows) {
    return Tensor(
        rows.data, rows.dtype,
        {limits.num_input_blocks(), stack.num_kv_heads, limits.block_size, stack.head_dim});
  };
  const KvLayer layer = {paged(activations.long_keys), paged(activations.long_values), key_layout};
  return std::vector<KvLayer>(static_cast<size_t>(stack.num_layers), layer);
}

}  // namespace

LongInputCost::LongInputCost(const StackSpec& stack) {
  const double of_key = 2.0 * stack.num_heads * stack.head_dim * kAttentionFactor;
  for (int32_t layer = 0; layer < stack.num_layers; ++layer) {
    of_key_.push_back(of_key / ProductsOf(stack, layer));
    windows_.push_back(stack.attention_windows.empty() ? 0 : stack.attention_windows[layer]);
  }
}

double LongInputCost::OfPiece(int32_t layer, int32_t begin, int32_t count) const {
  double keys = begin + 0.5 * count;  // average number of keys per row
  if (windows_[layer] > 0) keys = std::min(keys, static_cast<double>(windows_[layer]));
  return count * (1 + keys * of_key_[layer]);
}

double LongInputCost::OfInput(int32_t num_tokens) const {
  double cost = 0;
  for (size_t layer = 0; layer < of_key_.size(); ++layer) {
    cost += OfPiece(static_cast<int32_t>(layer), 0, num_tokens);
  }
  return cost / static_cast<double>(std::max<size_t>(1, of_key_.size()));
}

int64_t LongInputCost::Steps(int32_t num_tokens, const StepLimits& limits) const {
  return std::max<int64_t>(1, std::llround(OfInput(num_tokens) / limits.max_batch_tokens));
}

int32_t LongInputCost::LongestWithin(double cost, int32_t least, int32_t most) const {
  while (least < most) {
    const int32_t middle = least + (most - least + 1) / 2;
    OfInput(middle) <= cost ? least = middle : most = middle - 1;
  }
  return least;
}

LongInput::LongInput(const StackSpec& stack, const StackWeights& weights,
                     const ActivationTensors& activations, const StepLimits& limits,
                     StepInputs& inputs, Backend& backend)
    : stack_(stack),
      limits_(limits),
      inputs_(inputs),
      cost_(stack),
      activations_(WithLongStream(activations)),
      layers_(OneLayerForAll(stack, activations, limits, backend.key_layout())),
      forward_(stack, weights, layers_, activations_, backend, /*communicator=*/nullptr,
               /*stages=*/nullptr) {
  BEAMLINE_CHECK(stack.causal && stack.num_layers > 0 && stack.begins() && stack.ends());
  BEAMLINE_CHECK(weights.output_projection.weight == nullptr);
  BEAMLINE_CHECK(limits.max_input_tokens > 0 && !activations.long_hidden.empty());
}

void LongInput::Begin(std::span<const int32_t> ids) {
  BEAMLINE_CHECK(!ids.empty() && ids.size() <= static_cast<size_t>(limits_.max_input_tokens));
  ids_.assign(ids.begin(), ids.end());
  positions_.resize(ids.size());
  StepInputs::FillPositions(stack_, ids_, positions_);
  layer_ = begin_ = 0;
  pending_ = nullptr;
}

LongInput::Progress LongInput::Advance(int32_t num_tokens) {
  const auto num_ids = static_cast<int32_t>(ids_.size());
  const double most = static_cast<double>(num_tokens) * stack_.num_layers;
  const int32_t rows = done() ? 0 : PieceRows(most);
  double cost = 0;
  while (!done()) {
    const int32_t count = std::min(rows, num_ids - begin_);
    const double of_piece = cost_.OfPiece(layer_, begin_, count);
    if (cost > 0 && cost + of_piece > most) break;
    cost += of_piece;
    ComputePiece(layer_, begin_, count);
    begin_ += count;
    if (begin_ < num_ids) continue;
    begin_ = 0;
    ++layer_;
    pending_ = next_pending_;
  }
  const int64_t rows_done = int64_t{layer_} * num_ids + begin_;
  return {static_cast<int32_t>(rows_done / stack_.num_layers), cost / stack_.num_layers};
}

Tensor LongInput::hidden() const {
  BEAMLINE_CHECK(done());
  return activations_.long_hidden.First(static_cast<int64_t>(ids_.size()));
}

void LongInput::ComputeLargest() {
  Begin(std::vector<int32_t>(static_cast<size_t>(limits_.max_input_tokens), 0));
  const int32_t length = limits_.max_input_tokens;
  const int32_t rows = std::min(limits_.max_batch_tokens, length);
  for (int32_t begin = 0; begin < length; begin += rows) {
    ComputePiece(/*layer=*/0, begin, std::min(rows, length - begin));
  }
  for (layer_ = 0; !done(); ++layer_) {
    ComputePiece(layer_, length - rows, rows);
    pending_ = next_pending_;
  }
}

int32_t LongInput::PieceRows(double cost) const {
  int32_t rows = limits_.max_batch_tokens;
  // Few different sizes, so that a device that selects algorithms by size sees each of them soon.
  while (rows >= 2 * kLeastRows && cost_.OfPiece(layer_, begin_, rows) > cost) rows /= 2;
  return rows;
}

void LongInput::ComputePiece(int32_t layer, int32_t begin, int32_t count) {
  const auto first = static_cast<size_t>(begin), size = static_cast<size_t>(count);
  DecoderInputs piece = inputs_.PutPiece(std::span(ids_).subspan(first, size),
                                         std::span(positions_).subspan(first, size), begin);
  piece.scales_scores = !stack_.edits_heads();
  next_pending_ = forward_.EncodeLayer(layer, piece, pending_);
}

}  // namespace beamline
