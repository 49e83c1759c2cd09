// Whether a replica can still compute. A fault of its device is sticky (kernels/operators.h), so
// the replica that meets one answers nothing any more.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace beamline {

// Written by the replica's thread, read by any.
class ReplicaFault {
 public:
  using Listener = std::function<void(const absl::Status& fault)>;

  explicit ReplicaFault(std::string model) : model_(std::move(model)) {}

  // OK, or UNAVAILABLE naming the model and the fault.
  absl::Status status() const;
  // Of a fault: whether what failed is this replica's work alone, so that another may work on the
  // same device. It was refused memory, or a process that computes with it is lost; any other fault
  // of a GPU is its context's.
  bool leaves_device_whole() const;
  // What requests get that an ended replica does not answer: the fault, else the reason for the
  // end.
  absl::Status EndStatus() const;
  void SetEnd(const absl::Status& why);
  // To be called when a step has failed: asks the device whether it goes on working. If it does,
  // returns OK, and the step's error is that step's alone; else status(), from now on.
  absl::Status Examine(Backend& backend);
  // `listener` is told of the fault, once: when Examine finds it, or at once when it has.
  void Listen(Listener listener);

 private:
  const std::string model_;
  mutable std::mutex mutex_;  // guards all below
  absl::Status status_;
  bool leaves_device_whole_ = false;
  absl::Status end_;
  Listener listener_;
};

}  // namespace beamline
