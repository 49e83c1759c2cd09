#include "server/guard/frame_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace beamline::frame_watch_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(int type, int flags, uint32_t stream, const std::string& payload = "") {
  const size_t size = payload.size();
  std::string frame;
  for (const size_t byte : {size >> 16, size >> 8, size}) frame += static_cast<char>(byte);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame + payload;
}
std::string Data(uint32_t stream, const std::string& payload) {
  return Frame(0, 1, stream, payload);
}
std::string Headers(uint32_t stream) { return Frame(1, 4, stream, "h"); }
std::string Reset(uint32_t stream) { return Frame(3, 0, stream, "1234"); }

class FrameWatchTest : public testing::Test {
 protected:
  FrameWatchTest() { EXPECT_TRUE(Follow(kPreface)); }

  bool Follow(const std::string& bytes) { return watch_.Follow(bytes, now_); }
  // Resets of fresh connections, 480 on each, within a second, until one ends early.
  int ConnectionsUntilTheEnd(const std::shared_ptr<PeerFlood>& peer, int most) {
    for (int count = 0; count < most; ++count) {
      NewConnection(peer);
      if (ResetsUntilTheEnd(480) < 480) return count;
      now_ += milliseconds(10);
    }
    return most;
  }
  void NewConnection(std::shared_ptr<PeerFlood> peer) {
    flood_ = std::make_shared<ConnectionFlood>(std::move(peer));
    watch_ = FrameWatch(flood_);
    stream_ = 1;
    EXPECT_TRUE(Follow(kPreface));
  }
  // Calls that are begun and taken back at once, until that is too much.
  int ResetsUntilTheEnd(int most) {
    int count = 0;
    while (count < most && Follow(Headers(stream_) + Reset(stream_))) {
      ++count;
      stream_ += 2;
    }
    return count;
  }

  std::shared_ptr<ConnectionFlood> flood_ = std::make_shared<ConnectionFlood>();
  FrameWatch watch_{flood_};
  FrameWatch::TimePoint now_ = FrameWatch::TimePoint() + std::chrono::hours(1);
  uint32_t stream_ = 1;
};

TEST_F(FrameWatchTest, OrdinaryCallsGoOnForEver) {
  for (int i = 0; i < 20000; ++i, stream_ += 2) {
    ASSERT_TRUE(Follow(Headers(stream_) + Data(stream_, std::string(i % 700, 'd'))));
    if (i % 7 == 0) {
      ASSERT_TRUE(Follow(Frame(6, 0, 0, "12345678") + Frame(8, 0, 0, "1234")));
    }
    now_ += milliseconds(1);
  }
}

TEST_F(FrameWatchTest, CallsThatAreTakenBackAtOnceAreCounted) {
  EXPECT_EQ(ResetsUntilTheEnd(100000), 500);
  EXPECT_EQ(watch_.fault(), "calls that it takes back at once");
  now_ += seconds(100);
  EXPECT_FALSE(Follow(Headers(stream_)));  // it is over
}

TEST_F(FrameWatchTest, ResetsCountByAddressToo) {
  const auto peer = std::make_shared<PeerFlood>();
  EXPECT_EQ(ConnectionsUntilTheEnd(peer, 100), 4);
  EXPECT_EQ(watch_.fault(), "calls that all connections of its address together take back at once");
  // The next ones end sooner, while a client beside may take back a few.
  NewConnection(peer);
  EXPECT_LT(ResetsUntilTheEnd(480), 40);
  NewConnection(peer);
  EXPECT_EQ(ResetsUntilTheEnd(8), 8);
  EXPECT_EQ(ConnectionsUntilTheEnd(std::make_shared<PeerFlood>(), 4), 4);  // another address
  now_ += seconds(10);
  EXPECT_EQ(ConnectionsUntilTheEnd(peer, 4), 4);
}

TEST_F(FrameWatchTest, FramesThatAskForNothingCountByAddressToo) {
  const auto peer = std::make_shared<PeerFlood>();
  int num_frames = 0;
  while (num_frames < 100000) {
    NewConnection(peer);
    int own = 0;
    while (own < 900 && Follow(Frame(4, 0, 0))) ++own;
    num_frames += own;
    if (own < 900) break;
  }
  EXPECT_EQ(num_frames, 8000 + 8);
  EXPECT_EQ(watch_.fault(),
            "frames that ask for nothing, of all connections of its address together");
}

TEST_F(FrameWatchTest, ManySlowConnectionsAreAFloodToo) {
  const auto peer = std::make_shared<PeerFlood>();
  std::vector<FrameWatch> all;
  for (int i = 0; i < 100; ++i) {
    all.emplace_back(std::make_shared<ConnectionFlood>(peer));
    ASSERT_TRUE(all.back().Follow(kPreface, now_));
  }
  // 10,000 a second together, each half of what a connection may.
  for (int i = 0; i < 200; ++i, stream_ += 2, now_ += milliseconds(10)) {
    for (FrameWatch& watch : all) watch.Follow(Headers(stream_) + Reset(stream_), now_);
  }
  // Those for which the address always has room, 800 a second, go on.
  EXPECT_EQ(std::ranges::count_if(all, [](const auto& watch) { return watch.fault().empty(); }), 8);
}

