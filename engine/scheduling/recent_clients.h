// Who has asked lately: how many clients share a model. Not thread safe; no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "engine/api/request.h"

namespace beamline {

class RecentClients {
 public:
  // So long after its last request a client counts.
  static constexpr std::chrono::seconds kLately{1};
  // More are not told apart, whatever names they invent.
  static constexpr size_t kMost = 8;

  // The client has a request that waits. `now` never goes back.
  void Add(const std::string& client, Clock::time_point now) {
    for (Client& known : clients_) {
      if (known.name != client) continue;
      known.last = now;
      return;
    }
    if (clients_.size() == kMost) Forget(now);
    if (clients_.size() < kMost) clients_.push_back({client, now});
  }
  // 0 .. kMost.
  size_t Count(Clock::time_point now) {
    Forget(now);
    return clients_.size();
  }

 private:
  struct Client {
    std::string name;
    Clock::time_point last;
  };
  void Forget(Clock::time_point now) {
    std::erase_if(clients_, [now](const Client& client) { return now - client.last >= kLately; });
  }

  std::vector<Client> clients_;
};

}  // namespace beamline
