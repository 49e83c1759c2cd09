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
    account.input_tokens += waiter.input_tokens;
    ++account.requests;
    Client& client = clients_[waiter.client];
    client.cost += waiter.cost;
    client.end = tag + waiter.cost;
    ++client.requests;
    client.arriving.Add(waiter.arrival, waiter.cost);
    input_tokens_ += waiter.input_tokens;
    ++requests_;
    ++arrivals_[waiter.arrival.time_since_epoch().count()];
    arriving_.Add(waiter.arrival, waiter.cost);
    if (arriving_of_.size() == kMostClasses && !arriving_of_.contains(waiter.priority)) {
      std::erase_if(arriving_of_,
                    [&](const auto& known) { return known.second.PerSecond(waiter.arrival) < 1; });
    }
    if (arriving_of_.size() < kMostClasses || arriving_of_.contains(waiter.priority)) {
      arriving_of_[waiter.priority].Add(waiter.arrival, waiter.cost);
    }
    return tag;
  }
  // It waits no more: it begins. Finish is owed. REQUIRES: it was added.
  void Begin(const Waiter& waiter) {
    TakeOut(waiter);
    ++clients_.find(waiter.client)->second.begun;
  }
  // A request begins, or a part of it, that has its turn at this tag.
  void BeginTurn(int64_t tag) { turns_.Begin(tag); }
  // One that has begun is over.
  void Finish(const Waiter& waiter) {
    turns_.Leave(waiter.client);
    const auto client = clients_.find(waiter.client);
    --client->second.begun;
    Forget(client);
  }
  // It is over without having begun. REQUIRES: it was added, and got this tag.
  void Remove(const Waiter& waiter, int64_t tag) {
    TakeOut(waiter);
    turns_.Refund(waiter.client, tag, waiter.cost);
    turns_.Leave(waiter.client);
    Forget(clients_.find(waiter.client));
  }

  // Tokens that have their turn before a request.
  struct Before {
    int64_t waiting = 0;  // of those that wait now
    // Of those that come meanwhile and pass it, as far as they come as they did lately: a client's
    // second request waits until each other client has had as much as its first one takes.
    int64_t to_come = 0;
  };
  // A request that comes now.
  struct Newcomer {
    int32_t priority = 0;
    std::string client;
    // Of a request that began to wait before it and ends after it, what counts at most.
    int64_t most_each = std::numeric_limits<int64_t>::max();
    // What is served in a second, as far as it is known, and so how far priorities last: nullopt,
    // for ever (WaitingOrder).
    std::optional<double> cost_per_second;
    // Rows that run at once. Where fewer clients have something here, one of which nothing runs
    // begins at once (Scheduler::SetWidth).
    int64_t width = 0;
    Clock::time_point now;
  };
  // Its client's own, of others what has an earlier turn, and what higher priorities do before it
  // has waited as long as they count for.
  Before Ahead(const Newcomer& newcomer) const;
  // Tokens a second that came to wait lately.
  double arriving(Clock::time_point now) const { return arriving_.PerSecond(now); }

  // Up to so many clients it is exact for requests of a client's that cost the same; beyond, it may
  // be more.
  static constexpr size_t kMostExact = 256;
  static constexpr size_t kMostClasses = 64;     // priorities that are looked at
  static constexpr size_t kMostLookedAt = 2048;  // clients, once for each of their priorities

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
  // What came lately, counted less the longer ago it came.
  class Arriving {
   public:
    void Add(Clock::time_point at, int64_t cost) {
      sum_ = sum_ * Kept(at) + static_cast<double>(cost);
      last_ = std::max(last_, at);
    }
    double PerSecond(Clock::time_point now) const {
      return sum_ * Kept(now) / std::chrono::duration<double>(kMemory).count();
    }

   private:
    static constexpr std::chrono::seconds kMemory{1};
    double Kept(Clock::time_point now) const {
      if (sum_ == 0 || now <= last_) return 1;
      return std::exp(-std::chrono::duration<double>(now - last_) /
                      std::chrono::duration<double>(kMemory));
    }

    double sum_ = 0;
    Clock::time_point last_ = Clock::time_point::min();
  };
  // What waits of a client with one priority.
  struct Account {
    int64_t cost = 0;
    int64_t requests = 0;
    int64_t input_tokens = 0;
  };
  // What waits of a client, and what runs.
  struct Client {
    int64_t cost = 0;
    int64_t requests = 0;
    int64_t end = 0;  // of the turn of its last one
    int64_t begun = 0;
    Arriving arriving;
  };
  using Clients = absl::flat_hash_map<std::string, Client>;
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

  int64_t waiting_cost() const {
    int64_t cost = 0;
    for (const auto& [priority, of] : classes_) cost += of.cost;
    return cost;
  }
  void TakeOut(const Waiter& waiter) {
    const auto of = classes_.find(waiter.priority);
    of->second.cost -= waiter.cost;
    --of->second.requests;
    const auto account = of->second.clients.find(waiter.client);
    account->second.cost -= waiter.cost;
    account->second.input_tokens -= waiter.input_tokens;
    Client& client = clients_.find(waiter.client)->second;
    client.cost -= waiter.cost;
    --client.requests;
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
  void Forget(Clients::iterator client) {
    if (client->second.requests == 0 && client->second.begun == 0) clients_.erase(client);
    if (clients_.empty() && clients_.capacity() > kMostKept) clients_ = {};
  }
  // Of what waits of the client in a class, what has its turn at `tag` or before it: whole
  // requests, as if they cost the same; of one that ends after it at most `most_each`.
  int64_t Until(const std::string& client, const Account& of_class, int64_t tag,
                int64_t most_each) const;
  // Of what waits and comes with higher priorities, what goes before the newcomer though its turn
  // is later: `waiting` of the `higher` that is there, while `earlier` goes before it anyway.
  // REQUIRES: cost_per_second.
  int64_t Passing(int64_t waiting, int64_t higher, int64_t earlier, const Newcomer& newcomer,
                  int32_t highest) const;
  // Of what other clients may ask for before this tag, what comes while it waits for that and for
  // `ahead`.
  int64_t ToCome(const Newcomer& newcomer, int64_t tag, int64_t ahead) const;
  // Of a class, the newcomer's own, and of others what has an earlier turn.
  // exact: of each client; else a bound.
  int64_t EarlierOf(const Class& of, const Newcomer& newcomer, int64_t tag, bool exact) const;

  static constexpr size_t kMostKept = 128;
  static constexpr int kMostSteps = 16;  // of ToCome

  FairQueue turns_;
  std::map<int32_t, Class> classes_;  // by priority
  Clients clients_;                   // that have something here, or have begun something
  Arriving arriving_;
  std::map<int32_t, Arriving> arriving_of_;  // priorities, of no more than kMostClasses
  int64_t input_tokens_ = 0;
  int64_t requests_ = 0;
  // How many came at each time. Whoever asks for the oldest asks seldom.
  absl::flat_hash_map<Clock::duration::rep, int64_t> arrivals_;
};

}  // namespace beamline
