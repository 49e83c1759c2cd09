// Fair sharing between clients: start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). A
// request's tag is where its client's account stood when it came; the smallest tag goes first. So a
// client with a thousand requests in the queue does not keep another one's first request waiting.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"

namespace beamline {

class FairQueue {
 public:
  // The tag of a new request of `client`, and its `cost` (tokens, >= 0) on the client's account.
  int64_t Enter(const std::string& client, int64_t cost) {
    const auto [it, is_new] = accounts_.try_emplace(client);
    Account& account = it->second;
    if (account.num_requests++ == 0 && !is_new) --num_idle_;
    ++num_requests_;
    if (account.finish < now_) account.finish = account.restart = now_;
    const int64_t tag = account.finish;
    account.finish += cost;
    return tag;
  }
  // The tag that Enter would give.
  int64_t NextTag(const std::string& client) const {
    const auto it = accounts_.find(client);
    return it == accounts_.end() ? now_ : std::max(it->second.finish, now_);
  }
  // A request of this tag begins. Clients without requests start from its tag.
  void Begin(int64_t tag) { now_ = std::max(now_, tag); }
  // A request of this tag ends without having begun: what it would have cost is not owed, so that
  // a client whose requests end waiting is not behind the others for them. Leave is owed as well.
  void Refund(const std::string& client, int64_t tag, int64_t cost) {
    Account& account = accounts_.find(client)->second;
    // What lies before a restart has gone by without it.
    if (tag >= account.restart) account.finish -= cost;
  }
  // A request of `client` is over, begun or not: owed once for each Enter. A client's account
  // outlives its requests while it stands ahead of others'; of such accounts few are kept, and none
  // once no request is left, so clients that invent names leave nothing behind.
  void Leave(const std::string& client) {
    if (--num_requests_ == 0) {
      accounts_.clear();
      num_idle_ = 0;
      return;
    }
    const auto it = accounts_.find(client);
    if (--it->second.num_requests > 0) return;
    if (it->second.finish <= now_) {
      accounts_.erase(it);
    } else if (++num_idle_ > kMostIdle) {
      ForgetIdle();
    }
  }

  size_t num_accounts() const { return accounts_.size(); }
  int64_t now() const { return now_; }
  // Calls `visit` with each client whose account has not come to `tag`, and with the tokens that it
  // may still ask for before that is its turn: whole requests of `each` (>= 1).
  template <typename Visit>
  void VisitRoomBefore(int64_t tag, int64_t each, const Visit& visit) const {
    BEAMLINE_CHECK(each >= 1);
    if (tag <= now_) return;
    for (const auto& [client, account] : accounts_) {
      if (account.finish >= tag) continue;
      visit(client, ((tag - 1 - std::max(account.finish, now_)) / each + 1) * each);
    }
  }

  // How many accounts of clients without a request are kept at most.
  static constexpr size_t kMostIdle = 1024;

 private:
  struct Account {
    int64_t finish = 0;   // the tag that the client's next request gets, unless time has passed it
    int64_t restart = 0;  // where the account stood when time had last passed it
    int64_t num_requests = 0;
  };

  // Forgets half of the idle accounts: those that are the least ahead of others.
  void ForgetIdle() {
    std::vector<int64_t> finishes;
    finishes.reserve(num_idle_);
    for (const auto& [client, account] : accounts_) {
      if (account.num_requests == 0) finishes.push_back(account.finish);
    }
    const auto middle = finishes.begin() + static_cast<std::ptrdiff_t>(finishes.size() / 2);
    std::nth_element(finishes.begin(), middle, finishes.end());
    absl::erase_if(accounts_, [limit = *middle](const auto& entry) {
      return entry.second.num_requests == 0 && entry.second.finish <= limit;
    });
    num_idle_ = static_cast<size_t>(
        std::count_if(accounts_.begin(), accounts_.end(),
                      [](const auto& entry) { return entry.second.num_requests == 0; }));
  }

  int64_t now_ = 0;  // virtual time
  absl::flat_hash_map<std::string, Account> accounts_;
  int64_t num_requests_ = 0;
  size_t num_idle_ = 0;  // accounts without a request
};

}  // namespace beamline
