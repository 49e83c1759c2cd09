// Turns a step's logits into what the groups requested: edits, best candidates, samples, beams.
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
  // With a split, the logits are one rank's columns, and all ranks' selectors get the same results.
  explicit Selector(Backend& backend, std::unique_ptr<VocabularySplit> split = nullptr)
      : backend_(backend), split_(std::move(split)) {}

  // Allocates the memory that Start needs for these arguments; otherwise Start allocates it.
  absl::Status Prepare(std::span<const RowRequest* const> requests,
                       std::span<const BeamSearch> searches);
  // Whether Prepare has nothing to allocate.
  bool IsPrepared(std::span<const RowRequest* const> requests,
                  std::span<const BeamSearch> searches);
  // Starts the work after the logits and the copy to the host; returns at once on an asynchronous
  // device. logits: [num_rows, vocab_size] on the device, edited in place. They have one row per
  // request, or only rows of the first requests. In that case more_logits(first_row) returns the
  // following ones, piece by piece. Without requests, Wait only waits for the end of the step.
  // searches: over rows of the requests. words: device memory with their score words; or null.
  absl::Status Start(const Tensor& logits, absl::FunctionRef<Tensor(int64_t)> more_logits,
                     std::span<const RowRequest* const> requests,
                     std::span<const BeamSearch> searches, const int32_t* words);
  // Whether Wait would return at once.
  bool Done() { return read_back_ == nullptr || read_back_->Done(); }
  absl::Status Wait();
  // The results of Start, as in DeviceStep.
  std::span<const RowResult> Results(size_t first, size_t count);

  // Device memory with the tokens of the last Start, usable before the host reads them.
  const int32_t* device_words() const { return static_cast<const int32_t*>(read_back_->device()); }
  // The word with a request's sample `draw`; -1: its best candidate.
  int32_t TokenWord(int32_t request, int32_t draw) const;
  // The words with a search's beams; after Wait also in host memory.
  BeamWords SearchWords(int32_t search) const;
  std::span<const int32_t> HostInts(int32_t word, size_t count) const {
    return HostWords<int32_t>(word, count);
  }

 private:
  // Offsets in the read-back buffer, in words of 4 bytes.
  struct Layout {
    size_t values = 0, raw_values = 0, ids = 0;  // [num_rows, max_count]
    size_t log_normalizers = 0;                  // [num_rows]
    size_t sampled_ids = 0, sampled_values = 0;  // [num_draws]
    size_t parents = 0, tokens = 0, scores = 0;  // [num_beams]
    // For renormalised rows, the log-sum-exp of their scores: [num_rows]. It follows the best value
    // and id of each row, which are a by-product.
    size_t renormalizers = 0;
    size_t num_words = 0;
  };

  void Collect(std::span<const RowRequest* const> requests);
  void CollectSearches(std::span<const BeamSearch> searches);
  size_t ReadBackBytes() const;  // for what was collected
  // Processes the requests from `first` on, to which these logits belong.
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
  int32_t max_count_ = 0;             // per row
  bool renormalizes_ = false;         // whether any row does
  std::vector<uint8_t> renormalize_;  // per row
  std::vector<float> renormalized_;   // their values after renormalisation; [num_rows, max_count]
  std::vector<int32_t> ones_;
  std::vector<const LogitsEdits*> edits_;
  std::vector<uint8_t> normalize_first_;
  std::vector<int32_t> counts_;
  std::vector<SampleRow> samples_;
  std::vector<SampleRow> piece_samples_;  // of one piece of the logits, with its row numbers
  std::vector<int32_t> first_draws_;      // per request, index in samples_
  std::vector<int32_t> first_beams_;      // per search, index in parents, tokens and scores
  std::vector<RowResult> results_;
};

}  // namespace beamline
