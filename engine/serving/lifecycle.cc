#include "engine/serving/lifecycle.h"

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/loading/loaded_model.h"
#include "engine/loading/model_options_check.h"
#include "fmt/format.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How often a wait looks whether it is still wanted.
constexpr milliseconds kLook{20};

absl::Status CheckName(const std::string& name) {
  if (!name.empty() && name.find(kVersionSeparator) == std::string::npos) return absl::OkStatus();
  return FieldError("name", fmt::format("'{}'", Shorten(name)),
                    fmt::format("a name without {}", kVersionSeparator));
}

// What was wrong with the folder or the device is nothing that is wrong with the request.
absl::Status LoadError(const absl::Status& error) {
  const absl::StatusCode code = error.code();
  if (code == absl::StatusCode::kNotFound || code == absl::StatusCode::kResourceExhausted) {
    return error;
  }
  if (code == absl::StatusCode::kCancelled) {
    return absl::UnavailableError("the server is draining");
  }
  if (code != absl::StatusCode::kInternal && code != absl::StatusCode::kUnknown) {
    return absl::FailedPreconditionError(error.message());
  }
  absl::Status internal = absl::InternalError(error.message());
  internal.SetPayload(kPublicErrorPayload, absl::Cord());
  return internal;
}

// What the system has no more of is an error of this load alone.
template <typename Work>
auto WithinLimits(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the host has no memory left");
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(fmt::format("no thread can be started: {}", error.what()));
  }
}

}  // namespace

LoadContext Lifecycle::ContextOf(const std::string& model) const {
  LoadContext context = {.num_threads = options_.num_threads, .gpu_memory = options_.gpu_memory};
  if (observer_ != nullptr) {
    context.log = [observer = observer_, model](const std::string& line) {
      observer->OnChoice(model, line);
    };
  }
  return context;
}

absl::Status Lifecycle::LoadConfigured() {
  const std::vector<ModelOptions>& models = options_.models;
  for (size_t i = 0; i < models.size(); ++i) {
    const ModelOptions& model = models[i];
    const auto same = [&model](const ModelOptions& other) {
      return other.name == model.name && other.version == model.version;
    };
    if (model.name.empty() || std::any_of(models.begin(), models.begin() + i, same)) {
      const std::string value = fmt::format("'{}'", model.name);
      return FieldError({.field = "name",
                         .value = value,
                         .text = fmt::format("model name {} is empty or given twice", value)});
    }
    BEAMLINE_RETURN_IF_ERROR(CheckName(model.name));
    LoadContext context = ContextOf(model.name);
    context.later_models = std::span(models).subspan(i + 1);
    BEAMLINE_RETURN_IF_ERROR(registry_.BeginLoad(model).status());
    BEAMLINE_ASSIGN_OR_RETURN(auto loaded, LoadedModel::Load(model, context));
    BEAMLINE_RETURN_IF_ERROR(registry_
                                 .EndLoad(model, Registry::Replicas{std::make_shared<Replica>(
                                                     std::move(loaded), observer_)})
                                 .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelInfo> Lifecycle::Load(const ModelOptions& options) {
  BEAMLINE_RETURN_IF_ERROR(CheckName(options.name));
  BEAMLINE_RETURN_IF_ERROR(CheckModelOptions(options));
  BEAMLINE_ASSIGN_OR_RETURN(std::optional<ModelInfo> there, registry_.BeginLoad(options));
  if (there.has_value()) return *std::move(there);
  return registry_.EndLoad(options, LoadReplicas(options));
}

absl::StatusOr<Registry::Replicas> Lifecycle::LoadReplicas(const ModelOptions& options) {
  std::lock_guard lock(loading_);
  if (stop_loads_) return absl::UnavailableError("the server is draining");
  LoadContext context = ContextOf(options.name);
  context.admit = [this](const MemoryPlan& plan, const Backend& backend) {
    return Admit(plan, backend);
  };
  context.stop = &stop_loads_;
  context.yields = true;
  absl::StatusOr<std::unique_ptr<LoadedModel>> loaded = absl::UnknownError("not loaded");
  const auto load = [&]() -> absl::StatusOr<Registry::Replicas> {
    // A thread of its own, since what gives way once does so for good.
    std::thread([&] {
      loaded = WithinLimits([&] { return LoadedModel::Load(options, context); });
    }).join();
    if (!loaded.ok()) return LoadError(loaded.status());
    return Registry::Replicas{std::make_shared<Replica>(*std::move(loaded), observer_)};
  };
  return WithinLimits(load);
}

absl::Status Lifecycle::Admit(const MemoryPlan& plan, const Backend& backend) const {
  if (const std::optional<size_t> free_bytes = backend.FreeMemory()) {
    return CheckFits(plan, static_cast<int64_t>(*free_bytes), backend.Name());
  }
  return CheckFits(plan, FreeHostBytes() - registry_.PromisedHostBytes(), "the host");
}

absl::StatusOr<ModelInfo> Lifecycle::Unload(const std::string& name, int32_t version,
                                            milliseconds grace) {
  BEAMLINE_ASSIGN_OR_RETURN(Registry::Leaving leaving, registry_.BeginUnload(name, version));
  if (leaving.replicas.empty()) return leaving.info;
  const auto deadline = steady_clock::now() + grace;
  for (const auto& replica : leaving.replicas) WaitForRequests(*replica, deadline);
  const absl::Status why = absl::UnavailableError(
      fmt::format("model '{}' was unloaded before the answer was complete", Shorten(name)));
  for (const auto& replica : leaving.replicas) {
    replica->Stop(why);
    // What is still being tokenized is answered by that.
    while (!replica->tickets().WaitForNone(kLook)) {
    }
  }
  registry_.Retire(leaving);
  // Whoever reads its statistics at this moment still holds it; nobody new can.
  for (std::shared_ptr<Replica>& replica : leaving.replicas) {
    while (replica.use_count() > 1) std::this_thread::sleep_for(milliseconds(1));
    replica.reset();
  }
  registry_.EndUnload(leaving.info);
  return leaving.info;
}

void Lifecycle::WaitForRequests(Replica& replica, steady_clock::time_point deadline) const {
  while (!stop_waiting_) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (replica.tickets().WaitForNone(std::clamp(left, milliseconds(0), kLook))) return;
    if (left <= milliseconds(0)) return;
  }
}

void Lifecycle::StopLoads() {
  stop_loads_ = true;
  registry_.Close();
}

}  // namespace beamline
