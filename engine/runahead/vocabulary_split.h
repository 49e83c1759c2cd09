// What is chosen of logits whose columns lie on several ranks: one rank's side of it. Every rank
// makes the same calls and has the same results.
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

// The operators of the same names, of whole rows: `logits` are this rank's columns, all else is as
// if one rank had them all. A fault of another rank is in Communicator::status(); the results are
// undefined then.
class VocabularySplit {
 public:
  // Both outlive it.
  VocabularySplit(int32_t vocab_size, Backend& backend, Communicator& communicator);

  // Logits stay where they are: maxima, sums of exponentials and candidates travel.
  absl::Status TopCandidates(const TopCandidatesParams& params);
  // Gathers the rows that are drawn from, a few at a time: filters look at whole distributions, and
  // a draw is the same for any number of ranks.
  absl::Status Sample(const SampleParams& params);

  // What Sample takes to gather rows, once it is called.
  static int64_t GatheredBytes(int32_t vocab_size) {
    return kGatheredRows * vocab_size * static_cast<int64_t>(sizeof(float));
  }

 private:
  static constexpr int64_t kGatheredRows = 16;  // at a time

  // The edits of this rank's columns, by their numbers here.
  void KeepOwnEdits(std::span<const LogitsEdits* const> edits);
  LogitsEdits OwnEdits(const LogitsEdits& edits) const;
  absl::Status Reserve(size_t num_words);
  // The log-normalizers of whole rows, as they are before edits, to `normalizers`.
  void FindNormalizers(const Tensor& logits, float* words, float* normalizers);

  const int32_t vocab_size_;
  const int32_t first_column_, num_columns_;  // of this rank
  Backend& backend_;
  Communicator& communicator_;
  std::unique_ptr<Buffer> words_;     // of TopCandidates; grows to the largest call
  std::unique_ptr<Buffer> gathered_;  // [kGatheredRows, vocab_size] float32
  // Of a call; kept for their memory.
  std::vector<LogitsEdits> own_edits_;
  std::vector<const LogitsEdits*> edits_;
  std::vector<int32_t> counts_, ones_;
  std::vector<SampleRow> rows_;
};

}  // namespace beamline
