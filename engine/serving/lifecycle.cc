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
#include "engine/loading/placement.h"
#include "fmt/format.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How often a wait looks whether it is still wanted.
constexpr milliseconds kTicketLook{20};
// Of the draws among replicas, which nobody outside can use.
constexpr uint64_t kRouterSeed = 20;

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
  LoadContext context = {.gpu_memory = options_.gpu_memory};
  if (observer_ != nullptr) {
    context.log = [observer = observer_, model](const std::string& line) {
      observer->OnChoice(model, line);
    };
    context.progress = [observer = observer_, model](const std::string& line) {
      observer->OnLoading(model, line);
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
    BEAMLINE_RETURN_IF_ERROR(registry_.BeginLoad(model).status());
    absl::StatusOr<Registry::Pool> pool = WithinLimits([&] {
      return MakePool(model,
                      {.later_models = std::span(models).subspan(i + 1), .is_configured = true});
    });
    if (const auto fault = GetFieldFault(pool.status()); fault.has_value()) {
      return InField(fault->field, fmt::format("model '{}': ", Shorten(model.name)), pool.status());
    }
    BEAMLINE_RETURN_IF_ERROR(registry_.EndLoad(model, std::move(pool)).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<ModelInfo> Lifecycle::Load(const ModelOptions& options) {
  BEAMLINE_RETURN_IF_ERROR(CheckName(options.name));
  BEAMLINE_RETURN_IF_ERROR(CheckModelOptions(options));
  BEAMLINE_ASSIGN_OR_RETURN(std::optional<ModelInfo> there, registry_.BeginLoad(options));
  if (there.has_value()) return *std::move(there);
  return registry_.EndLoad(options, LoadPool(options));
}

absl::StatusOr<Registry::Pool> Lifecycle::LoadPool(const ModelOptions& options) {
  std::lock_guard lock(loading_);
  if (stop_loads_) return absl::UnavailableError("the server is draining");
  auto pool = WithinLimits([&] { return MakePool(options, {}); });
  // What was wrong with a setting is wrong with the request.
  if (!pool.ok() && !GetFieldFault(pool.status()).has_value()) return LoadError(pool.status());
  return pool;
}

bool Lifecycle::HasProcesses(const ModelOptions& options, const LoadWay& way) const {
  return way.is_configured && options_.processes.port != 0 && options.num_ranks() > 1;
}

absl::StatusOr<Registry::Pool> Lifecycle::MakePool(const ModelOptions& options,
                                                   const LoadWay& way) {
  std::vector<ReplicaPlacement> placements;
  if (HasProcesses(options, way)) {
    BEAMLINE_ASSIGN_OR_RETURN(placements.emplace_back(),
                              PlaceProcess(options, options_.num_threads));
  } else {
    BEAMLINE_ASSIGN_OR_RETURN(placements, PlaceReplicas(options, options_.num_threads));
  }
  const auto count = static_cast<int>(placements.size());
  // What those before hold and may still come to write, and the size of their caches, which is one.
  struct Loaded {
    bool all = false;
    int64_t promised_bytes = 0;
    int64_t cache_bytes = 0;
  };
  auto loaded = std::make_shared<Loaded>();
  const auto load = [this, options, placements = std::move(placements), way,
                     loaded](int number) -> absl::StatusOr<std::unique_ptr<LoadedModel>> {
    const ReplicaPlacement& placement = placements[static_cast<size_t>(number)];
    ModelOptions own = OptionsThere(options, placement);
    if (number > 0 || loaded->all) own.cache_bytes = loaded->cache_bytes;
    LoadWay its_way = way;
    its_way.is_again = loaded->all;
    its_way.is_alone = placements.size() == 1;
    its_way.promised_bytes = loaded->all ? 0 : loaded->promised_bytes;
    auto model = LoadReplica(own, placement.cpu, its_way);
    if (!model.ok()) return model;
    if (!loaded->all) loaded->promised_bytes += (*model)->PromisedHostBytes();
    loaded->cache_bytes = (*model)->memory.cache;
    return model;
  };
  auto pool = ReplicaPool::Create(
      {.num_replicas = count, .load = load, .observer = observer_, .seed = kRouterSeed});
  loaded->all = true;
  return pool;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> Lifecycle::LoadReplica(const ModelOptions& options,
                                                                    const CpuShare& cpu,
                                                                    const LoadWay& way) {
  std::unique_lock lock(loading_, std::defer_lock);
  if (way.is_again) lock.lock();  // the first time whoever loads the model has it
  LoadContext context = ContextOf(options.name);
  context.cpu = cpu;
  context.stop = &stop_loads_;
  if (!way.is_again) context.later_models = way.later_models;
  if (HasProcesses(options, way)) context.processes = &options_.processes;
  // Of a model that is alone on its device at the start, what fits is seen when it is there; but
  // for a cache of the host's memory, whose pages come when requests write them.
  const bool is_seen = way.is_configured && way.is_alone && !way.is_again;
  const bool has_set_cache = options.cache_bytes > 0;
  context.admit = [this, promised = way.promised_bytes, is_seen, has_set_cache](
                      const MemoryPlan& plan, const Backend& backend) {
    if (is_seen && (!has_set_cache || backend.FreeMemory().has_value())) return absl::OkStatus();
    return Admit(plan, backend, promised);
  };
  context.yields = !way.is_configured || way.is_again;
  if (!context.yields && cpu.cores.empty()) return LoadedModel::Load(options, context);
  // A thread of its own, since what gives way once, or stays on some cores, does so for good.
  return WithinLimits([&] {
    absl::StatusOr<std::unique_ptr<LoadedModel>> model = absl::UnknownError("not loaded");
    std::thread([&] {
      model = WithinLimits([&] { return LoadedModel::Load(options, context); });
    }).join();
    return model;
  });
}

absl::StatusOr<ModelInfo> Lifecycle::RestartReplica(const std::string& name, int32_t version,
                                                    int32_t replica, milliseconds grace) {
  BEAMLINE_ASSIGN_OR_RETURN(const Registry::Pool pool, registry_.FindPool(name, version));
  const auto deadline = steady_clock::now() + grace;
  const absl::Status status =
      pool->Restart(replica, deadline, [this] { return stop_waiting_ || stop_loads_; });
  if (!status.ok()) return LoadError(status);
  return registry_.Find(pool->facts().info.versioned_name);
}

absl::Status Lifecycle::Admit(const MemoryPlan& plan, const Backend& backend,
                              int64_t promised_bytes) const {
  if (const std::optional<size_t> free_bytes = backend.FreeMemory()) {
    return CheckFits(plan, static_cast<int64_t>(*free_bytes), backend.Name());
  }
  return CheckFits(plan, FreeHostBytes() - registry_.PromisedHostBytes() - promised_bytes,
                   "the host");
}

absl::StatusOr<ModelInfo> Lifecycle::Unload(const std::string& name, int32_t version,
                                            milliseconds grace) {
  BEAMLINE_ASSIGN_OR_RETURN(Registry::Leaving leaving, registry_.BeginUnload(name, version));
  if (leaving.pool == nullptr) return leaving.info;
  ReplicaPool& pool = *leaving.pool;
  WaitForRequests(pool, steady_clock::now() + grace);
  pool.Stop(absl::UnavailableError(
      fmt::format("model '{}' was unloaded before the answer was complete", Shorten(name))));
  // What is still being tokenized is answered by that.
  while (!pool.tickets().WaitForNone(kTicketLook)) {
  }
  registry_.Retire(leaving);
  // Whoever reads its statistics at this moment still holds it; nobody new can.
  while (leaving.pool.use_count() > 1) std::this_thread::sleep_for(milliseconds(1));
  leaving.pool.reset();
  registry_.EndUnload(leaving.info);
  return leaving.info;
}

void Lifecycle::WaitForRequests(ReplicaPool& pool, steady_clock::time_point deadline) const {
  while (!stop_waiting_) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (pool.tickets().WaitForNone(std::clamp(left, milliseconds(0), kTicketLook))) return;
    if (left <= milliseconds(0)) return;
  }
}

void Lifecycle::StopLoads() {
  stop_loads_ = true;
  registry_.Close();
}

}  // namespace beamline
