#include "server/calls/call_state.h"

#include <utility>

namespace beamline {

absl::Status CallState::Admit() {
  absl::StatusOr<Admission::Permit> permit = services_.admission.Admit();
  if (!permit.ok()) {
    services_.metrics.RecordRejection(absl::IsUnavailable(permit.status()));
    return permit.status();
  }
  permit_.emplace(*std::move(permit));
  return absl::OkStatus();
}

void CallState::Done() {
  permit_.reset();
  record_.duration = Clock::now() - start_;
  services_.metrics.RecordCall(record_);
}

}  // namespace beamline
