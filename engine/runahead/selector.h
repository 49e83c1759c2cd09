// From a step's logits to what each group asked of its rows: edits, best candidates, draws, beams.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/decoding/group_decoder.h"
#include "engine/runahead/device_step.h"
#include "engine/runahead/vocabulary_split.h"
#include "kernels/backend.h"

namespace beamline {

class Selector {
 public:
  // With a split, the logits are the columns of one rank, and every rank's selector finds the same.
  explicit Selector(Backend& backend, std::unique_ptr<VocabularySplit> split = nullptr)
      : backend_(backend), split_(std::move(split)) {}

  // Takes the memory that a Start of these needs, which else takes it itself.
  absl::Status Prepare(std::span<const RowRequest* const> requests,
                       std::span<const BeamSearch> searches);
  // Whether Prepare has nothing to take.
  bool IsPrepared(std::span<const RowRequest* const> requests,
                  std::span<const BeamSearch> searches);
  // Starts the step's work behind the logits and its way to the host; returns at once on an
  // asynchronous device. logits: [num_rows, vocab_size] on the device, a row for each request or
  // for the first of them, in which case more_logits(first_row) gives those behind them, piece by
  // piece; edited in place. Without requests there is nothing but the end of the step to wait for.
  // searches: among the requests' rows. words: where their score words lie, on the device; or null.
  absl::Status Start(const Tensor& logits, absl::FunctionRef<Tensor(int64_t)> more_logits,
                     std::span<const RowRequest* const> requests,
                     std::span<const BeamSearch> searches, const int32_t* words);
  // Whether Wait will not wait.
  bool Done() { return read_back_ == nullptr || read_back_->Done(); }
  absl::Status Wait();
  // The results of Start, as DeviceStep's.
  std::span<const RowResult> Results(size_t first, size_t count);

  // Where the device itself finds the tokens of the last Start, before anybody reads them.
  const int32_t* device_words() const { return static_cast<const int32_t*>(read_back_->device()); }
  // The word that holds a request's draw of this number, or, -1, its best candidate.
  int32_t TokenWord(int32_t request, int32_t draw) const;
  // The words that hold a search's beams; after Wait, the host may read them too.
  BeamWords SearchWords(int32_t search) const;
  std::span<const int32_t> HostInts(int32_t word, size_t count) const {
    return HostWords<int32_t>(word, count);
  }

 private:
  // Where things lie in the read-back, in words of 4 bytes.
  struct Layout {
    size_t values = 0, raw_values = 0, ids = 0;  // [num_rows, max_count]
    size_t log_normalizers = 0;                  // [num_rows]
    size_t sampled_ids = 0, sampled_values = 0;  // [num_draws]
    size_t parents = 0, tokens = 0, scores = 0;  // [num_beams]
    // Of rows that are renormalised, the log-sum-exp of their scores: [num_rows], behind the best
    // value and id of each row, which finding it brings along.
    size_t renormalizers = 0;
    size_t num_words = 0;
  };

  void Collect(std::span<const RowRequest* const> requests);
  void CollectSearches(std::span<const BeamSearch> searches);
  size_t ReadBackBytes() const;  // of what was collected
  // Of the requests from `first` on, whose logits these are.
  absl::Status Choose(const Tensor& logits, size_t first);
  absl::Status FindCandidates(const Tensor& logits, size_t first);
  absl::Status FindRenormalizers(const Tensor& logits, size_t first);
  absl::Status TopCandidates(const TopCandidatesParams& params);
  absl::Status Draw(const Tensor& logits, size_t first);
  void AdvanceBeams(std::span<const BeamSearch> searches, const int32_t* words);
  void ReadResult(size_t row);
  template <typename T>
  T* DeviceWords(size_t offset) const {
    return static_cast<T*>(read_back_->device()) + offset;
  }
  template <typename T>
  std::span<const T> HostWords(size_t offset, size_t count) const {
    return {static_cast<const T*>(read_back_->host()) + offset, count};
  }

  Backend& backend_;
  const std::unique_ptr<VocabularySplit> split_;  // may be null
  std::unique_ptr<ReadBack> read_back_;           // grows to the largest step
  Layout layout_;
  int32_t max_count_ = 0;             // candidates of a row
  bool renormalizes_ = false;         // any row
  std::vector<uint8_t> renormalize_;  // of each row
  std::vector<float> renormalized_;   // of such rows, what values becomes; [num_rows, max_count]
  std::vector<int32_t> ones_;
  std::vector<const LogitsEdits*> edits_;
  std::vector<uint8_t> normalize_first_;
  std::vector<int32_t> counts_;
  std::vector<SampleRow> samples_;
  std::vector<SampleRow> piece_samples_;  // of a piece of the logits, by its rows
  std::vector<int32_t> first_draws_;      // of each request, in samples_
  std::vector<int32_t> first_beams_;      // of each search, in parents, tokens and scores
  std::vector<RowResult> results_;
};

}  // namespace beamline
