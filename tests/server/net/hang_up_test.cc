#include "server/net/hang_up.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <vector>

#include "server/net/unique_fd.h"

namespace beamline::hang_up_test {
namespace {

// A listener on loopback with one connection to it.
struct Pair {
  Pair() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener.get(), generic, size), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), generic, &size), 0);
    EXPECT_EQ(connect(client.get(), generic, size), 0);
    server = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    EXPECT_TRUE(server.valid());
    port = ntohs(address.sin_port);
  }
  // What the server's side reads: 0 at the end, -1 while nothing has come.
  ssize_t Read() {
    char byte = 0;
    return recv(server.get(), &byte, 1, 0);
  }

  UniqueFd listener{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  UniqueFd client{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  UniqueFd server;
  int port = 0;
};

TEST(HangUp, EndsTheConnectionsToAPortAndNoOthers) {
  Pair ended, other;
  EXPECT_EQ(HangUp(ended.port, SHUT_RD), 1);
  EXPECT_EQ(ended.Read(), 0);
  EXPECT_EQ(other.Read(), -1);
  // What is written still arrives.
  char byte = 'x';
  EXPECT_EQ(send(ended.server.get(), &byte, 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(recv(ended.client.get(), &byte, 1, 0), 1);
  ended.server.Reset();
  EXPECT_EQ(HangUp(ended.port, SHUT_RD), 0);
}

TEST(HangUp, KnowsOfBytesThatTheClientHasNotGot) {
  Pair pair, other;
  const std::vector<char> bytes(1 << 16);
  size_t sent = 0;
  for (ssize_t size = 0; size >= 0;) {
    sent += static_cast<size_t>(size);
    size = send(pair.server.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  EXPECT_TRUE(HasUnsent(pair.port));
  EXPECT_FALSE(HasUnsent(other.port));
  std::vector<char> read(1 << 16);
  for (size_t got = 0; got < sent;) {
    const ssize_t size = recv(pair.client.get(), read.data(), read.size(), 0);
    ASSERT_GT(size, 0);
    got += static_cast<size_t>(size);
  }
  // The client's machine may take a moment to say that it has them.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (HasUnsent(pair.port) && std::chrono::steady_clock::now() < until) {
  }
  EXPECT_FALSE(HasUnsent(pair.port));
}

// Bytes that have come before are the owner's to read.
TEST(HangUp, LeavesWhatHasCome) {
  Pair pair;
  const char byte = 'x';
  ASSERT_EQ(send(pair.client.get(), &byte, 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(HangUp(pair.port, SHUT_RD), 1);
  EXPECT_EQ(pair.Read(), 1);
  EXPECT_EQ(pair.Read(), 0);
}

}  // namespace
}  // namespace beamline::hang_up_test
