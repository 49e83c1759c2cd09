// Ports of clients that wait for long answers. Their connections are not closed to make room for
// others.
#pragma once

#include <charconv>
#include <map>
#include <mutex>
#include <string_view>

namespace beamline {

// Thread safe.
class BusyPorts {
 public:
  // Marks one call of a client with this port while it lives. `ports` outlives it.
  class Holder {
   public:
    Holder(BusyPorts& ports, int port) : ports_(ports), port_(port) { ports_.Add(port_, 1); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;
    ~Holder() { ports_.Add(port_, -1); }

   private:
    BusyPorts& ports_;
    const int port_;
  };

  // True if a client has a call from this port, whatever its address.
  bool Has(int port) const {
    std::lock_guard lock(mutex_);
    return num_calls_.contains(port);
  }

 private:
  void Add(int port, int num_calls) {
    std::lock_guard lock(mutex_);
    if ((num_calls_[port] += num_calls) == 0) num_calls_.erase(port);
  }

  mutable std::mutex mutex_;
  std::map<int, int> num_calls_;  // guarded by mutex_; by port
};

// The port in a peer's name as gRPC writes it: "ipv4:127.0.0.1:4242". 0: none.
inline int PortOf(std::string_view peer) {
  int port = 0;
  const size_t colon = peer.rfind(':');
  if (colon == std::string_view::npos) return 0;
  std::from_chars(peer.data() + colon + 1, peer.data() + peer.size(), port);
  return port;
}

}  // namespace beamline
