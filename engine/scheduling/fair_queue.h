// Fair sharing between clients: start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). A
// request's tag is where its client's account stood when it came; the smallest tag goes first. So a
// client with a thousand requests in the queue does not keep another one's first request waiting.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace beamline {

class FairQueue {
 public:
  // The tag of a new request of `client`, and its `cost` (tokens, >= 0) on the client's account.
  int64_t Enter(const std::string& client, int64_t cost) {
    if (accounts_.size() >= next_sweep_) Sweep();
    int64_t& account = accounts_[client];
    const int64_t tag = std::max(account, now_);
    account = tag + cost;
    return tag;
  }
  // A request of this tag begins. Whoever was idle until now starts from here.
  void Begin(int64_t tag) { now_ = std::max(now_, tag); }

 private:
  // Forgets the accounts that say nothing any more.
  void Sweep() {
    absl::erase_if(accounts_, [this](const auto& entry) { return entry.second <= now_; });
    next_sweep_ = std::max<size_t>(kFirstSweep, 2 * accounts_.size());
  }

  static constexpr size_t kFirstSweep = 1024;

  int64_t now_ = 0;  // virtual time
  absl::flat_hash_map<std::string, int64_t> accounts_;
  size_t next_sweep_ = kFirstSweep;
};

}  // namespace beamline
