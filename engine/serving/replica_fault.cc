#include "engine/serving/replica_fault.h"

#include <utility>

#include "absl/strings/cord.h"
#include "engine/api/engine.h"
#include "engine/transformer/ranked_backend.h"
#include "fmt/format.h"

namespace beamline {

absl::Status ReplicaFault::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

bool ReplicaFault::leaves_device_whole() const {
  std::lock_guard lock(mutex_);
  return leaves_device_whole_;
}

absl::Status ReplicaFault::EndStatus() const {
  std::lock_guard lock(mutex_);
  return status_.ok() ? end_ : status_;
}

void ReplicaFault::SetEnd(const absl::Status& why) {
  std::lock_guard lock(mutex_);
  end_ = why;
}

absl::Status ReplicaFault::Examine(Backend& backend) {
  const absl::Status device = backend.Synchronize();
  std::unique_lock lock(mutex_);
  if (device.ok() || !status_.ok()) return status_;
  status_ =
      absl::UnavailableError(fmt::format("model '{}' cannot answer: its device {} failed: {}",
                                         model_, backend.Name(), std::string(device.message())));
  status_.SetPayload(kReplicaEndedPayload, absl::Cord());
  leaves_device_whole_ =
      absl::IsResourceExhausted(device) || device.GetPayload(kDeviceWholePayload).has_value();
  const absl::Status fault = status_;
  const Listener listener = listener_;
  lock.unlock();
  if (listener) listener(fault);
  return fault;
}

void ReplicaFault::Listen(Listener listener) {
  std::unique_lock lock(mutex_);
  listener_ = std::move(listener);
  if (status_.ok() || !listener_) return;
  const absl::Status fault = status_;
  const Listener told = listener_;
  lock.unlock();
  told(fault);
}

}  // namespace beamline
