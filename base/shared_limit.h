// A limit shared by several clients. The last sixteenth is reserved for clients with little usage,
// so that a client that takes all it can get does not block others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace beamline {

// All numbers have the same unit: requests, connections, bytes or tokens.
struct SharedLimit {
  int64_t limit = 0;
  int64_t taken = 0;        // by all clients
  int64_t own = 0;          // of these, by the asking client
  int64_t num_clients = 1;  // clients with any usage, including the asking one

  static constexpr int64_t Reserve(int64_t limit) { return limit / 16; }

  // Whether the client may have `more` from the reserve: it then has at most half of an even share.
  constexpr bool HasFew(int64_t more = 1) const {
    return own + more <= std::max<int64_t>(1, limit / (2 * num_clients));
  }
  // Whether the client may have `more` now.
  constexpr bool HasRoom(int64_t more = 1) const {
    if (taken > limit - more) return false;
    return taken + more <= limit - Reserve(limit) || HasFew(more);
  }
};

// Usage per client. Not thread-safe.
class ClientCounts {
 public:
  int64_t total() const { return total_; }
  int64_t of(const std::string& client) const {
    const auto found = clients_.find(client);
    return found == clients_.end() ? 0 : found->second;
  }
  // The limit as it applies to the client now.
  SharedLimit LimitFor(const std::string& client, int64_t limit) const {
    const auto found = clients_.find(client);
    const auto num_clients = static_cast<int64_t>(clients_.size());
    if (found == clients_.end()) return {limit, total_, 0, num_clients + 1};
    return {limit, total_, found->second, num_clients};
  }
  void Take(const std::string& client, int64_t count) {
    if (count == 0) return;
    clients_[client] += count;
    total_ += count;
  }
  // REQUIRES: the client has taken at least `count`.
  void Give(const std::string& client, int64_t count) {
    if (count == 0) return;
    const auto found = clients_.find(client);
    found->second -= count;
    if (found->second == 0) clients_.erase(found);
    total_ -= count;
  }

 private:
  int64_t total_ = 0;
  absl::flat_hash_map<std::string, int64_t> clients_;  // clients with any usage
};

}  // namespace beamline
