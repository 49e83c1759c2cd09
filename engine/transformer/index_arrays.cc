#include "engine/transformer/index_arrays.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "base/status.h"
#include "kernels/filled_copy.h"
#include "kernels/host_visible.h"

namespace beamline {

absl::StatusOr<IndexArrays> IndexArrays::Create(size_t capacity, Backend& backend) {
  BEAMLINE_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> device,
                            backend.Allocate(capacity * sizeof(int32_t)));
  HostVisibleMemory* const memory = HostVisibleMemory::Of(backend);
  std::unique_ptr<Buffer> visible;
  if (memory != nullptr) {
    BEAMLINE_ASSIGN_OR_RETURN(visible, memory->AllocateHostVisible(kMostInPlace * sizeof(int32_t)));
  }
  return IndexArrays(capacity, std::move(device), std::move(visible), backend);
}

IndexArrays::IndexArrays(size_t capacity, std::unique_ptr<Buffer> device,
                         std::unique_ptr<Buffer> visible, Backend& backend)
    : host_(capacity),
      device_(std::move(device)),
      visible_(std::move(visible)),
      backend_(&backend) {
  Clear();
}

void IndexArrays::Clear() {
  used_ = 0;
  gathered_ = host_;
  placed_ = static_cast<int32_t*>(device_->data());
}

void IndexArrays::ClearInPlace() {
  Clear();
  if (visible_ == nullptr) return;
  HostVisibleMemory::Of(*backend_)->WaitForReaders();
  placed_ = static_cast<int32_t*>(visible_->data());
  gathered_ = {placed_, kMostInPlace};
}

IndexArrays::Array IndexArrays::Add(size_t size) {
  BEAMLINE_CHECK(size <= gathered_.size() - used_);
  const Array array = {gathered_.subspan(used_, size), placed_ + used_};
  used_ = std::min(gathered_.size(), RoundUp(used_ + size, kAlignment));
  return array;
}

int32_t* IndexArrays::Add(std::span<const int32_t> values) {
  const Array array = Add(values.size());
  std::copy(values.begin(), values.end(), array.host.begin());
  return array.device;
}

void IndexArrays::Upload() {
  if (gathered_.data() == placed_) return;
  backend_->CopyToDevice(gathered_.data(), placed_, used_ * sizeof(int32_t));
}

void IndexArrays::Upload(const FillTokensParams& fill) {
  FilledCopy* const copy = FilledCopy::Of(*backend_);
  if (copy != nullptr && gathered_.data() != placed_ &&
      copy->CopyAndFill(gathered_.data(), placed_, used_ * sizeof(int32_t), fill)) {
    return;
  }
  Upload();
  backend_->FillTokens(fill);
}

}  // namespace beamline
