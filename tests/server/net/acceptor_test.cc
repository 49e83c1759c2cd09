#include "server/net/acceptor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "server/net/descriptors.h"
#include "tests/server/net/raw_connection.h"

namespace beamline::acceptor_test {
namespace {

bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

// An acceptor whose connections are handed to the test.
class AcceptorTest : public testing::Test {
 protected:
  void Listen() {
    auto sockets = OpenListenSockets("127.0.0.1", 0, std::chrono::seconds(20));
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    port_ = sockets->port;
    sockets_ = *std::move(sockets);
  }
  void Start(const AcceptorOptions& options) {
    auto acceptor = Acceptor::Start(
        std::move(sockets_), options,
        [this](int fd) {
          std::lock_guard lock(mutex_);
          taken_.emplace_back(fd);
        },
        [this](bool accepting) {
          std::lock_guard lock(mutex_);
          told_.push_back(accepting);
        },
        stats_);
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }

  size_t num_taken() {
    std::lock_guard lock(mutex_);
    return taken_.size();
  }
  std::vector<bool> told() {
    std::lock_guard lock(mutex_);
    return told_;
  }
  uint64_t refused(Refusal reason) { return stats_.refused[static_cast<size_t>(reason)]; }
  // A connection that has spoken and is taken.
  RawConnection Speaking(const char* source = "127.0.0.1") {
    const size_t before = num_taken();
    RawConnection connection(port_, source);
    EXPECT_TRUE(connection.Send(Http2Hello()));
    EXPECT_TRUE(Eventually([&] { return num_taken() > before; }));
    return connection;
  }

