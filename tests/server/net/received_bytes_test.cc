#include "server/net/received_bytes.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "fmt/format.h"
#include "server/net/unique_fd.h"

namespace beamline::received_bytes_test {
namespace {

struct Pair {
  explicit Pair(bool is_v6 = false)
      : listener(socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage address{};
    address.ss_family = is_v6 ? AF_INET6 : AF_INET;  // any address of this machine
    socklen_t size = is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = reinterpret_cast<const sockaddr_in&>(address).sin_port;  // of both families
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    server = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    EXPECT_TRUE(server.valid());
  }
  std::string ClientName() const {
    sockaddr_in own{};
    socklen_t size = sizeof(own);
    EXPECT_EQ(getsockname(client.get(), reinterpret_cast<sockaddr*>(&own), &size), 0);
    return fmt::format("ipv4:127.0.0.1:{}", ntohs(own.sin_port));
  }
  void Send(size_t bytes) {
    const std::string text(bytes, 'a');
    EXPECT_EQ(send(client.get(), text.data(), bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  void Read(size_t bytes) {
    std::string text(bytes, '\0');
    EXPECT_EQ(recv(server.get(), text.data(), bytes, MSG_WAITALL), static_cast<ssize_t>(bytes));
  }

  UniqueFd listener, client, server;
};

TEST(ReceivedBytes, AreWhatHasBeenReadOfAConnection) {
  Pair pair;
  EXPECT_EQ(ReceivedBytes(pair.ClientName()), std::nullopt);
  NoteConnection(pair.server.get());
  EXPECT_EQ(PeerName(pair.server.get()), pair.ClientName());
  EXPECT_EQ(ReceivedBytes(pair.ClientName()), 0);
  pair.Send(3000);
  pair.Read(1000);
  EXPECT_EQ(ReceivedBytes(pair.ClientName()), 1000);
  pair.Read(2000);
  EXPECT_EQ(ReceivedBytes(pair.ClientName()), 3000);
}

TEST(ReceivedBytes, AnIpv4ClientOfAnIpv6SocketHasItsOwnName) {
  Pair pair(true);
  NoteConnection(pair.server.get());
  pair.Send(5);
  pair.Read(5);
  EXPECT_EQ(ReceivedBytes(pair.ClientName()), 5);
}

// A descriptor's number is another connection's once the first is closed.
TEST(ReceivedBytes, AreNotThoseOfAnotherConnection) {
  Pair pair;
  const std::string name = pair.ClientName();
  const int fd = pair.server.get();
  NoteConnection(fd);
  Pair other;
  pair.server.Reset();
  EXPECT_EQ(ReceivedBytes(name), std::nullopt);
  ASSERT_EQ(dup2(other.server.get(), fd), fd);
  UniqueFd same(fd);
  EXPECT_EQ(ReceivedBytes(name), std::nullopt);
  NoteConnection(fd);
  EXPECT_EQ(ReceivedBytes(name), std::nullopt);
  EXPECT_EQ(ReceivedBytes(other.ClientName()), 0);
}

}  // namespace
}  // namespace beamline::received_bytes_test
