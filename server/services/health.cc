#include "server/services/health.h"

#include <algorithm>

#include "fmt/format.h"

namespace beamline {

Health::Health(grpc::HealthCheckServiceInterface& service, const std::vector<ModelInfo>& models)
    : services_{&service} {
  std::lock_guard lock(mutex_);
  for (const ModelInfo& model : models) Keep(model);
  TellOfAll();
}

void Health::Add(grpc::HealthCheckServiceInterface& service) {
  std::lock_guard lock(mutex_);
  services_.push_back(&service);
  TellOfAll();
}

void Health::Set(const std::string& name, bool is_serving) {
  for (grpc::HealthCheckServiceInterface* const service : services_) {
    service->SetServingStatus(name, is_serving);
  }
}

void Health::Keep(const ModelInfo& model) {
  if (model.state == ModelState::kFailed || model.state == ModelState::kUnloaded) {
    models_[model.name].erase(model.version);
    return;
  }
  Version& version = models_[model.name][model.version];
  version.is_ready = model.state == ModelState::kReady;
  if (model.state == ModelState::kLoading) version.is_faulted = false;
}

void Health::SetState(const ModelInfo& model) {
  std::lock_guard lock(mutex_);
  Keep(model);
  Set(model.versioned_name, false);  // TellOf sets loaded versions again
  TellOf(model.name);
  TellOfServer();
  if (models_[model.name].empty()) models_.erase(model.name);
}

void Health::SetCanAnswer(const ModelInfo& model, bool can_answer) {
  std::lock_guard lock(mutex_);
  const auto named = models_.find(model.name);
  if (named == models_.end() || !named->second.contains(model.version)) return;
  named->second[model.version].is_faulted = !can_answer;
  TellOf(model.name);
  TellOfServer();
}

void Health::SetAccepting(bool accepting) {
  std::lock_guard lock(mutex_);
  accepting_ = accepting;
  TellOfAll();
}

void Health::StartDraining() {
  std::lock_guard lock(mutex_);
  draining_ = true;
  TellOfAll();
}

bool Health::CanAnswer(const std::string& name) const {
  const auto& versions = models_.at(name);
  const auto highest = std::find_if(versions.rbegin(), versions.rend(),
                                    [](const auto& version) { return version.second.is_ready; });
  return highest != versions.rend() && !highest->second.is_faulted;
}

void Health::TellOf(const std::string& name) {
  Set(name, IsOpen() && CanAnswer(name));
  for (const auto& [number, version] : models_.at(name)) {
    Set(fmt::format("{}{}{}", name, kVersionSeparator, number),
        IsOpen() && version.is_ready && !version.is_faulted);
  }
}

bool Health::ServerIsServing() const {
  bool any_faulted = false;
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, version] : versions) {
      any_faulted = any_faulted || version.is_faulted;
    }
  }
  return IsOpen() && !any_faulted;
}

bool Health::IsServing() {
  std::lock_guard lock(mutex_);
  return ServerIsServing();
}

void Health::TellOfServer() { Set("", ServerIsServing()); }

void Health::TellOfAll() {
  for (const auto& [name, versions] : models_) TellOf(name);
  TellOfServer();
}

}  // namespace beamline
