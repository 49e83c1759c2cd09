// How ranks on several GPUs end when one of them does not come, and what they may do meanwhile.
#include "gmock/gmock.h"
#include "tests/gpu/connected_gpus.h"
#include "tests/gpu/typed_arrays.h"

namespace beamline::nccl_faults_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr auto kSoon = std::chrono::seconds(5);

class NcclFaultsTest : public RandomTest {
 protected:
  std::vector<TypedArray> Terms(ConnectedGpus& gpus) {
    std::vector<TypedArray> terms;
    for (int r = 0; r < gpus.size(); ++r) {
      terms.push_back(
          TypedArray::Random(gpus.backend(r), DType::kFloat32, 1, 5000, 1.0f, random()));
    }
    return terms;
  }
  // The GPU computes on, without the others.
  void ExpectComputes(Backend& backend) {
    const TypedArray x = TypedArray::Random(backend, DType::kFloat32, 4, 64, 1.0f, random());
    const TypedArray gain(backend, DType::kFloat32, 1, 64, std::vector<float>(64, 1.0f));
    const TypedArray y = TypedArray::Poisoned(backend, DType::kFloat32, 4, 64);
    NormParams params, expected;
    params.x = x.device(), expected.x = x.host_tensor();
    params.gain = gain.device_vector(), expected.gain = gain.host_vector();
    params.y = y.device(), expected.y = y.host_tensor();
    backend.Norm(params);
    EXPECT_LE(y.RelativeError(reference::Norm(expected).y), 3e-6);
  }
};

TEST_F(NcclFaultsTest, AbortEndsTheWaitOfOthersForGood) {
  const auto begin = steady_clock::now();
  {
    ConnectedGpus gpus;
    const std::vector<TypedArray> terms = Terms(gpus);
    std::thread aborting([&] {
      std::this_thread::sleep_for(milliseconds(100));
      gpus.communicator(0).Abort(absl::InternalError("rank 0 broke"));
    });
    gpus.Run(
        [&](int r) {
          gpus.communicator(r).AllReduceSum(terms[r].device());
          EXPECT_TRUE(gpus.communicator(r).status().ok());
          EXPECT_TRUE(gpus.backend(r).Synchronize().ok());
          EXPECT_EQ(gpus.communicator(r).status(), absl::UnavailableError("rank 0 broke"));
        },
        /*first=*/1);
    aborting.join();
    for (int r = 0; r < gpus.size(); ++r) {
      gpus.communicator(r).AllReduceSum(terms[r].device());  // returns, alone
      gpus.communicator(r).Abort(absl::InternalError("later"));
      EXPECT_EQ(gpus.communicator(r).status(), absl::UnavailableError("rank 0 broke"));
      ExpectComputes(gpus.backend(r));
    }
  }
  EXPECT_LT(steady_clock::now() - begin, 4 * kSoon);
}

TEST_F(NcclFaultsTest, ARankThatDoesNotComeFailsTheOthers) {
  ConnectedGpus gpus(milliseconds(500));
  const std::vector<TypedArray> terms = Terms(gpus);
  const auto begin = steady_clock::now();
  gpus.Run(
      [&](int r) {
        gpus.communicator(r).AllReduceSum(terms[r].device());
        EXPECT_TRUE(gpus.backend(r).Synchronize().ok());
        EXPECT_TRUE(absl::IsUnavailable(gpus.communicator(r).status()));
      },
      /*first=*/1);
  const auto took = steady_clock::now() - begin;
  EXPECT_GE(took, milliseconds(400));
  EXPECT_LT(took, kSoon);
  EXPECT_THAT(
      std::string(gpus.communicator(0).status().message()),
      HasSubstr("1 of " + std::to_string(gpus.size()) + " ranks did not come within 500 ms"));
  gpus.communicator(0).AllReduceSum(terms[0].device());  // too late, and alone
  EXPECT_TRUE(gpus.backend(0).Synchronize().ok());
  for (int r = 0; r < gpus.size(); ++r) ExpectComputes(gpus.backend(r));
}

