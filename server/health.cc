#include "server/health.h"

#include <utility>

namespace beamline {

Health::Health(grpc::HealthCheckServiceInterface& service, std::vector<std::string> models)
    : service_(service), models_(std::move(models)) {
  std::lock_guard lock(mutex_);
  Tell();
}

void Health::SetFaulted(const std::string& model) {
  std::lock_guard lock(mutex_);
  faulted_.insert(model);
  Tell();
}

void Health::SetAccepting(bool accepting) {
  std::lock_guard lock(mutex_);
  accepting_ = accepting;
  Tell();
}

void Health::StartDraining() {
  std::lock_guard lock(mutex_);
  draining_ = true;
  Tell();
}

void Health::Tell() {
  const bool open = accepting_ && !draining_;
  for (const std::string& model : models_) {
    service_.SetServingStatus(model, open && !faulted_.contains(model));
  }
  service_.SetServingStatus("", open && faulted_.empty());
}

}  // namespace beamline
