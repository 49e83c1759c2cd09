// What waits for a model, by who asks for it, and whose turn it is: so that it can be told how much
// has its turn before a request that comes now. Not thread safe; no clock.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "base/shared_limit.h"
#include "engine/api/request.h"
#include "engine/scheduling/fair_queue.h"

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
  // A request waits from now on. Returns its tag (FairQueue).
  int64_t Add(const Waiter& waiter) {
    const int64_t tag = turns_.Enter(waiter.client, waiter.cost);
    Class& of = classes_[waiter.priority];
    of.cost += waiter.cost;
    ++of.requests;
    Account& account = of.clients[waiter.client];
    account.cost += waiter.cost;
    account.end = tag + waiter.cost;
    account.input_tokens += waiter.input_tokens;
    ++account.requests;
    input_tokens_ += waiter.input_tokens;
    ++requests_;
    ++arrivals_[waiter.arrival.time_since_epoch().count()];
    arriving_ = arriving_ * Kept(waiter.arrival) + static_cast<double>(waiter.cost);
    last_arrival_ = std::max(last_arrival_, waiter.arrival);
    return tag;
  }
  // It waits no more: it begins. Finish is owed. REQUIRES: it was added.
  void Begin(const Waiter& waiter) { TakeOut(waiter); }
  // A request begins, or a part of it, that has its turn at this tag.
  void BeginTurn(int64_t tag) { turns_.Begin(tag); }
  // One that has begun is over.
  void Finish(const Waiter& waiter) { turns_.Leave(waiter.client); }
  // It is over without having begun. REQUIRES: it was added, and got this tag.
  void Remove(const Waiter& waiter, int64_t tag) {
    TakeOut(waiter);
    turns_.Refund(waiter.client, tag, waiter.cost);
    turns_.Leave(waiter.client);
  }

  // Tokens that have their turn before a request.
  struct Before {
    int64_t waiting = 0;  // of those that wait now
    // Of those that may come and pass it: a client's second request waits until each other client
    // has had as much as its first one takes.
    int64_t to_come = 0;
  };
  // Before a new request of this priority and client: all of higher priority, its client's own, and
  // of others what has an earlier turn; of a request that began before it and ends behind it at
  // most `most_each`. What priorities gain by waiting is left out.
  Before Ahead(int32_t priority, const std::string& client,
               int64_t most_each = std::numeric_limits<int64_t>::max()) const {
    Before before;
    for (auto of = classes_.upper_bound(priority); of != classes_.end(); ++of) {
      before.waiting += of->second.cost;
    }
    const int64_t tag = turns_.NextTag(client);
    const auto found = classes_.find(priority);
    if (found == classes_.end() || found->second.requests == 0) return before;
    const Class& own = found->second;
    const int64_t usual = std::clamp<int64_t>(own.cost / own.requests, 1, most_each);
    before.to_come = turns_.RoomBefore(tag, usual, kMostExact);
    const auto account = own.clients.find(client);
    const int64_t of_own = account == own.clients.end() ? 0 : account->second.cost;
    before.waiting += of_own;
    // Clients may invent names, and everybody who comes asks: of many only a bound is told.
    if (own.clients.size() > kMostExact) {
      const int64_t each = tag - turns_.now() + usual;
      const int64_t of_others = own.cost - of_own;
      const auto others = static_cast<int64_t>(own.clients.size());
      before.waiting += of_others / others < each ? of_others : others * each;
      return before;
    }
    for (const auto& [name, other] : own.clients) {
      if (&other != (account == own.clients.end() ? nullptr : &account->second)) {
        before.waiting += other.Until(tag, most_each);
      }
    }
    return before;
  }
  // Tokens a second that came to wait lately.
  double arriving(Clock::time_point now) const {
    return arriving_ * Kept(now) / std::chrono::duration<double>(kMemory).count();
  }

  // Up to so many clients it is exact for requests of a client's that cost the same; beyond, it may
  // be more.
  static constexpr size_t kMostExact = 256;
  static constexpr std::chrono::seconds kMemory{1};  // of arriving

  // A limit of requests as the client finds it, `taken` of whose places are taken; and one of their
  // input tokens. A client that waits with several priorities counts as one for each.
  SharedLimit RequestsFor(const std::string& client, int64_t limit, int64_t taken) const {
    const Account own = Sum(client);
    return {limit, taken, own.requests, NumClientsWith(client)};
  }
  SharedLimit TokensFor(const std::string& client, int64_t limit) const {
    return {limit, input_tokens_, Sum(client).input_tokens, NumClientsWith(client)};
  }

  int64_t input_tokens() const { return input_tokens_; }
  bool empty() const { return requests_ == 0; }
  size_t num_clients() const { return turns_.num_accounts(); }  // on the books
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
    int64_t input_tokens = 0;
    int64_t end = 0;  // of the turn of its last one

    // Of its cost, what has its turn at `tag` or before it: whole requests, as if they cost the
    // same; of one that ends behind it at most `most_each`.
    int64_t Until(int64_t tag, int64_t most_each) const {
      const int64_t begin = end - cost;
      if (tag < begin) return 0;
      const int64_t each = std::max<int64_t>(1, cost / requests);
      const int64_t whole = (tag - begin) / each * each;
      return std::min(cost, whole + std::min(each, most_each));
    }
  };
  struct Class {
    int64_t cost = 0;
    int64_t requests = 0;
    absl::flat_hash_map<std::string, Account> clients;
  };

  // Requests and input tokens of the client in all classes.
  Account Sum(const std::string& client) const {
    Account sum;
    for (const auto& [priority, of] : classes_) {
      const auto account = of.clients.find(client);
      if (account == of.clients.end()) continue;
      sum.requests += account->second.requests;
      sum.input_tokens += account->second.input_tokens;
    }
    return sum;
  }
  int64_t NumClientsWith(const std::string& client) const {
    int64_t clients = 1;
    for (const auto& [priority, of] : classes_) {
      clients += static_cast<int64_t>(of.clients.size()) - (of.clients.contains(client) ? 1 : 0);
    }
    return clients;
  }

  void TakeOut(const Waiter& waiter) {
    const auto of = classes_.find(waiter.priority);
    of->second.cost -= waiter.cost;
    --of->second.requests;
    const auto account = of->second.clients.find(waiter.client);
    account->second.cost -= waiter.cost;
    account->second.input_tokens -= waiter.input_tokens;
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
  double Kept(Clock::time_point now) const {
    if (arriving_ == 0 || now <= last_arrival_) return 1;
    return std::exp(-std::chrono::duration<double>(now - last_arrival_) /
                    std::chrono::duration<double>(kMemory));
  }

  static constexpr size_t kMostKept = 128;

  FairQueue turns_;
  std::map<int32_t, Class> classes_;  // by priority
  double arriving_ = 0;               // tokens, each counted less the longer ago it came
  Clock::time_point last_arrival_ = Clock::time_point::min();
  int64_t input_tokens_ = 0;
  int64_t requests_ = 0;
  // How many came at each time. Whoever asks for the oldest asks seldom.
  absl::flat_hash_map<Clock::duration::rep, int64_t> arrivals_;
};

}  // namespace beamline
