// T5's relative attention biases.
#pragma once

#include <cstdint>
#include <span>

#include "engine/transformer/spec.h"

namespace beamline {

// The bucket of a distance (key - query). Each short distance has its own bucket; longer ones share
// buckets on a logarithmic scale, up to max_distance. `bidirectional`: half of the buckets are for
// keys after the query; otherwise all such keys use the first bucket. Source: arXiv:1910.10683,
// with the float32 arithmetic of transformers. REQUIRES: num_buckets >= 4, max_distance >
// num_buckets / 2.
int32_t RelativeBucket(int32_t distance, bool bidirectional, const RelativeSpec& relative);

// Fills rows [heads, 2 * max_distance + 1] for the heads from `first_head` on: each head's bias for
// the distances -max_distance .. max_distance. `table`: [num_buckets, num_heads].
void FillRelativeBias(const RelativeSpec& relative, bool bidirectional,
                      std::span<const float> table, int32_t num_heads, int32_t first_head,
                      std::span<float> rows);

}  // namespace beamline
