// A step on a device: given to it, computed, read.
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

// Where the device leaves the beams that a search goes on with, in words of the step's results.
struct BeamWords {
  int32_t parents = 0;  // [width]
  int32_t tokens = 0;   // [width]
  int32_t scores = 0;   // [width]
};

// Holds one step's results until the next Start; with two of them, a step is read while the next
// one runs.
class DeviceStep {
 public:
  virtual ~DeviceStep() = default;

  // Gives the device a step and what its logits rows ask for, one request per row; returns at once
  // on an asynchronous device. searches: among the requests' rows; their score words are among the
  // edits' words.
  virtual absl::Status Start(const StepBuilder& built, const DeviceEdits& edits,
                             std::span<const RowRequest* const> requests,
                             std::span<const BeamSearch> searches) = 0;
  // Whether Wait will not wait.
  virtual bool Done() = 0;
  virtual absl::Status Wait() = 0;

  // The results as the device has them, before anybody reads them: its memory, the word that holds
  // a request's draw of this number (-1: its best candidate), and those of a search's beams.
  virtual const int32_t* words() const = 0;
  virtual int32_t TokenWord(int32_t request, int32_t draw) const = 0;
  virtual BeamWords SearchWords(int32_t search) const = 0;

  // After Wait: the results of `count` requests from `first` on, valid until the next Start, and
  // words as the host has them. Threads may ask for different requests at a time.
  virtual std::span<const RowResult> Results(size_t first, size_t count) = 0;
  virtual std::span<const int32_t> HostWords(int32_t word, size_t count) const = 0;
};

}  // namespace beamline
