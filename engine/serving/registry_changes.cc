// How models come into the registry and leave it.

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/api/model_settings.h"
#include "engine/loading/model_precision.h"
#include "engine/loading/placement.h"
#include "engine/serving/registry.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

// Names whose counters are kept after their end.
constexpr size_t kMostRetired = 1024;

std::string Quoted(const ModelOptions& options) {
  return fmt::format("model '{}' version {}", Shorten(options.name), options.version);
}

// A configured folder may be called by another path.
bool SameFolder(const std::string& there, const std::string& asked) {
  std::error_code error;
  return there == asked || std::filesystem::equivalent(there, asked, error);
}

// The first setting in which they differ, as the error names it; empty: none.
std::string Difference(const ModelOptions& there, const ModelOptions& asked) {
  for (const ModelSetting& setting : kModelSettings) {
    if (setting.name == "folder" && SameFolder(there.folder, asked.folder)) continue;
    if (setting.name == "devices" && SplitList(there.devices) == SplitList(asked.devices)) continue;
    const bool same =
        std::visit([&](auto member) { return there.*member == asked.*member; }, setting.member);
    if (!same) return std::string(setting.name);
  }
  return "";
}

ModelInfo NewInfo(const ModelOptions& options, ModelState state) {
  ModelInfo info;
  info.name = options.name;
  info.version = options.version;
  info.versioned_name = fmt::format("{}{}{}", info.name, kVersionSeparator, info.version);
  info.folder = options.folder;
  info.dtype = ComputeTypeOf(options);
  info.state = state;
  return info;
}

}  // namespace

template <typename Change>
void Registry::Apply(const Change& change) {
  std::lock_guard telling(telling_);
  std::optional<ModelInfo> told;
  {
    std::lock_guard lock(mutex_);
    told = change();
  }
  changed_.notify_all();
  if (told.has_value() && on_change_) on_change_(*told);
}

void Registry::OnModelChange(Engine::ModelListener listener) {
  std::lock_guard telling(telling_);
  on_change_ = std::move(listener);
}

void Registry::Listen(ReplicaPool& pool) const {
  pool.Listen(on_replica_change_);
  pool.ListenForEnd(on_fault_);
}

void Registry::OnFault(Engine::FaultListener listener) {
  std::lock_guard telling(telling_);
  on_fault_ = std::move(listener);
  for (const Pool& pool : Pools()) Listen(*pool);
}

void Registry::OnReplicaChange(Engine::ReplicaListener listener) {
  std::lock_guard telling(telling_);
  on_replica_change_ = std::move(listener);
  for (const Pool& pool : Pools()) pool->Listen(on_replica_change_);
}

absl::StatusOr<Registry::Pool> Registry::FindPool(const std::string& name, int32_t version) const {
  std::lock_guard lock(mutex_);
  BEAMLINE_ASSIGN_OR_RETURN(const int32_t chosen, ChooseVersion(name, version));
  const Entry& entry = models_.find(name)->second.at(chosen);
  if (entry.info.state != ModelState::kReady) {
    return absl::FailedPreconditionError(fmt::format("{} is not ready", Quoted(entry.options)));
  }
  return entry.pool;
}

absl::StatusOr<std::optional<ModelInfo>> Registry::BeginLoad(const ModelOptions& options) {
  std::unique_lock lock(mutex_);
  for (bool waited = false;; waited = true) {
    if (closed_) return absl::UnavailableError("the server is draining");
    const Entry* entry = FindExact(options.name, options.version);
    if (entry == nullptr) break;
    const ModelState state = entry->info.state;
    if (state == ModelState::kFailed) {
      if (waited && entry->options == options) return entry->failure;
      break;
    }
    if (state == ModelState::kDraining) {
      return absl::FailedPreconditionError(
          fmt::format("{} is being unloaded; load it when it is gone", Quoted(options)));
    }
    if (const std::string other = Difference(entry->options, options); !other.empty()) {
      return absl::AlreadyExistsError(fmt::format(
          "{} is {} already, with another {}; unload it first, or load another version",
          Quoted(options), state == ModelState::kLoading ? "being loaded" : "there", other));
    }
    if (state == ModelState::kReady) return std::optional(InfoOf(*entry));
    changed_.wait(lock);
  }
  Entry& entry = models_[options.name][options.version];
  entry = {.options = options,
           .info = NewInfo(options, ModelState::kLoading),
           .failure = {},
           .pool = nullptr,
           .order = next_order_++};
  const ModelInfo info = entry.info;
  lock.unlock();
  // Nobody else changes what is being loaded, so that this is told before its end.
  std::lock_guard telling(telling_);
  if (on_change_) on_change_(info);
  return std::optional<ModelInfo>();
}

