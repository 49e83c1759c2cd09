// An input of more tokens than a step may have, of a causal encoder: computed layer by layer, and
// in each layer piece by piece (docs/decisions/0063-long-inputs-in-pieces.md). Between two pieces
// the transformer may compute anything else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/transformer/activations.h"
#include "engine/transformer/forward.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/step_inputs.h"
#include "engine/transformer/step_limits.h"
#include "engine/transformer/weights.h"
#include "kernels/backend.h"

namespace beamline {

// What pieces take, in rows of one layer's products: attention to many keys takes more than these.
class LongInputCost {
 public:
  explicit LongInputCost(const StackSpec& stack);

  // Of rows [begin, begin + count) of an input in a layer.
  double OfPiece(int32_t layer, int32_t begin, int32_t count) const;
  // A whole input, as tokens of short inputs.
  double OfInput(int32_t num_tokens) const;
  // The same in steps of max_batch_tokens tokens each; at least 1.
  int64_t Steps(int32_t num_tokens, const StepLimits& limits) const;
  // The longest input, of `least` to `most` tokens, that costs at most so many tokens of short
  // ones, or `least`.
  int32_t LongestWithin(double cost, int32_t least, int32_t most) const;

 private:
  // What a key that a row sees takes, of what the products of the row take.
  std::vector<double> of_key_;    // of each layer
  std::vector<int32_t> windows_;  // of each layer; 0: all keys
};

class LongInput {
 public:
  // All of it outlives this object. `activations` has the long_ tensors. REQUIRES: the stack is
  // causal and whole; limits.max_input_tokens > 0.
  LongInput(const StackSpec& stack, const StackWeights& weights,
            const ActivationTensors& activations, const StepLimits& limits, StepInputs& inputs,
            Backend& backend);
  LongInput(const LongInput&) = delete;
  LongInput& operator=(const LongInput&) = delete;

  // The next input, in place of the last one. REQUIRES: 1 .. max_input_tokens ids.
  void Begin(std::span<const int32_t> ids);
  struct Progress {
    // Of the input's tokens those that are computed: as large a part as of all layers' rows.
    int32_t num_tokens = 0;
    // What the call computed, as tokens of short inputs.
    double cost = 0;
  };
  // Computes pieces that take about what `num_tokens` (1 .. max_batch_tokens) tokens of short
  // inputs take, and at least one piece. The progress of two calls differs by no more than
  // max_batch_tokens.
  Progress Advance(int32_t num_tokens);
  const LongInputCost& cost() const { return cost_; }
  bool done() const { return layer_ == stack_.num_layers; }
  // The last hidden states, [number of ids, hidden_size], until the next Begin. REQUIRES: done().
  Tensor hidden() const;

  // For warm-up: a whole layer of the longest input, and its largest piece in every layer. Leaves
  // an input that is done.
  void ComputeLargest();

  // Pieces of fewer rows gain nothing for those that wait.
  static constexpr int32_t kLeastRows = 64;

 private:
  // Rows of the next pieces, of which one takes at most `cost`, or kLeastRows.
  int32_t PieceRows(double cost) const;
  void ComputePiece(int32_t layer, int32_t begin, int32_t count);

  const StackSpec& stack_;
  const StepLimits limits_;
  StepInputs& inputs_;
  const LongInputCost cost_;
  const ActivationTensors activations_;  // the residual stream is the long one
  const std::vector<KvLayer> layers_;    // which are one in memory
  const StackForward forward_;

  std::vector<int32_t> ids_, positions_;
  int32_t layer_ = 0;  // of the next piece ...
  int32_t begin_ = 0;  // ... and its first row
  // Norms that the last layer and this one leave to be applied.
  const NormWeights* pending_ = nullptr;
  const NormWeights* next_pending_ = nullptr;
};

}  // namespace beamline
