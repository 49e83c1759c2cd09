// Selection from logits whose columns are divided among ranks: the part of one rank. All ranks make
// the same calls and get the same results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/transformer/shard.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace beamline {

// The operators of the same names for whole rows: `logits` are this rank's columns, all other
// arguments are as with one rank. A fault of another rank is in Communicator::status(); the results
// are then undefined.
class VocabularySplit {
 public:
  // Both must outlive this object.
  VocabularySplit(int32_t vocab_size, Backend& backend, Communicator& communicator);

  // Logits are not exchanged, only maxima, sums of exponentials and candidates.
  absl::Status TopCandidates(const TopCandidatesParams& params);
  // Gathers the rows to sample from, a few at a time: filters need whole distributions, and a
  // sample must be the same for any number of ranks.
  absl::Status Sample(const SampleParams& params);

  // Memory that Sample allocates on its first call, to gather rows.
  static int64_t GatheredBytes(int32_t vocab_size) {
    return kGatheredRows * vocab_size * static_cast<int64_t>(sizeof(float));
  }

 private:
  static constexpr int64_t kGatheredRows = 16;  // at a time

  // Copies the edits of this rank's columns, with local column numbers.
  void KeepOwnEdits(std::span<const LogitsEdits* const> edits);
  LogitsEdits OwnEdits(const LogitsEdits& edits) const;
  absl::Status Reserve(size_t num_words);
  // Writes the log-normalizers of whole rows, before edits, to `normalizers`.
  void FindNormalizers(const Tensor& logits, float* words, float* normalizers);

  const int32_t vocab_size_;
  const int32_t first_column_, num_columns_;  // of this rank
  Backend& backend_;
  Communicator& communicator_;
  std::unique_ptr<Buffer> words_;     // for TopCandidates; grows to the largest call
  std::unique_ptr<Buffer> gathered_;  // [kGatheredRows, vocab_size] float32
  // Scratch of a call; kept to reuse memory.
  std::vector<LogitsEdits> own_edits_;
  std::vector<const LogitsEdits*> edits_;
  std::vector<int32_t> counts_, ones_;
  std::vector<SampleRow> rows_;
};

}  // namespace beamline