  int port_ = 0;
  ListenSockets sockets_;
  ConnectionStats stats_;
  std::mutex mutex_;
  std::vector<UniqueFd> taken_;
  std::vector<std::unique_ptr<TlsHandshake>> handshakes_;
  std::vector<bool> told_;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, HandsOverWhatSpeaksWithAllItsBytes) {
  Listen();
  Start({});
  RawConnection connection(port_);
  const std::string hello = Http2Hello();
  // In pieces, as a network may deliver it.
  for (size_t i = 0; i < hello.size(); i += 5) {
    EXPECT_EQ(num_taken(), 0u);
    ASSERT_TRUE(connection.Send(std::string_view(hello).substr(i, 5)));
    if (i >= 20) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ASSERT_TRUE(Eventually([&] { return num_taken() == 1; }));
  std::array<char, 64> bytes;
  const ssize_t size = recv(taken_[0].get(), bytes.data(), bytes.size(), 0);
  EXPECT_EQ(std::string(bytes.data(), static_cast<size_t>(size)), hello.substr(0, 25));
  EXPECT_EQ(stats_.accepted, 1u);
}

TEST_F(AcceptorTest, ClosesWhatStaysSilent) {
  Listen();
  Start({.handshake_timeout = std::chrono::milliseconds(200)});
  RawConnection silent(port_);
  RawConnection half(port_);
  ASSERT_TRUE(half.Send("PRI * HTTP"));
  EXPECT_TRUE(silent.IsClosed());
  EXPECT_TRUE(half.IsClosed());
  EXPECT_TRUE(Eventually([&] { return refused(Refusal::kTimeout) == 2; }));
  EXPECT_TRUE(Eventually([&] { return stats_.silent == 0; }));
}

TEST_F(AcceptorTest, ClosesWhatSpeaksSomethingElse) {
  Listen();
  Start({});
  RawConnection http(port_);
  ASSERT_TRUE(http.Send("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(http.IsClosed());
  EXPECT_EQ(refused(Refusal::kProtocol), 1u);
  EXPECT_EQ(num_taken(), 0u);
}

TEST_F(AcceptorTest, TellsClientsOfHttpWhereTheyAre) {
  Listen();
  Start({.http_hint = "this address speaks gRPC, and why not"});
  const std::string answer =
      "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
      "Content-Length: 38\r\nConnection: close\r\n\r\nthis address speaks gRPC, and why not\n";
  // A body that comes later takes nothing of the answer.
  RawConnection http(port_);
  ASSERT_TRUE(http.Send("POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"));
  ASSERT_TRUE(Eventually([&] { return refused(Refusal::kProtocol) == 1; }));
  ASSERT_TRUE(http.Send("{}"));
  EXPECT_EQ(http.ReadAll(), answer);
  // So many at once are none too many, and none is taken.
  std::vector<std::unique_ptr<RawConnection>> many;
  for (size_t i = 0; i < 2 * HttpFarewell::kMost; ++i) {
    many.push_back(std::make_unique<RawConnection>(port_));
    ASSERT_TRUE(many.back()->Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
  }
  for (const auto& one : many) EXPECT_EQ(one->ReadAll(), answer);
  EXPECT_EQ(num_taken(), 0u);
  // What is no request of HTTP is told nothing.
  RawConnection other(port_);
  ASSERT_TRUE(other.Send("HELO mail.example.org, and more\r\n"));
  EXPECT_EQ(other.ReadAll(), "");
  RawConnection grpc = Speaking();
  EXPECT_FALSE(grpc.IsClosed(std::chrono::milliseconds(50)));
}

TEST_F(AcceptorTest, HandsOverHandshakesOfTls) {
  Listen();
  Start({.first_bytes = kTlsHandshake});
  RawConnection plain(port_);
  ASSERT_TRUE(plain.Send(Http2Hello()));
  EXPECT_TRUE(plain.IsClosed());
  EXPECT_EQ(refused(Refusal::kProtocol), 1u);
  RawConnection encrypted(port_);
  ASSERT_TRUE(encrypted.Send("\x16"));
  EXPECT_FALSE(encrypted.IsClosed(std::chrono::milliseconds(50)));
  EXPECT_EQ(num_taken(), 0u);
  ASSERT_TRUE(encrypted.Send("\x03\x01"));
  EXPECT_TRUE(Eventually([&] { return num_taken() == 1; }));
}

TEST_F(AcceptorTest, ForgetsWhoLeavesWithoutAWord) {
  Listen();
  Start({.max_connections = 4});
  for (int i = 0; i < 20; ++i) {
    RawConnection gone(port_);
    RawConnection half(port_);
    ASSERT_TRUE(half.Send("PRI"));
  }
  EXPECT_TRUE(Eventually([&] { return stats_.silent == 0; }));
  EXPECT_EQ(refused(Refusal::kTimeout), 0u);
  Speaking();
}

TEST_F(AcceptorTest, SilentConnectionsGiveWay) {
  Listen();
  Start({.max_connections = 10});
  std::vector<RawConnection> idle;
  for (int i = 0; i < 40; ++i) idle.emplace_back(port_);
  Speaking();
  EXPECT_EQ(refused(Refusal::kDisplaced), 31u);
  EXPECT_EQ(refused(Refusal::kLimit), 0u);
  EXPECT_TRUE(idle[0].IsClosed());
  EXPECT_FALSE(idle[39].IsClosed(std::chrono::milliseconds(50)));
  EXPECT_TRUE(told().empty());
}

TEST_F(AcceptorTest, RefusesMoreThanItMayHave) {
  Listen();
  Start({.max_connections = 3});
  std::vector<RawConnection> open;
  for (int i = 0; i < 3; ++i) open.push_back(Speaking());
  RawConnection refused_one(port_);
  EXPECT_TRUE(refused_one.IsClosed());
  EXPECT_EQ(refused(Refusal::kLimit), 1u);
  EXPECT_EQ(told(), std::vector<bool>{false});
  EXPECT_FALSE(stats_.accepting);
  {
    std::lock_guard lock(mutex_);
    taken_.erase(taken_.begin());  // closed by its owner, without a word to the acceptor
  }
  EXPECT_TRUE(Eventually([&] { return told().size() == 2; }));
  EXPECT_EQ(told(), (std::vector<bool>{false, true}));
  Speaking();
}

TEST_F(AcceptorTest, APeerLeavesRoomForOthers) {
  Listen();
  Start({.max_connections = 10, .max_connections_per_peer = 2});
  std::vector<RawConnection> open;
  open.push_back(Speaking());
  open.emplace_back(port_);    // silent
  open.push_back(Speaking());  // in its place
  EXPECT_TRUE(open[1].IsClosed());
  EXPECT_EQ(refused(Refusal::kDisplaced), 1u);
  RawConnection third(port_);
  EXPECT_TRUE(third.IsClosed());
  EXPECT_EQ(refused(Refusal::kPeerLimit), 1u);
  Speaking("127.0.0.2");
  EXPECT_TRUE(told().empty());
}

TEST_F(AcceptorTest, IdleOnesGiveTheirPlaces) {
  Listen();
  std::atomic<int> busy = -1;
  Start({.max_connections = 3, .is_idle = [&](int fd) { return fd != busy; }});
  RawConnection first = Speaking();
  busy = taken_.front().get();
  RawConnection second = Speaking();
  RawConnection silent(port_);
  EXPECT_TRUE(Eventually([&] { return stats_.silent == 1; }));
  // Who came first goes first, whether it has spoken or not, unless it is busy.
  RawConnection third = Speaking();
  EXPECT_TRUE(second.IsClosed());
  RawConnection fourth = Speaking();
  EXPECT_TRUE(silent.IsClosed());
  RawConnection fifth = Speaking();
  EXPECT_TRUE(third.IsClosed());
  EXPECT_FALSE(first.IsClosed(std::chrono::milliseconds(50)));
  acceptor_.reset();
  EXPECT_EQ(refused(Refusal::kDisplaced), 3U);
  EXPECT_EQ(refused(Refusal::kLimit) + refused(Refusal::kPeerLimit), 0U);
}

TEST_F(AcceptorTest, WhereAllAreBusyNewOnesAreRefused) {
  Listen();
  Start({.max_connections = 2, .is_idle = [](int) { return false; }});
  RawConnection first = Speaking(), second = Speaking();
  EXPECT_TRUE(RawConnection(port_).IsClosed());
  EXPECT_FALSE(first.IsClosed(std::chrono::milliseconds(20)));
  EXPECT_EQ(refused(Refusal::kLimit), 1U);
}

// Hundreds at once, and each gets to speak: nobody's place is taken before it was read.
TEST_F(AcceptorTest, AFloodOfIdleOnesPasses) {
  Listen();
  Start({.max_connections = 64, .is_idle = [](int) { return true; }});
  std::vector<RawConnection> open;
  for (int i = 0; i < 300; ++i) {
    open.emplace_back(port_);
    ASSERT_TRUE(open.back().Send(Http2Hello()));
  }
  EXPECT_TRUE(Eventually([&] { return num_taken() == 300; })) << num_taken();
  EXPECT_EQ(refused(Refusal::kDisplaced), 300U - 60U);  // the last places are for others
}

TEST_F(AcceptorTest, HandshakesWaitForTheirPlaces) {
  Listen();
  auto acceptor = Acceptor::Start(
      std::move(sockets_), {.first_bytes = kTlsHandshake, .max_handshakes = 8},
      [this](int fd) {
        std::lock_guard lock(mutex_);
        taken_.emplace_back(fd);
        handshakes_.push_back(TlsHandOver::Claim().handshake);
      },
      [](bool) {}, stats_);
  ASSERT_TRUE(acceptor.ok()) << acceptor.status();
  std::vector<RawConnection> open;
  const auto begin = [&](const char* source) {
    open.emplace_back(port_, source);
    EXPECT_TRUE(open.back().Send("\x16\x03\x01"));
  };
  for (int i = 0; i < 5; ++i) begin("127.0.0.1");  // of which two may be there at once
  EXPECT_TRUE(Eventually([&] { return num_taken() == 2; }));
  begin("127.0.0.2");
  EXPECT_TRUE(Eventually([&] { return num_taken() == 3; }));
  {
    std::lock_guard lock(mutex_);
    handshakes_[0] = nullptr;  // finished
  }
  EXPECT_TRUE(Eventually([&] { return num_taken() == 4; }));
  EXPECT_TRUE(Eventually([&] { return stats_.silent == 2; }));
  // The others have the places of those that do not finish.
  EXPECT_TRUE(Eventually([&] { return num_taken() == 6 && stats_.silent == 0; }));
  EXPECT_EQ(refused(Refusal::kDisplaced), 2u);
  EXPECT_TRUE(open[1].IsClosed());
  EXPECT_FALSE(open[0].IsClosed(std::chrono::milliseconds(0)));
  *acceptor = nullptr;
}

// What some connections send slows the next ones of their address, and no other's.
TEST_F(AcceptorTest, ConnectionsOfAFloodArePaced) {
  Listen();
  Start({.watches_floods = true, .paces_peers = true});
  std::string calls;
  for (uint8_t stream = 1; stream < 255; stream += 2) {  // begun, and taken back at once
    calls += std::string("\0\0\1\1\4\0\0\0", 8) + static_cast<char>(stream) + "h";
    calls += std::string("\0\0\4\3\0\0\0\0", 8) + static_cast<char>(stream) + "1234";
  }
  // Each has fewer than a connection may; all of them have too many.
  std::vector<RawConnection> flood;
  for (size_t i = 0; i < 7; ++i) {
    flood.push_back(Speaking());
    size_t left = Http2Hello().size();
    for (int j = 0; j < 3; ++j) ASSERT_TRUE(flood.back().Send(calls));
    left += 3 * calls.size();
    std::array<char, 4096> bytes;
    iovec buffer{bytes.data(), bytes.size()};
    msghdr message{.msg_iov = &buffer, .msg_iovlen = 1};
    ASSERT_TRUE(Eventually([&] {
      const ssize_t size = recvmsg(taken_[i].get(), &message, 0);
      const bool is_ended = size < 0 && errno == ECONNRESET;
      left = is_ended ? 0 : left - static_cast<size_t>(std::max<ssize_t>(0, size));
      return left == 0;
    }));
  }
  EXPECT_GE(refused(Refusal::kFlood), 1u);
  const size_t before = num_taken();
  std::vector<RawConnection> next;
  for (int i = 0; i < 100; ++i) {
    next.emplace_back(port_);
    ASSERT_TRUE(next.back().Send(Http2Hello()));
  }
  ASSERT_TRUE(Eventually([&] { return stats_.paced > 0; }));
  EXPECT_LT(num_taken(), before + 100);
  Speaking("127.0.0.2");
  EXPECT_LT(num_taken(), before + 101);
  EXPECT_TRUE(Eventually([&] { return num_taken() == before + 101; }));  // none is refused
  EXPECT_TRUE(Eventually([&] { return stats_.silent == 0; }));
}

TEST_F(AcceptorTest, RecoversFromAWantOfDescriptors) {
  Listen();
  Start({});
  Speaking();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = UniqueFd(dup(STDERR_FILENO)).get();
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  RawConnection waiting(port_);  // has the last descriptor
  ASSERT_TRUE(waiting.valid());
  EXPECT_TRUE(waiting.Send(Http2Hello()));
  EXPECT_TRUE(Eventually([&] { return told() == std::vector<bool>{false}; }));
  EXPECT_FALSE(stats_.accepting);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LE(stats_.accept_errors, 10u);  // it does not spin
  EXPECT_EQ(num_taken(), 1u);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(Eventually([&] { return num_taken() == 2; }));
  EXPECT_TRUE(Eventually([&] { return told() == (std::vector<bool>{false, true}); }));
}

TEST_F(AcceptorTest, GivesASilentOnesDescriptorToANewOne) {
  Listen();
  Start({});
  RawConnection silent(port_);
  EXPECT_TRUE(Eventually([&] { return stats_.silent == 1; }));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(UniqueFd(dup(STDERR_FILENO)).get()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  Speaking();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(silent.IsClosed());
  EXPECT_TRUE(told().empty());
}

TEST_F(AcceptorTest, ClosesThePortAtTheEnd) {
  Listen();
  Start({});
  RawConnection silent(port_);
  RawConnection speaking = Speaking();
  acceptor_.reset();
  EXPECT_TRUE(silent.IsClosed());
  EXPECT_FALSE(speaking.IsClosed(std::chrono::milliseconds(50)));  // it is somebody else's
  auto again = OpenListenSockets("127.0.0.1", port_, std::chrono::seconds(20));
  EXPECT_TRUE(again.ok()) << again.status();
}

}  // namespace
}  // namespace beamline::acceptor_test