TEST_F(FrameWatchTest, AnsweredCallsPayForThoseThatAreTakenBack) {
  for (int i = 0; i < 20; ++i) flood_->AddAnswer(now_);
  EXPECT_EQ(ResetsUntilTheEnd(100000), 500 + 20 * 10);
  EXPECT_EQ(watch_.fault(), "calls that it takes back at once");
}

TEST_F(FrameWatchTest, SomeATimeMayBeTakenBack) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(ResetsUntilTheEnd(190), 190);
    now_ += seconds(1);
  }
  EXPECT_EQ(ResetsUntilTheEnd(100000), 500);
}

// A client whose calls all have the same deadline.
TEST_F(FrameWatchTest, CallsThatHaveRunForAWhileMayBeTakenBack) {
  for (int round = 0; round < 3; ++round) {
    const uint32_t first = stream_;
    for (int i = 0; i < 8000; ++i, stream_ += 2) ASSERT_TRUE(Follow(Headers(stream_)));
    now_ += seconds(2);
    for (uint32_t stream = first; stream < stream_; stream += 2) ASSERT_TRUE(Follow(Reset(stream)));
  }
  // Also where others have begun meanwhile.
  const uint32_t first = stream_;
  for (int i = 0; i < 3000; ++i, stream_ += 2) ASSERT_TRUE(Follow(Headers(stream_)));
  const uint32_t last = stream_;
  for (int i = 0; i < 30; ++i, stream_ += 2) {
    now_ += milliseconds(100);
    ASSERT_TRUE(Follow(Headers(stream_)));
  }
  for (uint32_t stream = first; stream < last; stream += 2) ASSERT_TRUE(Follow(Reset(stream)));
}

TEST_F(FrameWatchTest, ManyBegunAndThenTakenBackAreCountedToo) {
  for (int i = 0; i < 8000; ++i, stream_ += 2) ASSERT_TRUE(Follow(Headers(stream_)));
  uint32_t stream = 1;
  while (stream < stream_ && Follow(Reset(stream))) stream += 2;
  EXPECT_EQ(stream, 1 + 2 * 500);
}

TEST_F(FrameWatchTest, HeadersHaveAnEnd) {
  // One frame of 60,000 bytes, and a second that ends it.
  EXPECT_TRUE(Follow(Frame(1, 0, 1, std::string(60000, 'h')) + Frame(9, 4, 1, "h")));
  EXPECT_TRUE(Follow(Frame(1, 4, 3, std::string(60000, 'h'))));
  EXPECT_TRUE(Follow(Frame(1, 0, 5, std::string(60000, 'h'))));
  EXPECT_FALSE(Follow(Frame(9, 0, 5, std::string(6000, 'h'))));
  EXPECT_EQ(watch_.fault(), "headers of more than 65536 bytes");
}

TEST_F(FrameWatchTest, FramesThatAskForNothingAreCounted) {
  const std::string frames[] = {Frame(4, 0, 0), Frame(2, 0, 1, "12345"), Frame(0, 0, 1),
                                Frame(9, 0, 1)};
  for (const std::string& frame : frames) {
    FrameWatch watch;
    EXPECT_TRUE(watch.Follow(kPreface, now_));
    int count = 0;
    while (count < 100000 && watch.Follow(frame, now_)) ++count;
    EXPECT_EQ(count, 1000);
    EXPECT_EQ(watch.fault(), "frames that ask for nothing");
  }
  // Acknowledged settings are as many as the server's own.
  EXPECT_TRUE(Follow(Frame(0, 1, 1)));
}

// However the bytes are cut, the frames are the same.
TEST_F(FrameWatchTest, BytesComeInPieces) {
  std::string bytes = kPreface;
  for (uint32_t stream = 1; stream < 2000; stream += 2) {
    bytes += Headers(stream) + Data(stream, std::string(stream % 50, 'd')) + Reset(stream);
  }
  size_t whole = 0;
  for (const size_t size : {size_t{1}, size_t{2}, size_t{8}, size_t{9}, size_t{10}, size_t{1000}}) {
    FrameWatch watch;
    size_t place = 0;
    while (place < bytes.size() &&
           watch.Follow(std::string_view(bytes).substr(place, size), now_)) {
      place += size;
    }
    if (whole == 0) whole = place;
    EXPECT_LT(place, bytes.size());
    EXPECT_EQ(place / size, whole / size) << size;
  }
}

}  // namespace
}  // namespace beamline::frame_watch_test
