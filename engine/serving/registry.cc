#include "engine/serving/registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "base/text.h"
#include "engine/serving/model_stats.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

absl::Status NotReady(std::string_view model, ModelState state) {
  absl::Status status =
      absl::UnavailableError(fmt::format("model '{}' is being {}", Shorten(model),
                                         state == ModelState::kLoading ? "loaded" : "unloaded"));
  status.SetPayload(kModelNotReadyPayload, absl::Cord());
  return status;
}

}  // namespace

const Registry::Entry* Registry::FindEntry(std::string_view model) const {
  if (const auto named = models_.find(model); named != models_.end()) {
    const Versions& versions = named->second;
    for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
      if (version->second.info.state == ModelState::kReady) return &version->second;
    }
    return &versions.rbegin()->second;
  }
  const auto named = models_.find(model.substr(0, model.rfind(kVersionSeparator)));
  if (named == models_.end()) return nullptr;
  for (const auto& [number, entry] : named->second) {
    if (entry.info.versioned_name == model) return &entry;
  }
  return nullptr;
}

Registry::Entry* Registry::FindExact(const std::string& name, int32_t version) {
  const auto named = models_.find(name);
  if (named == models_.end()) return nullptr;
  const auto found = named->second.find(version);
  return found == named->second.end() ? nullptr : &found->second;
}

absl::StatusOr<const Registry::Entry*> Registry::FindReady(std::string_view model) const {
  const Entry* entry = FindEntry(model);
  if (entry == nullptr || entry->info.state == ModelState::kFailed) return NotFound(model);
  if (entry->info.state != ModelState::kReady) return NotReady(model, entry->info.state);
  return entry;
}

absl::Status Registry::NotFound(std::string_view model) const {
  std::map<uint64_t, std::string> names;  // of those that are ready, in their order
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, entry] : versions) {
      if (entry.info.state != ModelState::kReady) continue;
      names[entry.order] = name;
      break;
    }
  }
  std::vector<std::string> in_order;
  for (auto& [order, name] : names) in_order.push_back(std::move(name));
  return absl::NotFoundError(
      fmt::format("model is '{}'; this server has: {}", Shorten(model),
                  in_order.empty() ? "none" : fmt::format("{}", fmt::join(in_order, ", "))));
}

absl::StatusOr<Place> Registry::Enter(std::string_view model) const {
  std::lock_guard lock(mutex_);
  const auto entry = FindReady(model);
  if (!entry.ok()) return entry.status();
  Place place;
  place.pool = (*entry)->pool;
  place.ticket = Ticket(place.pool->tickets());
  return place;
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Registry::FindTokenizer(
    std::string_view model) const {
  std::lock_guard lock(mutex_);
  const Entry* entry = FindEntry(model);
  if (entry != nullptr && entry->pool != nullptr) return entry->pool->facts().tokenizer;
  return FindReady(model).status();
}

absl::StatusOr<ModelInfo> Registry::Find(std::string_view model) const {
  std::lock_guard lock(mutex_);
  const Entry* entry = FindEntry(model);
  if (entry == nullptr) return NotFound(model);
  return InfoOf(*entry);
}

ModelInfo Registry::InfoOf(const Entry& entry) {
  ModelInfo info = entry.info;
  if (entry.pool != nullptr) info.replicas = entry.pool->Replicas();
  return info;
}

std::vector<ModelInfo> Registry::Models() const {
  std::lock_guard lock(mutex_);
  std::vector<const Entry*> entries;
  for (const auto& [name, versions] : models_) {
    for (const auto& [version, entry] : versions) entries.push_back(&entry);
  }
  std::ranges::sort(entries, {}, &Entry::order);
  std::vector<ModelInfo> models;
  models.reserve(entries.size());
  for (const Entry* entry : entries) models.push_back(InfoOf(*entry));
  return models;
}

absl::StatusOr<ModelStats> Registry::Stats(std::string_view model) const {
  std::vector<Pool> versions;
  ModelStats stats;
  {
    std::lock_guard lock(mutex_);
    if (const auto named = models_.find(model); named != models_.end()) {
      for (const auto& [number, entry] : named->second) versions.push_back(entry.pool);
      if (const auto retired = retired_.find(model); retired != retired_.end()) {
        stats = retired->second;
      }
    } else if (const Entry* entry = FindEntry(model); entry != nullptr) {
      versions.push_back(entry->pool);
    } else {
      return NotFound(model);
    }
  }
  for (const Pool& pool : versions) {
    if (pool == nullptr) continue;
    pool->AddCounters(stats);
    pool->AddState(stats);
  }
  return stats;
}

std::vector<ReplicaSnapshot> Registry::Snapshot(std::chrono::milliseconds patience) const {
  std::vector<ReplicaSnapshot> snapshots;
  for (const Pool& pool : Pools()) pool->AddSnapshots(patience, snapshots);
  return snapshots;
}

void Registry::ReturnIdleMemory() const {
  for (const Pool& pool : Pools()) pool->ReturnIdleMemory();
}

std::vector<Registry::Pool> Registry::Pools() const {
  std::lock_guard lock(mutex_);
  std::vector<Pool> pools;
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, entry] : versions) {
      if (entry.pool != nullptr) pools.push_back(entry.pool);
    }
  }
  return pools;
}

int64_t Registry::PromisedHostBytes() const {
  int64_t promised = 0;
  for (const Pool& pool : Pools()) promised += pool->PromisedHostBytes();
  return promised;
}

void Registry::StopAll() {
  for (const Pool& pool : Pools()) pool->Stop(absl::CancelledError("the server is shutting down"));
}

bool Registry::WaitForAll(std::chrono::steady_clock::time_point deadline) const {
  return std::ranges::all_of(Pools(), [deadline](const Pool& pool) {
    const auto left = deadline - std::chrono::steady_clock::now();
    return pool->tickets().WaitForNone(
        std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds(0)));
  });
}

}  // namespace beamline
