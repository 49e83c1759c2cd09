// The index arrays of a step: collected in one host buffer and copied to the device in one
// transfer, or, if they are few, read by the device in host memory.
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
  // An array being filled: its host values and its future address on the device.
  struct Array {
    std::span<int32_t> host;
    int32_t* device = nullptr;
  };

  // `capacity`: total values of all arrays of a step, plus kAlignment for each array.
  static absl::StatusOr<IndexArrays> Create(size_t capacity, Backend& backend);

  static constexpr size_t kAlignment = 16;  // values; arrays start on cache lines

  // Maximum values that can be read in place, over all arrays, each rounded up to kAlignment.
  static constexpr size_t kMostInPlace = 1024;

  // Starts a step; arrays of the previous step become invalid.
  void Clear();
  // The same for at most kMostInPlace values. The device reads them in host memory if it can,
  // without a transfer.
  void ClearInPlace();
  // REQUIRES: the values fit into the capacity.
  Array Add(size_t size);
  int32_t* Add(std::span<const int32_t> values);
  // Host values of an array, or of its first `size` values, by its device address.
  std::span<const int32_t> Host(const int32_t* device, size_t size) const {
    return gathered_.subspan(static_cast<size_t>(device - placed_), size);
  }
  // Copies all arrays since Clear to the device.
  void Upload();
  // The same, and fills in the values that the device itself has chosen.
  void Upload(const FillTokensParams& fill);

 private:
  IndexArrays(size_t capacity, std::unique_ptr<Buffer> device, std::unique_ptr<Buffer> visible,
              Backend& backend);

  std::vector<int32_t> host_;
  std::unique_ptr<Buffer> device_;
  std::unique_ptr<Buffer> visible_;  // null: arrays are not read in place
  Backend* backend_;
  std::span<int32_t> gathered_;  // of this step: where the host writes ...
  int32_t* placed_ = nullptr;    // ... and the device reads
  size_t used_ = 0;
};

}  // namespace beamline
