// How the processes of a model find each other (kernels/rank_links.h): the front listens, the
// followers connect and show who they are. What is said there is of a fixed size and limited in
// time, since anybody may connect.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/rank_links.h"

namespace beamline {

// A connected socket, without waiting.
class RankSocket {
 public:
  RankSocket() = default;
  RankSocket(int socket, std::string address) : socket_(socket), address_(std::move(address)) {}
  RankSocket(RankSocket&& other) noexcept
      : socket_(other.Release()), address_(std::move(other.address_)) {}
  RankSocket& operator=(RankSocket&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(address_, other.address_);
    return *this;
  }
  ~RankSocket();

  bool is_open() const { return socket_ >= 0; }
  int socket() const { return socket_; }
  const std::string& address() const { return address_; }  // of the other end
  int Release() { return std::exchange(socket_, -1); }

 private:
  int socket_ = -1;
  std::string address_;
};

// "Connection refused".
std::string SystemError(int error);

// A socket that listens at the door's address, which it has as its own; port 0: a free one.
// INVALID_ARGUMENT naming an address that cannot be listened at.
absl::StatusOr<RankSocket> ListenAt(const RankDoor& door);
// Of a socket's own end: the port, and the host as RankDoor::host has it.
int PortOf(const RankSocket& socket);
std::string HostOf(int socket);

// Whether both ends are one: where nobody listens at a port of those that the system gives to
// connections, it may give that port to the connection that is made to it.
bool IsConnectedWithItself(const RankSocket& socket);

// As RankLinks::Gather, at a socket of ListenAt: the followers' sockets, from rank 1 on.
absl::StatusOr<std::vector<RankSocket>> AcceptRanks(const RankDoor& door, RankSocket listener);
// As RankLinks::Join.
absl::StatusOr<RankSocket> ConnectToFront(const RankDoor& door, int rank);

}  // namespace beamline
