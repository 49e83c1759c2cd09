// Fair queueing between clients: start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). The
// tag of a request is its client's account balance at arrival; the smallest tag goes first. So a
// client with a thousand queued requests does not delay the first request of another client.
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
  // Returns the tag of a new request and adds its `cost` (tokens, >= 0) to the client's account.
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
  // The tag that Enter would return.
  int64_t NextTag(const std::string& client) const {
    const auto it = accounts_.find(client);
    return it == accounts_.end() ? now_ : std::max(it->second.finish, now_);
  }
  // A request with this tag starts. Clients without requests will start from this tag.
  void Begin(int64_t tag) { now_ = std::max(now_, tag); }
  // A request with this tag ends before it started: its cost is refunded, so that it does not push
  // the client behind others. The caller must call Leave as well.
  void Refund(const std::string& client, int64_t tag, int64_t cost) {
    Account& account = accounts_.find(client)->second;
    // Tags before a restart were passed by the virtual time and are not in the account any more.
    if (tag >= account.restart) account.finish -= cost;
  }
  // A request of `client` has ended, started or not. Must be called once per Enter. A client's
  // account is kept after its requests end, while it is ahead of the virtual time. At most
  // kMostIdle such accounts are kept, and none when no request is left, so invented client names
  // leave nothing behind.
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
  // Calls `visit` with each client whose account is below `tag`. The second argument is the number
  // of tokens that the client may still request before it reaches the tag, in whole requests of
  // `each` tokens (>= 1).
  template <typename Visit>
  void VisitRoomBefore(int64_t tag, int64_t each, const Visit& visit) const {
    BEAMLINE_CHECK(each >= 1);
    if (tag <= now_) return;
    for (const auto& [client, account] : accounts_) {
      if (account.finish >= tag) continue;
      visit(client, ((tag - 1 - std::max(account.finish, now_)) / each + 1) * each);
    }
  }

  // Maximum number of kept accounts without requests.
  static constexpr size_t kMostIdle = 1024;

 private:
  struct Account {
    int64_t finish = 0;   // tag of the client's next request, unless virtual time has passed it
    int64_t restart = 0;  // the balance when virtual time last passed it
    int64_t num_requests = 0;
  };

  // Removes half of the idle accounts: those with the lowest balance.
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
