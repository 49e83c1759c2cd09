// A step as the front's RankedStep sends it to the followers, and as a follower reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/byte_message.h"
#include "engine/decoding/group_decoder.h"
#include "engine/scheduling/step_builder.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Appends the arguments of DeviceStep::Start for step `number`. The words of the edits belong to a
// device, so only their presence is sent.
void WriteStepCall(int32_t number, const StepBuilder& built, const DeviceEdits& edits,
                   std::span<const RowRequest* const> requests,
                   std::span<const BeamSearch> searches, ByteWriter& message);

class StepCall {
 public:
  // INVALID_ARGUMENT for a message that WriteStepCall cannot have written.
  static absl::StatusOr<std::unique_ptr<StepCall>> Read(ByteReader& message);

  int32_t number() const { return number_; }
  const StepBuilder& built() const { return built_; }
  bool has_words() const { return has_words_; }
  // Their words are not set.
  const DeviceEdits& edits() const { return edits_; }
  std::span<const RowRequest* const> requests() const { return pointers_; }
  std::span<const BeamSearch> searches() const { return searches_; }

 private:
  StepCall() = default;
  void ReadRequests(ByteReader& message);
  void ReadSearches(ByteReader& message);

  int32_t number_ = 0;
  StepBuilder built_;
  bool has_words_ = false;
  DeviceEdits edits_;
  // Pointers refer to the elements, so these vectors get their size before they are filled.
  std::vector<RowRequest> requests_;
  std::vector<LogitsEdits> row_edits_;
  std::vector<const RowRequest*> pointers_;
  std::vector<BeamSearch> searches_;
  std::vector<std::vector<float>> scores_;
  std::vector<std::vector<int32_t>> end_ids_;
};

}  // namespace beamline