absl::StatusOr<ModelInfo> Registry::EndLoad(const ModelOptions& options,
                                            absl::StatusOr<Pool> loaded) {
  std::lock_guard telling(telling_);
  ModelInfo info;
  {
    std::lock_guard lock(mutex_);
    Entry& entry = *FindExact(options.name, options.version);
    if (loaded.ok()) {
      entry.pool = *loaded;
      entry.info = entry.pool->facts().info;
    } else {
      entry.info.state = ModelState::kFailed;
      entry.info.error = std::string(loaded.status().message());
      entry.failure = loaded.status();
    }
    info = InfoOf(entry);
    if (!loaded.ok()) ForgetOldFailures();
  }
  changed_.notify_all();
  if (loaded.ok()) Listen(**loaded);
  if (on_change_) on_change_(info);
  if (!loaded.ok()) return loaded.status();
  return info;
}

void Registry::ForgetOldFailures() {
  std::vector<std::pair<uint64_t, ModelOptions>> failed;
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, entry] : versions) {
      if (entry.info.state == ModelState::kFailed) failed.emplace_back(entry.order, entry.options);
    }
  }
  std::ranges::sort(failed, {}, [](const auto& one) { return one.first; });
  for (size_t i = 0; i + kMostFailed < failed.size(); ++i) {
    Erase(failed[i].second.name, failed[i].second.version);
  }
}

void Registry::Erase(const std::string& name, int32_t version) {
  const auto named = models_.find(name);
  named->second.erase(version);
  if (named->second.empty()) models_.erase(named);
}

absl::StatusOr<int32_t> Registry::ChooseVersion(const std::string& name, int32_t version) const {
  const auto named = models_.find(name);
  if (named == models_.end()) return NotFound(name);
  const Versions& versions = named->second;
  if (version == 0 && versions.size() == 1) return versions.begin()->first;
  std::vector<int32_t> numbers;
  for (const auto& [number, entry] : versions) numbers.push_back(number);
  if (version == 0) {
    return FieldError("version", "not given", fmt::format("{}", fmt::join(numbers, ", ")));
  }
  if (versions.contains(version)) return version;
  return absl::NotFoundError(fmt::format("model '{}' has no version {}; it has: {}", Shorten(name),
                                         version, fmt::join(numbers, ", ")));
}

absl::StatusOr<Registry::Leaving> Registry::BeginUnload(const std::string& name, int32_t version) {
  absl::StatusOr<Leaving> result = Leaving();
  bool is_leaving = false;
  Apply([&]() -> std::optional<ModelInfo> {
    const auto chosen = ChooseVersion(name, version);
    if (!chosen.ok()) {
      result = chosen.status();
      return std::nullopt;
    }
    version = *chosen;
    Entry& entry = *FindExact(name, version);
    result->info = InfoOf(entry);
    switch (entry.info.state) {
      case ModelState::kLoading:
        result = absl::FailedPreconditionError(
            fmt::format("{} is being loaded; unload it when it is ready", Quoted(entry.options)));
        return std::nullopt;
      case ModelState::kReady:
        entry.info.state = ModelState::kDraining;
        result->pool = entry.pool;
        return entry.info;
      case ModelState::kFailed: {
        ModelInfo info = entry.info;
        info.state = ModelState::kUnloaded;
        Erase(name, version);
        return info;
      }
      default:
        is_leaving = true;
        return std::nullopt;
    }
  });
  if (is_leaving) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      const Entry* entry = FindExact(name, version);
      return entry == nullptr || entry->info.state != ModelState::kDraining;
    });
  }
  return result;
}

void Registry::Retire(const Leaving& leaving) {
  std::lock_guard lock(mutex_);
  if (retired_.size() >= kMostRetired && !retired_.contains(leaving.info.name)) {
    retired_.erase(retired_.begin());
  }
  leaving.pool->AddCounters(retired_[leaving.info.name]);
  FindExact(leaving.info.name, leaving.info.version)->pool = nullptr;
}

void Registry::EndUnload(const ModelInfo& info) {
  Apply([&]() -> std::optional<ModelInfo> {
    Erase(info.name, info.version);
    ModelInfo told = info;
    told.state = ModelState::kUnloaded;
    return told;
  });
}

void Registry::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace beamline
