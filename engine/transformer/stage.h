// The layers of a transformer in consecutive ranges, each of which a stage computes: a rank, or
// several that share its layers (shard.h).
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/transformer/spec.h"

namespace beamline {

// Of a stack, the layers begin .. end - 1.
struct LayerRange {
  int32_t begin = 0, end = 0;

  int32_t size() const { return end - begin; }
  bool operator==(const LayerRange&) const = default;
};

// What one stage computes. The encoder's layers come before the decoder's; the stage that has a
// stack's first layer embeds its tokens, the one that has its last layer applies the last norm and
// has the head.
struct Stage {
  LayerRange encoder, decoder;

  bool operator==(const Stage&) const = default;
};

// INVALID_ARGUMENT naming pipeline_parallel, unless every stage gets a layer, or where there are
// more layers than several stages divide (4096).
absl::Status CheckStages(const TransformerSpec& spec, int32_t num_stages);

// The layers in so many ranges, of which the most expensive is as cheap as can be; beside it the
// others are as even as can be. What counts is what a token is multiplied with: the matrices of a
// layer, the head, and a row of each table. REQUIRES: CheckStages.
std::vector<Stage> DivideLayers(const TransformerSpec& spec, int32_t num_stages);

// The spec with the layers that the stage has; a stack may have none.
TransformerSpec SpecOf(const TransformerSpec& spec, const Stage& stage);

}  // namespace beamline
