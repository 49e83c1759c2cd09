#include "server/net/listen_socket.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "server/net/peer_address.h"

namespace beamline::listen_socket_test {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kTimeout{20000};

bool HasIpv6() {
  const UniqueFd fd(socket(AF_INET6, SOCK_STREAM, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  return bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

bool Connects(const char* host, int port) {
  sockaddr_storage address{};
  socklen_t size = sizeof(sockaddr_in);
  const auto number = htons(static_cast<uint16_t>(port));
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
      inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = number;
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    inet_pton(AF_INET6, host, &v6->sin6_addr);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = number;
    size = sizeof(sockaddr_in6);
  }
  const UniqueFd fd(socket(address.ss_family, SOCK_STREAM, 0));
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

TEST(ListenSocket, ChoosesAPortThatNobodyElseGets) {
  const auto first = OpenListenSockets("127.0.0.1", 0, kTimeout);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT(first->port, 0);
  EXPECT_TRUE(Connects("127.0.0.1", first->port));
  for (const char* host : {"127.0.0.1", "0.0.0.0", "localhost"}) {
    const auto second = OpenListenSockets(host, first->port, kTimeout);
    ASSERT_FALSE(second.ok()) << host;
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(second.status().message(), "cannot listen on " + std::string(host) + ":" +
                                             std::to_string(first->port) +
                                             ": the address is in use");
  }
}

TEST(ListenSocket, AllAddressesAreThoseOfBothFamilies) {
  for (const char* host : {"0.0.0.0", "[::]"}) {
    const auto sockets = OpenListenSockets(host, 0, kTimeout);
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    EXPECT_TRUE(Connects("127.0.0.1", sockets->port)) << host;
    EXPECT_EQ(Connects("::1", sockets->port), HasIpv6()) << host;
  }
}

TEST(ListenSocket, TellsWhetherOthersReachIt) {
  for (const auto& [host, reached] :
       {std::pair("127.0.0.1", false), std::pair("127.8.0.9", false), std::pair("localhost", false),
        std::pair("0.0.0.0", true), std::pair("[::]", true)}) {
    const auto sockets = OpenListenSockets(host, 0, kTimeout);
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    EXPECT_EQ(OthersReach(*sockets), reached) << host;
  }
  if (!HasIpv6()) return;
  const auto sockets = OpenListenSockets("[::1]", 0, kTimeout);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_FALSE(OthersReach(*sockets));
}

TEST(ListenSocket, ANameIsAllItsAddressesOnOnePort) {
  const auto sockets = OpenListenSockets("localhost", 0, kTimeout);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_TRUE(Connects("127.0.0.1", sockets->port));
  if (sockets->sockets.size() > 1) {
    EXPECT_TRUE(Connects("::1", sockets->port));
  }
}

TEST(ListenSocket, OneAddressIsNotTheOthers) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  const auto sockets = OpenListenSockets("[::1]", 0, kTimeout);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_TRUE(Connects("::1", sockets->port));
  EXPECT_FALSE(Connects("127.0.0.1", sockets->port));
}

TEST(ListenSocket, ErrorsNameAddressAndReason) {
  EXPECT_THAT(
      std::string(OpenListenSockets("192.0.2.1", 50051, kTimeout).status().message()),
      HasSubstr("cannot listen on 192.0.2.1:50051: the address is not one of this machine"));
  EXPECT_THAT(std::string(OpenListenSockets("[nonsense]", 1, kTimeout).status().message()),
              HasSubstr("cannot listen on [nonsense]:1: no such host"));
}

sockaddr_storage AddressOf(const char* host) {
  sockaddr_storage address{};
  if (auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
      inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
    address.ss_family = AF_INET;
  } else {
    inet_pton(AF_INET6, host, &reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr);
    address.ss_family = AF_INET6;
  }
  return address;
}

std::string KeyOf(const char* host) { return PeerKey(AddressOf(host)); }

TEST(PeerAddress, CountsMachines) {
  EXPECT_NE(KeyOf("10.0.0.1"), KeyOf("10.0.0.2"));
  EXPECT_EQ(KeyOf("10.0.0.1"), KeyOf("::ffff:10.0.0.1"));
  EXPECT_EQ(KeyOf("2001:db8:1:2::3"), KeyOf("2001:db8:1:2:ffff::4"));
  EXPECT_NE(KeyOf("2001:db8:1:2::3"), KeyOf("2001:db8:1:3::3"));
  EXPECT_EQ(AddressText(AddressOf("10.0.0.7")), "10.0.0.7");
  EXPECT_EQ(AddressText(AddressOf("2001:db8::1")), "2001:db8::1");
}

}  // namespace
}  // namespace beamline::listen_socket_test
