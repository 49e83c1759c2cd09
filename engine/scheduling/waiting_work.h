// What waits for a model, by who asks for it: so that it can be told how much has its turn before a
// request that comes now. Not thread safe; no clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "engine/api/request.h"

namespace beamline {

// A request that waits.
struct Waiter {
  int32_t priority = 0;
  std::string client;
  int64_t cost = 0;          // tokens that it may come to compute
  int64_t input_tokens = 0;  // of them, those that it brings
  Clock::time_point arrival;
};

class WaitingWork {
 public:
  void Add(const Waiter& waiter) {
    Class& of = classes_[waiter.priority];
    of.cost += waiter.cost;
    Account& account = of.clients[waiter.client];
    account.cost += waiter.cost;
    ++account.requests;
    input_tokens_ += waiter.input_tokens;
    ++requests_;
    ++arrivals_[waiter.arrival.time_since_epoch().count()];
  }
  // REQUIRES: it was added.
  void Remove(const Waiter& waiter) {
    const auto of = classes_.find(waiter.priority);
    of->second.cost -= waiter.cost;
    const auto account = of->second.clients.find(waiter.client);
    account->second.cost -= waiter.cost;
    if (--account->second.requests == 0) of->second.clients.erase(account);
    // One is kept for its memory, as long as that is little.
    if (of->second.clients.empty() &&
        (classes_.size() > 1 || of->second.clients.capacity() > kMostKept)) {
      classes_.erase(of);
    }
    input_tokens_ -= waiter.input_tokens;
    --requests_;
    const auto arrival = arrivals_.find(waiter.arrival.time_since_epoch().count());
    if (--arrival->second == 0) arrivals_.erase(arrival);
    if (arrivals_.empty() && arrivals_.capacity() > kMostKept) arrivals_ = {};
  }

  // The cost of what has its turn before a new request of this priority, client and cost: all of
  // higher priority and, as clients of one priority take turns, of each other client as much as
  // this one has in all. What priorities gain by waiting is left out.
  int64_t Ahead(int32_t priority, const std::string& client, int64_t cost) const {
    int64_t ahead = 0;
    for (auto of = classes_.upper_bound(priority); of != classes_.end(); ++of) {
      ahead += of->second.cost;
    }
    const auto own = classes_.find(priority);
    if (own == classes_.end()) return ahead;
    const auto& clients = own->second.clients;
    const auto account = clients.find(client);
    const int64_t before = account == clients.end() ? 0 : account->second.cost;
    // Clients may invent names, and everybody who comes asks: of many only a bound is told.
    if (clients.size() > kMostExact) {
      const auto others = static_cast<int64_t>(clients.size()) - (account == clients.end() ? 0 : 1);
      const int64_t of_others = own->second.cost - before;
      const bool all = (of_others / others) < before + cost;
      return ahead + before + (all ? of_others : others * (before + cost));
    }
    for (const auto& [name, other] : clients) {
      ahead += name == client ? before : std::min(other.cost, before + cost);
    }
    return ahead;
  }

  // Up to so many clients of a priority it is exact, beyond it may be more.
  static constexpr size_t kMostExact = 64;

  // Whether a client may have one more where places are scarce: it has less than half of an even
  // share of `limit`.
  bool IsSmall(const std::string& client, int64_t limit) const {
    int64_t own = 0, clients = 1;
    for (const auto& [priority, of] : classes_) {
      const auto account = of.clients.find(client);
      if (account != of.clients.end()) own += account->second.requests;
      clients += static_cast<int64_t>(of.clients.size()) - (account != of.clients.end() ? 1 : 0);
    }
    return own < std::max<int64_t>(1, limit / (2 * clients));
  }

  int64_t input_tokens() const { return input_tokens_; }
  bool empty() const { return requests_ == 0; }
  // Looks at all of them.
  std::optional<Clock::time_point> oldest() const {
    std::optional<Clock::duration::rep> least;
    for (const auto& [arrival, count] : arrivals_)
      least = std::min(least.value_or(arrival), arrival);
    if (!least.has_value()) return std::nullopt;
    return Clock::time_point(Clock::duration(*least));
  }

 private:
  struct Account {
    int64_t cost = 0;
    int64_t requests = 0;
  };
  struct Class {
    int64_t cost = 0;
    absl::flat_hash_map<std::string, Account> clients;
  };

  static constexpr size_t kMostKept = 128;

  std::map<int32_t, Class> classes_;  // by priority
  int64_t input_tokens_ = 0;
  int64_t requests_ = 0;
  // How many came at each time. Whoever asks for the oldest asks seldom.
  absl::flat_hash_map<Clock::duration::rep, int64_t> arrivals_;
};

}  // namespace beamline