// A stage that waits for a message of one that is gone.
TEST_F(NcclFaultsTest, ANeighbourThatDoesNotComeFailsTheOthers) {
  ConnectedGpus gpus(milliseconds(500), RankTraffic::kMessages);
  const std::vector<TypedArray> terms = Terms(gpus);
  const auto begin = steady_clock::now();
  gpus.communicator(1).Receive(terms[1].device(), 0);
  EXPECT_TRUE(gpus.backend(1).Synchronize().ok());
  EXPECT_LT(steady_clock::now() - begin, kSoon);
  for (int r = 0; r < gpus.size(); ++r) {
    EXPECT_THAT(std::string(gpus.communicator(r).status().message()),
                HasSubstr("ranks did not come within 500 ms"));
    gpus.communicator(r).Send(terms[r].device(), (r + 1) % gpus.size());  // returns, alone
    ExpectComputes(gpus.backend(r));
  }
}

// Of ranks that joined each aborts for itself: that all hear of it is not NCCL's matter.
TEST_F(NcclFaultsTest, AJoinedRankIsAbortedAlone) {
  ConnectedGpus gpus(std::chrono::seconds(20), RankTraffic::kCollectives, /*joins=*/true);
  const std::vector<TypedArray> terms = Terms(gpus);
  const auto begin = steady_clock::now();
  std::thread aborting([&] {
    std::this_thread::sleep_for(milliseconds(100));
    for (int r = 1; r < gpus.size(); ++r) {
      gpus.communicator(r).Abort(absl::InternalError("rank 0 is lost"));
    }
  });
  gpus.Run(
      [&](int r) {
        gpus.communicator(r).AllReduceSum(terms[r].device());
        EXPECT_TRUE(gpus.backend(r).Synchronize().ok());
        EXPECT_EQ(gpus.communicator(r).status(), absl::UnavailableError("rank 0 is lost"));
        ExpectComputes(gpus.backend(r));
      },
      /*first=*/1);
  aborting.join();
  EXPECT_LT(steady_clock::now() - begin, kSoon);
  EXPECT_TRUE(gpus.communicator(0).status().ok());
}

// Ranks of processes hear of a loss one after the other: the last one is in a collective, and
// reaches for what the others have, long after these have been aborted. Nothing was recorded that
// would keep their memory.
TEST_F(NcclFaultsTest, OthersMayReachWhatAnAbortedRankHas) {
  ConnectedGpus gpus(std::chrono::seconds(20), RankTraffic::kCollectives, /*joins=*/true);
  const std::vector<TypedArray> terms = Terms(gpus);
  std::thread aborting([&] {
    for (int r = gpus.size() - 1; r > 0; --r) {
      std::this_thread::sleep_for(milliseconds(200));
      gpus.communicator(r).Abort(absl::InternalError("rank 0 is lost"));
    }
  });
  gpus.Run(
      [&](int r) {
        for (int i = 0; i < 20; ++i) gpus.communicator(r).AllReduceSum(terms[r].device());
        EXPECT_TRUE(gpus.backend(r).Synchronize().ok());
        EXPECT_EQ(gpus.communicator(r).status(), absl::UnavailableError("rank 0 is lost"));
        ExpectComputes(gpus.backend(r));
      },
      /*first=*/1);
  aborting.join();
}

TEST_F(NcclFaultsTest, WhoJoinsAloneWaitsNoLongerThanTheLimit) {
  auto backend = cuda::CudaBackend::Create(0, kTestGpuMemory);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const auto name = cuda::NameNcclRanks();
  ASSERT_TRUE(name.ok()) << name.status();
  const auto begin = steady_clock::now();
  const absl::Status alone = cuda::JoinNcclRanks((*backend)->device(), {0, 2, *name},
                                                 RankTraffic::kCollectives, milliseconds(500))
                                 .status();
  EXPECT_LT(steady_clock::now() - begin, kSoon);
  EXPECT_TRUE(absl::IsUnavailable(alone));
  EXPECT_THAT(std::string(alone.message()), HasSubstr("GPU 0 as rank 0 of 2 within 500 ms"));
}

// The limit is for one wait, not for all of them together.
TEST_F(NcclFaultsTest, ManyShortWaitsAreNoFault) {
  ConnectedGpus gpus(milliseconds(500));
  const std::vector<TypedArray> terms = Terms(gpus);
  for (int call = 0; call < 12; ++call) {
    gpus.Run([&](int r) {
      if (r == 0) std::this_thread::sleep_for(milliseconds(100));
      gpus.communicator(r).AllReduceSum(terms[r].device());
      EXPECT_TRUE(gpus.backend(r).Synchronize().ok());
    });
  }
  gpus.ExpectNoFault();
}

