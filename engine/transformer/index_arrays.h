// The index arrays of a step: gathered in one host buffer and moved to the device in one transfer,
// or read there where they are few.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace beamline {

class IndexArrays {
 public:
  // An array while it is being filled: its host values and where they will be on the device.
  struct Array {
    std::span<int32_t> host;
    int32_t* device = nullptr;
  };

  // `capacity`: values of all arrays of a step together, plus kAlignment for each array.
  static absl::StatusOr<IndexArrays> Create(size_t capacity, Backend& backend);

  static constexpr size_t kAlignment = 16;  // values; arrays start on cache lines

  // Values of all arrays, each rounded up to kAlignment, that can be read in place.
  static constexpr size_t kMostInPlace = 1024;

  // Starts a step; the arrays of the last one become invalid.
  void Clear();
  // The same for at most kMostInPlace values, which the device then reads in the host's memory
  // where it can: without a transfer.
  void ClearInPlace();
  // REQUIRES: they fit the capacity.
  Array Add(size_t size);
  int32_t* Add(std::span<const int32_t> values);
  // The host's values of an array, or of its first ones, by where it is on the device.
  std::span<const int32_t> Host(const int32_t* device, size_t size) const {
    return gathered_.subspan(static_cast<size_t>(device - placed_), size);
  }
  // Moves all arrays since Clear to the device.
  void Upload();
  // The same, and what the device itself has chosen among them.
  void Upload(const FillTokensParams& fill);

 private:
  IndexArrays(size_t capacity, std::unique_ptr<Buffer> device, std::unique_ptr<Buffer> visible,
              Backend& backend);

  std::vector<int32_t> host_;
  std::unique_ptr<Buffer> device_;
  std::unique_ptr<Buffer> visible_;  // null: nothing is read in place
  Backend* backend_;
  std::span<int32_t> gathered_;  // of this step: where the host writes ...
  int32_t* placed_ = nullptr;    // ... and the device reads
  size_t used_ = 0;
};

}  // namespace beamline
