// From a step's logits to what each group asked of its rows: edits, best candidates, draws.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/decoding/group_decoder.h"
#include "kernels/backend.h"

namespace beamline {

class Selector {
 public:
  explicit Selector(Backend& backend) : backend_(backend) {}

  // logits: [requests.size(), vocab_size] on the device, one row per request; edited in place.
  absl::Status Select(const Tensor& logits, std::span<const RowRequest* const> requests);
  // One per request of the last Select, valid until the next.
  std::span<const RowResult> results() const { return results_; }

 private:
  absl::Status FindCandidates(const Tensor& logits, std::span<const RowRequest* const> requests);
  absl::Status Draw(const Tensor& logits, std::span<const RowRequest* const> requests);
  absl::Status Reserve(size_t bytes);

  Backend& backend_;
  std::unique_ptr<Buffer> buffer_;  // device side of the results; grows to the largest step
  std::vector<const LogitsEdits*> edits_;
  std::vector<uint8_t> normalize_first_;
  std::vector<int32_t> counts_;
  std::vector<SampleRow> samples_;
  // Host side of the results.
  std::vector<float> values_, raw_values_, log_normalizers_, sampled_values_;
  std::vector<int32_t> ids_, sampled_ids_;
  std::vector<RowResult> results_;
};

}  // namespace beamline
