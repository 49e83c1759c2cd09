#include "server/net/handshakes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/net/unique_fd.h"

namespace beamline::handshakes_test {
namespace {

class HandshakesTest : public testing::Test {
 protected:
  struct Begun {
    UniqueFd server, client;
    std::unique_ptr<TlsHandshake> handshake;
    bool is_shut_down() const {
      char byte = 0;
      return recv(client.get(), &byte, 1, MSG_DONTWAIT) == 0;
    }
  };
  static Handshakes::TimePoint At(int ms) {
    return Handshakes::TimePoint(std::chrono::milliseconds(ms));
  }
  void Limit(int32_t limit) {
    all_ = std::make_shared<Handshakes>(limit, stats_, [this](int fd) {
      ++num_looks_;
      return owing_.contains(fd) ? owing_[fd] : std::nullopt;
    });
  }
  Begun Begin(const std::string& peer, int ms) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    Begun begun{UniqueFd(ends[0]), UniqueFd(ends[1]), nullptr};
    begun.handshake = all_->Begin(ends[0], SocketIdentity(ends[0]), peer, At(ms));
    return begun;
  }
  uint64_t displaced() const { return stats_.refused[static_cast<size_t>(Refusal::kDisplaced)]; }

  static constexpr int kLeast =
      static_cast<int>(std::chrono::milliseconds(Handshakes::kLeastTime).count());
  ConnectionStats stats_;
  std::shared_ptr<Handshakes> all_;
  std::map<int, std::optional<std::chrono::milliseconds>> owing_;  // by descriptor
  int num_looks_ = 0;
};

TEST_F(HandshakesTest, AreBoundedInAllAndOfAPeer) {
  Limit(8);
  std::vector<Begun> begun;
  for (const char* const peer : {"a", "b", "c", "d"}) {
    EXPECT_TRUE(all_->FindPlace(peer, At(0)));
    begun.push_back(Begin(peer, 0));
    EXPECT_TRUE(all_->FindPlace(peer, At(0)));
    begun.push_back(Begin(peer, 0));
    EXPECT_FALSE(all_->FindPlace(peer, At(0))) << peer;
  }
  EXPECT_EQ(all_->size(), 8u);
  EXPECT_FALSE(all_->FindPlace("e", At(kLeast - 1)));
  EXPECT_FALSE(all_->HasAnyOf("e"));
  begun[2].handshake = nullptr;  // finished
  EXPECT_TRUE(all_->HasAnyOf("b"));
  EXPECT_TRUE(all_->FindPlace("e", At(1)));
  EXPECT_FALSE(all_->FindPlace("a", At(1)));
  begun.clear();
  EXPECT_EQ(all_->size(), 0u);
  EXPECT_FALSE(all_->HasAnyOf("a"));
  EXPECT_EQ(displaced(), 0u);
}

TEST_F(HandshakesTest, TheOldestGivesItsPlaceWhenItHasHadItsTime) {
  Limit(8);
  std::vector<Begun> begun;
  int ms = 0;
  for (const char* const peer : {"a", "a", "b", "b", "c", "c", "d", "d"}) {
    begun.push_back(Begin(peer, 100 * ms++));
  }
  EXPECT_FALSE(all_->FindPlace("b", At(200 + kLeast - 1)));
  EXPECT_TRUE(all_->FindPlace("b", At(200 + kLeast)));  // of its own
  EXPECT_TRUE(begun[2].is_shut_down());
  EXPECT_FALSE(begun[0].is_shut_down());
  EXPECT_EQ(displaced(), 1u);
  begun.push_back(Begin("b", 200 + kLeast));
  EXPECT_TRUE(all_->FindPlace("e", At(200 + kLeast)));  // of all
  EXPECT_TRUE(begun[0].is_shut_down());
  EXPECT_FALSE(begun[1].is_shut_down());
  EXPECT_EQ(all_->size(), 7u);
  begun[0].handshake = nullptr;  // its owner has closed it
  EXPECT_EQ(all_->size(), 7u);
}

// Where the client owes its part the place is free sooner; where the server does it is not.
TEST_F(HandshakesTest, WhoeverOwesGivesItsPlaceSooner) {
  using std::chrono::milliseconds;
  Limit(8);
  std::vector<Begun> begun;
  begun.push_back(Begin("a", 0));
  begun.push_back(Begin("a", 10));
  begun.push_back(Begin("b", 0));
  const int fd = begun[1].server.get();
  owing_[begun[2].server.get()] = milliseconds(1000);
  owing_[fd] = milliseconds(500);
  EXPECT_FALSE(all_->FindPlace("a", At(600)));  // its clients have given up none yet
  EXPECT_EQ(num_looks_, 0);
  EXPECT_TRUE(all_->FindPlace("a", At(kLeast)));
  EXPECT_TRUE(begun[0].is_shut_down());
  begun.push_back(Begin("a", kLeast));
  owing_[fd] = milliseconds(499);
  EXPECT_FALSE(all_->FindPlace("a", At(kLeast)));
  // A thousand that wait do not ask the kernel a thousand times.
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(all_->FindPlace("a", At(kLeast)));
  EXPECT_EQ(num_looks_, 1);
  begun[3].handshake = nullptr;
  begun[3] = Begin("a", kLeast + 1000);
  owing_[begun[3].server.get()] = milliseconds(500);
  begun[1].handshake = nullptr;
  begun[1] = Begin("a", kLeast + 1000);
  EXPECT_FALSE(all_->FindPlace("a", At(kLeast + 1499)));
  EXPECT_TRUE(all_->FindPlace("a", At(kLeast + 1520)));
  EXPECT_TRUE(begun[3].is_shut_down());
  EXPECT_FALSE(begun[1].is_shut_down());
  EXPECT_FALSE(begun[2].is_shut_down());  // of another peer, which has places left
  EXPECT_EQ(displaced(), 2u);
}

// By the kernel's account of a connection of TCP.
TEST_F(HandshakesTest, TheKernelTellsWhoOwes) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  const UniqueFd server(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  ASSERT_EQ(send(client.get(), "hello", 5, 0), 5);
  wait();
  EXPECT_EQ(OwedFor(server.get()), std::nullopt);  // the server does
  ASSERT_EQ(send(server.get(), "hello", 5, 0), 5);
  wait();
  EXPECT_GE(OwedFor(server.get()).value_or(std::chrono::milliseconds(0)).count(), 40);
  ASSERT_EQ(send(client.get(), "hello", 5, 0), 5);
  wait();
  EXPECT_EQ(OwedFor(server.get()), std::nullopt);
  EXPECT_EQ(OwedFor(-1), std::nullopt);
}

// A number is used again before its last owner has said that it has closed it.
TEST_F(HandshakesTest, WhatIsNotTheirsIsLeftAlone) {
  Limit(1);
  Begun begun = Begin("a", 0);
  std::array<int, 2> others{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others.data()), 0);
  const UniqueFd kept(others[1]);
  ASSERT_EQ(dup3(others[0], begun.server.get(), O_CLOEXEC), begun.server.get());
  close(others[0]);
  EXPECT_TRUE(all_->FindPlace("b", At(kLeast)));
  char byte = 0;
  EXPECT_EQ(recv(kept.get(), &byte, 1, MSG_DONTWAIT), -1);  // open
  EXPECT_EQ(displaced(), 0u);
}

TEST_F(HandshakesTest, OutliveTheAcceptor) {
  Limit(2);
  Begun begun = Begin("a", 0);
  all_ = nullptr;
  begun.handshake = nullptr;
}

}  // namespace
}  // namespace beamline::handshakes_test
