// Makes the answers of the inputs that a step of an encoder has computed, as the Encoding of each
// job says. Each call of the device and each transfer waits for the device, and a head reads its
// weights once for all rows that it is given: jobs whose rows are read alike share both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/encoding/encoding.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

// The last hidden states of a step, and where its inputs begin and end.
struct EncodedRows {
  Tensor hidden;                     // [num_tokens, hidden_size]
  std::span<const int32_t> offsets;  // [num_inputs + 1]
};

// Adjacent inputs of one job in a step.
struct JobPart {
  const Encoding* encoding = nullptr;
  std::span<Embedding> inputs{};  // all of the job's, whose answers are written
  size_t begin = 0, end = 0;      // of the job's inputs, in the step
  int32_t first = 0;              // its number among the step's
  bool is_finite = true;          // false: an answer would have been made of NaN or infinity
};

// One thread. What it is given outlives it.
class FinishStep {
 public:
  // most_rows: that the transformer pools in one call.
  FinishStep(Transformer& transformer, Backend& backend, const ModelHeads& heads, int32_t most_rows)
      : transformer_(transformer), backend_(backend), heads_(heads), most_rows_(most_rows) {}

  // `parts`: adjacent in the step, in its order. An error is the device's, of all of them.
  absl::Status Finish(const EncodedRows& rows, std::span<JobPart> parts);

 private:
  // Of parts whose rows are read alike.
  absl::Status FinishAlike(const EncodedRows& rows, std::span<JobPart> parts);
  // Sets rows_.
  absl::Status Read(const Tensor& hidden, const RowReader::Mode& mode);
  // Drops what was pooled between the rows that are read.
  void KeepRead();

  Transformer& transformer_;
  Backend& backend_;
  const ModelHeads& heads_;
  const int32_t most_rows_;
  // Of one call; kept for their memory, as long as that is little.
  static constexpr size_t kMostKept = 1 << 16;
  RowSpans spans_;
  std::vector<int32_t> num_rows_;  // of each input
  HostRows rows_;
  EncoderBatch pooled_;
};

}  // namespace beamline
