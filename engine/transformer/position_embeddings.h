// The embeddings of distances of disentangled attention: read, normed and brought to the device,
// where the layers' products are made of them as they are loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/tensor_reader.h"
#include "kernels/backend.h"

namespace beamline {

struct PositionEmbeddings {
  Tensor rows;                     // [num_rows, hidden_size] in the activation type
  std::unique_ptr<Buffer> memory;  // owns it; null where it is not kept
};

// Of a rank, all of them. Without memory where the reader keeps nothing.
absl::StatusOr<PositionEmbeddings> LoadPositionEmbeddings(const StackSpec& spec,
                                                          TensorReader& reader, Backend& backend);

// The row of each distance key - query of sequences up to `max_length` tokens, from the negative of
// the longest to it: as many as differ, longer ones have the row of the first or of the last.
// Source: make_log_bucket_position of transformers' DebertaV2, in its float32 arithmetic. REQUIRES:
// span >= 1, max_length >= 1; with buckets span >= 2 and max_distance > span / 2 + 1.
std::vector<int32_t> DistanceRows(const DisentangledSpec& spec, int32_t max_length);

}  // namespace beamline
