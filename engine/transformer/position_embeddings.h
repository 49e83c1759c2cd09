// Distance embeddings of disentangled attention: read, normalised and copied to the device. The
// layers multiply them by their projections while they are loaded.
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
  std::unique_ptr<Buffer> memory;  // owns rows; null if it is not kept
};

// Every rank has all rows. No memory is allocated if the reader keeps nothing.
absl::StatusOr<PositionEmbeddings> LoadPositionEmbeddings(const StackSpec& spec,
                                                          TensorReader& reader, Backend& backend);

// The row of each distance (key - query) between -(max_length - 1) and max_length - 1. Only as many
// distances are listed as have different rows; longer ones use the first or the last row. Source:
// make_log_bucket_position of transformers' DebertaV2, in its float32 arithmetic. REQUIRES: span >=
// 1, max_length >= 1; with buckets span >= 2 and max_distance > span / 2 + 1.
std::vector<int32_t> DistanceRows(const DisentangledSpec& spec, int32_t max_length);

}  // namespace beamline
