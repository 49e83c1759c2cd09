// Who is let in where the processes of a model come together, and how long each waits.
#include "tests/rank_door.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/process_communicator.h"
#include "kernels/rank_sockets.h"
#include "tests/test_seed.h"

namespace beamline::rank_door_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// One rank's sum of ones.
void Sum(std::shared_ptr<RankLinks> links) {
  float x = 1.0f;
  MakeProcessCommunicator(std::move(links))->AllReduceSum(Tensor(&x, DType::kFloat32, {1}));
  EXPECT_EQ(x, 3.0f);
}

TEST(RankDoorTest, MissingRanksAreNamed) {
  RankDoor door = DoorFor(4);
  door.join_limit = milliseconds(700);
  std::thread follower([&] { EXPECT_TRUE(RankLinks::Join(door, 2).ok()); });
  const absl::Status status = RankLinks::Gather(door).status();
  follower.join();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(), fmt::format("ranks 1, 3 of 4 did not come to {}:{} within 700 ms",
                                          door.host, door.port))
      << status;
}

TEST(RankDoorTest, AFrontThatNeverComes) {
  RankDoor door = DoorFor(2);
  door.join_limit = milliseconds(300);
  const absl::Status status = RankLinks::Join(door, 1).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(fmt::format("the front did not come to {}:{} within 300 ms: Connection refused",
                            door.host, door.port)));
}

TEST(RankDoorTest, StopEndsTheWaiting) {
  std::atomic<bool> stop = true;
  RankDoor door = DoorFor(2);
  door.stop = &stop;
  EXPECT_TRUE(absl::IsCancelled(RankLinks::Gather(door).status()));
  EXPECT_TRUE(absl::IsCancelled(RankLinks::Join(door, 1).status()));
}

TEST(RankDoorTest, AnAddressThatIsNotOfThisHost) {
  RankDoor door = DoorFor(2);
  door.host = "192.0.2.1";  // of documentation (RFC 5737)
  const absl::Status status = RankLinks::Gather(door).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("192.0.2.1:"));
}

sockaddr_in AddressOf(const RankDoor& door) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(door.port));
  inet_pton(AF_INET, door.host.c_str(), &address.sin_addr);
  return address;
}

// A connection that says `message`, or nothing.
int Stranger(const RankDoor& door, const std::string& message) {
  const sockaddr_in address = AddressOf(door);
  while (true) {
    const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      EXPECT_EQ(send(connection, message.data(), message.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(message.size()));
      return connection;
    }
    close(connection);
    std::this_thread::sleep_for(milliseconds(5));
  }
}

TEST(RankDoorTest, WhoDoesNotBelongIsSentAwayAndTheRestComesTogether) {
  const RankDoor door = DoorFor(3);
  std::thread front([&] {
    const auto links = RankLinks::Gather(door);
    ASSERT_TRUE(links.ok()) << links.status();
    Sum(*links);
  });
  std::vector<int> strangers = {Stranger(door, ""), Stranger(door, std::string(1000, 'x')),
                                Stranger(door, std::string("RB")),
                                Stranger(door, std::string(300, '\0'))};
  std::mt19937 random(TestSeed());
  for (int i = 0; i < 50; ++i) {
    std::string noise(random() % 400, ' ');
    for (char& byte : noise) byte = static_cast<char>(random());
    strangers.push_back(Stranger(door, noise));
  }
  const auto reason = [&](RankDoor other, int rank) {
    other.join_limit = std::chrono::seconds(5);
    const absl::Status status = RankLinks::Join(other, rank).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  RankDoor wrong = door;
  wrong.secret = "a secret of the testz";
  EXPECT_THAT(reason(wrong, 1), HasSubstr("sends rank 1 away: its secret is another one"));
  wrong.secret = std::string(kRankSecret) + "!";
  EXPECT_THAT(reason(wrong, 1), HasSubstr("its secret is another one"));
  wrong = door;
  wrong.size = 4;
  EXPECT_THAT(reason(wrong, 1), HasSubstr("it is one of 4 ranks; accepted: 3"));
  const auto one = RankLinks::Join(door, 1);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(reason(door, 1), HasSubstr("rank 1 is there already, at 127."));
  const auto two = RankLinks::Join(door, 2);
  ASSERT_TRUE(two.ok()) << two.status();
  std::thread follower([&] { Sum(*one); });
  Sum(*two);
  follower.join();
  front.join();
  for (const int connection : strangers) close(connection);
}

// One that was killed while it waited is missing again.
TEST(RankDoorTest, WhoComesAgainWhileOthersAreMissingIsLetIn) {
  RankDoor door = DoorFor(3);
  door.join_limit = std::chrono::seconds(20);
  std::jthread front([&] {
    const auto links = RankLinks::Gather(door);
    ASSERT_TRUE(links.ok()) << links.status();
    Sum(*links);
  });
  for (int round = 0; round < 40; ++round) {
    const auto killed = ConnectToFront(door, 1);
    ASSERT_TRUE(killed.ok()) << killed.status();
  }
  const auto one = RankLinks::Join(door, 1);
  const auto two = RankLinks::Join(door, 2);
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  std::thread follower([&] { Sum(*one); });
  Sum(*two);
  follower.join();
  front.join();
}

TEST(RankDoorTest, WhoSendsBackWhatItHearsIsNoFront) {
  RankDoor door = DoorFor(2);
  door.join_limit = milliseconds(300);
  const auto listener = ListenAt(door);
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::atomic<bool> done = false;
  std::thread echo([&] {
    std::vector<int> connections;
    while (!done) {
      const int connection = accept4(listener->socket(), nullptr, nullptr, SOCK_NONBLOCK);
      if (connection >= 0) connections.push_back(connection);
      for (const int each : connections) {
        char bytes[1000];
        const ssize_t heard = recv(each, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (heard > 0) send(each, bytes, static_cast<size_t>(heard), MSG_NOSIGNAL);
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    for (const int each : connections) close(each);
  });
  const absl::Status status = RankLinks::Join(door, 1).status();
  done = true;
  echo.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("what is there does not answer as a front"));
}

// As the system may make of one to a port at which nobody listens.
TEST(RankDoorTest, AConnectionWithItselfIsSeen) {
  const RankDoor door = DoorFor(2);
  const sockaddr_in address = AddressOf(door);
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  const RankSocket itself(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "");
  ASSERT_EQ(bind(itself.socket(), any, sizeof(address)), 0);
  ASSERT_EQ(connect(itself.socket(), any, sizeof(address)), 0);
  EXPECT_TRUE(IsConnectedWithItself(itself));

  const RankDoor other = DoorFor(2);
  const auto listener = ListenAt(other);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const RankSocket connected(Stranger(other, ""), "");
  EXPECT_FALSE(IsConnectedWithItself(connected));
  EXPECT_FALSE(IsConnectedWithItself(*listener));
}

}  // namespace
}  // namespace beamline::rank_door_test