// A recording is waited in, aborted and let go of; what is replayed afterwards ends as well.
TEST_F(NcclFaultsTest, RecordingsEndWithTheAbort) {
  const auto begin = steady_clock::now();
  {
    ConnectedGpus gpus;
    const std::vector<TypedArray> terms = Terms(gpus);
    const auto replay = [&](int r) {
      gpus.backend(r).Replay(1, [&] { gpus.communicator(r).AllReduceSum(terms[r].device()); });
    };
    for (int i = 0; i < 3; ++i) gpus.Run(replay);
    gpus.ExpectNoFault();
    std::thread aborting([&] {
      std::this_thread::sleep_for(milliseconds(100));
      gpus.communicator(1).Abort(absl::InternalError("enough"));
    });
    gpus.Run(
        [&](int r) {
          replay(r);
          EXPECT_TRUE(gpus.backend(r).Synchronize().ok());
          EXPECT_EQ(gpus.communicator(r).status().message(), "enough");
          replay(r);
          EXPECT_TRUE(gpus.backend(r).Synchronize().ok());
        },
        /*first=*/1);
    aborting.join();
    for (int r = 0; r < gpus.size(); ++r) ExpectComputes(gpus.backend(r));
  }
  EXPECT_LT(steady_clock::now() - begin, 4 * kSoon);
}

// Aborts that meet collectives anywhere: nobody hangs.
TEST_F(NcclFaultsTest, AbortsAtAnyTime) {
  for (int round = 0; round < 6; ++round) {
    ConnectedGpus gpus;
    const std::vector<TypedArray> terms = Terms(gpus);
    const auto delay = std::chrono::microseconds(RandomInt(0, 20000));
    std::thread aborting([&] {
      std::this_thread::sleep_for(delay);
      gpus.communicator(0).Abort(absl::CancelledError("enough"));
    });
    const auto begin = steady_clock::now();
    gpus.Run([&](int r) {
      for (int i = 0; gpus.communicator(r).status().ok() && steady_clock::now() - begin < kSoon;
           ++i) {
        gpus.communicator(r).AllReduceSum(terms[r].device());
        if (i % 16 != r) continue;
        EXPECT_TRUE(gpus.backend(r).Synchronize().ok());
      }
    });
    aborting.join();
    EXPECT_EQ(gpus.communicator(1).status().message(), "enough");
  }
}

// Kernels are loaded, and graphs made, on a rank for which another one waits in a collective.
TEST_F(NcclFaultsTest, ARankMayRecordWhileAnotherWaits) {
  ConnectedGpus gpus(std::chrono::seconds(5));
  const std::vector<TypedArray> terms = Terms(gpus);
  for (uint64_t key = 0; key < 4; ++key) {
    gpus.Run([&](int r) {
      if (r == 0) {
        std::this_thread::sleep_for(milliseconds(20));
        const TypedArray x =
            TypedArray::Random(gpus.backend(0), DType::kBFloat16, 4, 64, 1.0f, random());
        const TypedArray gain(gpus.backend(0), DType::kBFloat16, 1, 64,
                              std::vector<float>(64, 1.0f));
        for (int i = 0; i < 3; ++i) {
          gpus.backend(0).Replay(100 + key, [&] {
            gpus.backend(0).Norm({.x = x.device(), .gain = gain.device_vector(), .y = x.device()});
          });
        }
      }
      gpus.communicator(r).AllReduceSum(terms[r].device());
      EXPECT_TRUE(gpus.backend(r).Synchronize().ok());
    });
    gpus.ExpectNoFault();
  }
}

TEST(NcclRefusalTest, AGpuIsOneRank) {
  auto one = cuda::CudaBackend::Create(0, kTestGpuMemory);
  auto other = cuda::CudaBackend::Create(0, kTestGpuMemory);
  ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
  cuda::Device* const devices[] = {&(*one)->device(), &(*other)->device()};
  const absl::Status status =
      cuda::MakeNcclCommunicators(devices, RankTraffic::kCollectives).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "GPU 0 is to be two ranks; accepted: a GPU for each");
}

}  // namespace
}  // namespace beamline::nccl_faults_test
