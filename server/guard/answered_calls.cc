#include "server/guard/answered_calls.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>

#include "absl/container/flat_hash_map.h"

namespace beamline {
namespace {

constexpr size_t kLeastSweep = 1024;

struct Noted {
  std::mutex mutex;
  // Guarded by mutex:
  absl::flat_hash_map<std::string, std::weak_ptr<ConnectionFlood>> by_peer;
  size_t next_sweep = kLeastSweep;  // the number of entries at which those that are over go
};

Noted& TheNoted() {
  static auto* const noted = new Noted;  // until the last thread has ended
  return *noted;
}

}  // namespace

void NoteFlood(const std::string& peer, const std::shared_ptr<ConnectionFlood>& flood) {
  if (peer.empty()) return;
  Noted& noted = TheNoted();
  std::lock_guard lock(noted.mutex);
  if (noted.by_peer.size() >= noted.next_sweep) {
    absl::erase_if(noted.by_peer, [](const auto& entry) { return entry.second.expired(); });
    noted.next_sweep = std::max(kLeastSweep, 2 * noted.by_peer.size());
  }
  noted.by_peer[peer] = flood;
}

void CountAnswered(const std::string& peer) {
  std::shared_ptr<ConnectionFlood> flood;
  {
    Noted& noted = TheNoted();
    std::lock_guard lock(noted.mutex);
    const auto found = noted.by_peer.find(peer);
    if (found == noted.by_peer.end()) return;
    flood = found->second.lock();
  }
  if (flood != nullptr) flood->AddAnswer(std::chrono::steady_clock::now());
}

}  // namespace beamline
