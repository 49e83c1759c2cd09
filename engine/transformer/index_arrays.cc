#include "engine/transformer/index_arrays.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "base/status.h"

namespace beamline {

absl::StatusOr<IndexArrays> IndexArrays::Create(size_t capacity, Backend& backend) {
  BEAMLINE_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> device,
                            backend.Allocate(capacity * sizeof(int32_t)));
  return IndexArrays(capacity, std::move(device), backend);
}

IndexArrays::IndexArrays(size_t capacity, std::unique_ptr<Buffer> device, Backend& backend)
    : host_(capacity), device_(std::move(device)), backend_(&backend) {}

IndexArrays::Array IndexArrays::Add(size_t size) {
  BEAMLINE_CHECK(size <= host_.size() - used_);
  const Array array = {std::span(host_).subspan(used_, size),
                       static_cast<int32_t*>(device_->data()) + used_};
  used_ = std::min(host_.size(), RoundUp(used_ + size, kAlignment));
  return array;
}

int32_t* IndexArrays::Add(std::span<const int32_t> values) {
  const Array array = Add(values.size());
  std::copy(values.begin(), values.end(), array.host.begin());
  return array.device;
}

void IndexArrays::Upload() {
  backend_->CopyToDevice(host_.data(), device_->data(), used_ * sizeof(int32_t));
}

}  // namespace beamline
