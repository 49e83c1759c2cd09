// Ranks that do not come to a sum, and sums that are aborted.
#include <atomic>
#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "tests/gpu/peer_fixture.h"

namespace beamline::peer_fault_test {
namespace {

using cuda::PeerAlgorithm;
using cuda::PeerAllReduce;
using std::chrono::milliseconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class PeerFaultTest : public PeerTest {
 protected:
  // Rank 0 alone comes to a sum. Returns when its stream is done, and how long that took.
  milliseconds WaitAlone(PeerAlgorithm algorithm) {
    device(0).Use();
    const TypedArray x = TypedArray::Poisoned(backend(0), DType::kFloat32, 1, 5000);
    const auto begin = Clock::now();
    peer(0).Sum(x.device(), algorithm);
    EXPECT_TRUE(backend(0).Synchronize().ok());
    return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  }
  // What follows a fault returns at once, on all ranks.
  void ExpectNobodyWaits() {
    for (const PeerAlgorithm algorithm : {PeerAlgorithm::kOneShot, PeerAlgorithm::kTwoShot}) {
      EXPECT_LT(WaitAlone(algorithm), milliseconds(500));
    }
    const std::vector<TypedArray> terms = Terms(DType::kFloat32, 1, 3000);
    const auto begin = Clock::now();
    Run([&](int rank) {
      for (int i = 0; i < 10; ++i) peer(rank).Sum(terms[rank].device());
      EXPECT_TRUE(backend(rank).Synchronize().ok());
    });
    EXPECT_LT(Clock::now() - begin, milliseconds(500));
  }
};

TEST_F(PeerFaultTest, ARankThatDoesNotComeIsNamed) {
  for (const PeerAlgorithm algorithm : {PeerAlgorithm::kOneShot, PeerAlgorithm::kTwoShot}) {
    Open(2, {.time_limit = milliseconds(300)});
    EXPECT_TRUE(peer(0).status().ok());
    const milliseconds waited = WaitAlone(algorithm);
    EXPECT_GE(waited, milliseconds(300));
    EXPECT_LT(waited, milliseconds(1500));
    for (int rank = 0; rank < size(); ++rank) {
      const absl::Status status = peer(rank).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("rank 1 did not come to a sum within 300 ms, for which rank 0 of 2"));
    }
    ExpectNobodyWaits();
    peer(1).Abort();  // the first fault counts
    EXPECT_THAT(std::string(peer(1).status().message()), HasSubstr("rank 1 did not come"));
  }
}

TEST_F(PeerFaultTest, AbortEndsAWait) {
  for (const PeerAlgorithm algorithm : {PeerAlgorithm::kOneShot, PeerAlgorithm::kTwoShot}) {
    Open(3);
    std::atomic<bool> waiting = false;
    milliseconds waited = {};
    std::thread thread([&] {
      waiting = true;
      waited = WaitAlone(algorithm);
    });
    while (!waiting) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(200));
    EXPECT_TRUE(peer(0).status().ok());
    const auto begin = Clock::now();
    peer(2).Abort();
    thread.join();
    EXPECT_LT(Clock::now() - begin, milliseconds(500));
    EXPECT_GE(waited, milliseconds(150));
    for (int rank = 0; rank < size(); ++rank) {
      EXPECT_EQ(peer(rank).status().code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(peer(rank).status().message()), HasSubstr("aborted"));
    }
    ExpectNobodyWaits();
  }
}

// A wait within the limit is none of a fault's.
TEST_F(PeerFaultTest, ALateRankIsWaitedFor) {
  Open(2, {.time_limit = std::chrono::seconds(20)});
  const std::vector<TypedArray> terms = Terms(DType::kFloat16, 1, 1000);
  Run([&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(milliseconds(700));
    peer(rank).Sum(terms[rank].device());
  });
  EXPECT_EQ(terms[0].Read(), terms[1].Read());
  ExpectNoFault();
}

// Waits look beyond their GPU now and then, which must not make their rank late for the next call.
TEST_F(PeerFaultTest, CallsBehindALongWaitAreAsFastAsOthers) {
  constexpr int kNumCalls = 3000;  // some 4 us each
  Open(2);
  std::vector<TypedArray> terms;
  for (int rank = 0; rank < size(); ++rank) {
    terms.emplace_back(backend(rank), DType::kFloat32, 1, 1 << 16, std::vector<float>(1 << 16));
  }
  const auto begin = Clock::now();
  Run([&](int rank) {
    if (rank == 1) std::this_thread::sleep_for(milliseconds(20));
    for (int i = 0; i < kNumCalls; ++i) {
      peer(rank).Sum(terms[rank].device(), PeerAlgorithm::kOneShot);
    }
    EXPECT_TRUE(backend(rank).Synchronize().ok());
  });
  EXPECT_LT(Clock::now() - begin, milliseconds(300));
  ExpectNoFault();
}

TEST_F(PeerFaultTest, OtherNumbersOfRanksAreRefused) {
  for (const int count : {1, 9}) {
    const std::vector<cuda::Device*> devices(count, &device(0));
    const auto peers = PeerAllReduce::Create(devices);
    EXPECT_EQ(peers.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(peers.status().message()),
                HasSubstr("sums over " + std::to_string(count) + " ranks"));
    EXPECT_THAT(std::string(peers.status().message()), HasSubstr("accepted: 2 to 8"));
  }
}

}  // namespace
}  // namespace beamline::peer_fault_test
