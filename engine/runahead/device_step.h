// Interface of a step on a device: start it, wait for it, read its results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "engine/decoding/group_decoder.h"
#include "engine/scheduling/step_builder.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

// Where the device leaves the next beams of a search; offsets into the words of the step's results.
struct BeamWords {
  int32_t parents = 0;  // [width]
  int32_t tokens = 0;   // [width]
  int32_t scores = 0;   // [width]
};

// Holds one step's results until the next Start. With two objects, the host reads one step while
// the device computes the next.
class DeviceStep {
 public:
  virtual ~DeviceStep() = default;

  // Gives the device a step and its logits requests, one per row; returns at once on an
  // asynchronous device. searches: over rows of the requests; their scores lie at their score words
  // in edits.words.
  virtual absl::Status Start(const StepBuilder& built, const DeviceEdits& edits,
                             std::span<const RowRequest* const> requests,
                             std::span<const BeamSearch> searches) = 0;
  // Whether Wait would return at once.
  virtual bool Done() = 0;
  virtual absl::Status Wait() = 0;

  // Results in device memory, usable before the host reads them. words(): their memory. TokenWord:
  // the word with a request's sample `draw` (-1: its best candidate). SearchWords: the words with a
  // search's beams.
  virtual const int32_t* words() const = 0;
  virtual int32_t TokenWord(int32_t request, int32_t draw) const = 0;
  virtual BeamWords SearchWords(int32_t search) const = 0;

  // After Wait. Results: those of `count` requests from `first` on, valid until the next Start.
  // HostWords: words in host memory. Several threads may read different requests at the same time.
  virtual std::span<const RowResult> Results(size_t first, size_t count) = 0;
  virtual std::span<const int32_t> HostWords(int32_t word, size_t count) const = 0;
};

}  // namespace beamline
