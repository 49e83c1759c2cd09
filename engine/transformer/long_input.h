// An input of a causal encoder with more tokens than a step allows. It is computed layer by layer,
// and within a layer piece by piece (docs/decisions/0063-long-inputs-in-pieces.md). Between two
// pieces the transformer may compute other work.
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

// The cost of pieces, in units of one row of one layer's matmuls; attention to many keys adds to
// it.
class LongInputCost {
 public:
  explicit LongInputCost(const StackSpec& stack);

  // Cost of rows [begin, begin + count) of an input in one layer.
  double OfPiece(int32_t layer, int32_t begin, int32_t count) const;
  // Cost of a whole input, in tokens of short inputs.
  double OfInput(int32_t num_tokens) const;
  // The same in steps of max_batch_tokens tokens; at least 1.
  int64_t Steps(int32_t num_tokens, const StepLimits& limits) const;
  // The longest input, between `least` and `most` tokens, whose cost is at most `cost` tokens of
  // short inputs; `least` if there is none.
  int32_t LongestWithin(double cost, int32_t least, int32_t most) const;

 private:
  // Cost of one key that a row attends to, relative to the row's matmuls.
  std::vector<double> of_key_;    // per layer
  std::vector<int32_t> windows_;  // per layer; 0: all keys
};

class LongInput {
 public:
  // All arguments must outlive this object. `activations` has the long_ tensors. REQUIRES: the
  // stack is causal and whole; limits.max_input_tokens > 0.
  LongInput(const StackSpec& stack, const StackWeights& weights,
            const ActivationTensors& activations, const StepLimits& limits, StepInputs& inputs,
            Backend& backend);
  LongInput(const LongInput&) = delete;
  LongInput& operator=(const LongInput&) = delete;

  // Starts the next input and drops the previous one. REQUIRES: 1 .. max_input_tokens ids.
  void Begin(std::span<const int32_t> ids);
  struct Progress {
    // Tokens of the input, in proportion to the computed rows of all layers.
    int32_t num_tokens = 0;
    // Cost of this call, in tokens of short inputs.
    double cost = 0;
  };
  // Computes pieces that cost about `num_tokens` (1 .. max_batch_tokens) tokens of short inputs,
  // and at least one piece. The progress of two calls differs by at most max_batch_tokens.
  Progress Advance(int32_t num_tokens);
  const LongInputCost& cost() const { return cost_; }
  bool done() const { return layer_ == stack_.num_layers; }
  // The last hidden states, [number of ids, hidden_size], valid until the next Begin. REQUIRES:
  // done().
  Tensor hidden() const;

  // Warm-up: computes a whole layer of the longest input, and its largest piece in every layer.
  // Afterwards done() is true.
  void ComputeLargest();

  // Smaller pieces would not help waiting requests.
  static constexpr int32_t kLeastRows = 64;

 private:
  // Rows of the next pieces: one piece costs at most `cost`, or has fewer than 2 * kLeastRows rows.
  int32_t PieceRows(double cost) const;
  void ComputePiece(int32_t layer, int32_t begin, int32_t count);

  const StackSpec& stack_;
  const StepLimits limits_;
  StepInputs& inputs_;
  const LongInputCost cost_;
  const ActivationTensors activations_;  // with the long residual stream
  const std::vector<KvLayer> layers_;    // all refer to the same memory
  const StackForward forward_;

  std::vector<int32_t> ids_, positions_;
  int32_t layer_ = 0;  // of the next piece ...
  int32_t begin_ = 0;  // ... and its first row
  // Norms that the previous layer and this one leave to be applied.
  const NormWeights* pending_ = nullptr;
  const NormWeights* next_pending_ = nullptr;
};

}  // namespace beamline
