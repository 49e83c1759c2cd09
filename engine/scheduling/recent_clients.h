// Counts the clients that had requests recently. Not thread safe; no clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "engine/api/request.h"

namespace beamline {

class RecentClients {
 public:
  // A client counts for this long after its last request.
  static constexpr std::chrono::seconds kLately{1};
  // Clients beyond this number are not counted, so that invented names cost nothing.
  static constexpr size_t kMost = 8;

  // `client` has a waiting request. `now` never goes back.
  void Add(const std::string& client, Clock::time_point now) {
    for (Client& known : clients_) {
      if (known.name != client) continue;
      known.last = now;
      return;
    }
    if (clients_.size() == kMost) Forget(now);
    if (clients_.size() < kMost) clients_.push_back({client, now});
  }
  // Number of recent clients, 0 .. kMost.
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
