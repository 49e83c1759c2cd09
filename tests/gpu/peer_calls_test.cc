// Tens of thousands of sums over ranks that come late, recorded and not, each of them compared.
#include <barrier>
#include <chrono>
#include <cmath>
#include <random>

#include "absl/functional/function_ref.h"
#include "tests/gpu/peer_fixture.h"
#include "tests/gpu/peer_patterns.h"

namespace beamline::peer_calls_test {
namespace {

using cuda::PeerAlgorithm;
using cuda::PeerAllReduce;
using PeerCallsTest = PeerTest;

// What a rank computes with on its device: numbers of a call, and how many were wrong.
struct Counters {
  explicit Counters(Backend& backend) {
    auto memory = backend.Allocate(2 * sizeof(uint64_t));
    BEAMLINE_CHECK(memory.ok());
    buffer = *std::move(memory);
    constexpr uint64_t kZeros[2] = {};
    backend.CopyToDevice(kZeros, buffer->data(), sizeof(kZeros));
  }
  uint64_t* call() const { return static_cast<uint64_t*>(buffer->data()); }
  uint64_t* num_wrong() const { return call() + 1; }
  std::unique_ptr<Buffer> buffer;
};

// Sums of one rank on memory of its own, each of them compared on the device.
class Checked {
 public:
  Checked(cuda::CudaBackend& backend, PeerAllReduce& peer, int64_t most_bytes, unsigned seed)
      : backend_(backend), peer_(peer), counters_(backend), delays_(seed + peer.rank()) {
    auto memory = backend.Allocate(most_bytes);
    BEAMLINE_CHECK(memory.ok());
    x_ = *std::move(memory);
  }

  // From the same numbers on all ranks.
  void Sum(std::mt19937& shared) {
    const DType dtype = kPeerTypes[shared() % 3];
    const auto element = static_cast<int64_t>(SizeOf(dtype));
    const double part = std::uniform_real_distribution<double>(0.0, 1.0)(shared);
    const auto most = static_cast<double>(static_cast<int64_t>(x_->size()) / element - 8);
    const auto count = static_cast<int64_t>(std::pow(most, part)) - 1;
    const int64_t offset = shared() % 4 == 0 ? shared() % 8 : 0;
    const bool one_shot = cuda::FitsOneShot(peer_.size(), count * element) && shared() % 3 != 0;
    cuda::Device& device = backend_.device();
    const Tensor x = Tensor(x_->data(), dtype, {1, count + offset}).Columns(offset, count);
    const Tensor dense(x.data, dtype, {count});
    CountCall(device, counters_.call());
    FillPattern(device, dense, peer_.rank(), counters_.call());
    peer_.Sum(dense, one_shot ? PeerAlgorithm::kOneShot : PeerAlgorithm::kTwoShot);
    CheckPattern(device, dense, peer_.size(), counters_.call(), counters_.num_wrong());
  }
  // Now and then.
  void Delay() {
    const auto microseconds = static_cast<int>(delays_() % 200);
    const auto kind = delays_() % 16;
    if (kind == 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    if (kind == 1) Spin(backend_.device(), microseconds);
  }
  // What was counted: calls, and elements that were wrong.
  std::pair<uint64_t, uint64_t> Counted() {
    uint64_t counted[2] = {};
    EXPECT_TRUE(backend_.CopyToHost(counters_.call(), counted, sizeof(counted)).ok());
    return {counted[0], counted[1]};
  }

 private:
  cuda::CudaBackend& backend_;
  PeerAllReduce& peer_;
  const Counters counters_;
  std::unique_ptr<Buffer> x_;
  std::mt19937 delays_;
};

TEST_F(PeerCallsTest, ManyCallsWithRanksThatAreLate) {
  for (const int ranks : {2, 8}) {
    const int num_calls = ranks == 2 ? 24000 : 4000;
    Open(ranks);
    Run([&](int rank) {
      std::mt19937 shared(seed());
      Checked checked(backend(rank), peer(rank), int64_t{3} << 20, seed());
      for (int call = 0; call < num_calls; ++call) {
        checked.Delay();
        checked.Sum(shared);
      }
      const auto [calls, num_wrong] = checked.Counted();
      EXPECT_EQ(calls, static_cast<uint64_t>(num_calls));
      EXPECT_EQ(num_wrong, 0u) << "rank " << rank;
    });
    ExpectNoFault();
  }
}

// What a rank has recorded, which is freed with it.
class Recordings {
 public:
  Recordings(cuda::Device& device, int count) : device_(device), graphs_(count) {}
  ~Recordings() {
    for (const cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
  }
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  // After `work` has run as it is.
  void Record(int i, absl::FunctionRef<void()> work) {
    cudaGraph_t graph = nullptr;
    BEAMLINE_CHECK(cudaStreamBeginCapture(device_.stream(), cudaStreamCaptureModeRelaxed) ==
                   cudaSuccess);
    EXPECT_TRUE(device_.Capture(work).ok());
    device_.Check(cudaStreamEndCapture(device_.stream(), &graph), "cudaStreamEndCapture");
    device_.Check(cudaGraphInstantiate(&graphs_[i], graph, 0), "cudaGraphInstantiate");
    cudaGraphDestroy(graph);
    device_.Check(cudaGraphUpload(graphs_[i], device_.stream()), "cudaGraphUpload");
  }
  void Replay(int i) {
    device_.Check(cudaGraphLaunch(graphs_[i], device_.stream()), "cudaGraphLaunch");
  }

 private:
  cuda::Device& device_;
  std::vector<cudaGraphExec_t> graphs_;
};

// Recordings of several sums, replayed in an order of their own, between calls that are not
// recorded. They are made while nothing runs: to make one the driver may wait for the GPU, and the
// ranks that share it would wait for the one that makes it. (Ranks of a model have a GPU each.)
TEST_F(PeerCallsTest, RecordingsAreReplayedInAnyOrder) {
  constexpr int kNumRecordings = 5, kSumsOfOne = 20, kNumReplays = 600;
  for (const int ranks : {2, 4}) {
    Open(ranks);
    std::barrier all(ranks);
    Run([&](int rank) {
      std::mt19937 shared(seed());
      Checked checked(backend(rank), peer(rank), int64_t{1} << 20, seed());
      const auto sum_up = [&](int recording) {
        std::mt19937 of_recording(seed() + recording);
        for (int i = 0; i < kSumsOfOne; ++i) checked.Sum(of_recording);
      };
      Recordings recordings(device(rank), kNumRecordings);
      for (int i = 0; i < kNumRecordings; ++i) sum_up(i);
      EXPECT_TRUE(backend(rank).Synchronize().ok());
      all.arrive_and_wait();
      for (int i = 0; i < kNumRecordings; ++i) recordings.Record(i, [&] { sum_up(i); });
      EXPECT_TRUE(backend(rank).Synchronize().ok());
      all.arrive_and_wait();
      uint64_t num_calls = kNumRecordings * kSumsOfOne;
      for (int replay = 0; replay < kNumReplays; ++replay) {
        const auto recording = static_cast<int>(shared() % kNumRecordings);
        const bool extra = shared() % 4 == 0;
        checked.Delay();
        recordings.Replay(recording);
        num_calls += kSumsOfOne;
        if (!extra) continue;
        checked.Sum(shared);
        ++num_calls;
      }
      const auto [calls, num_wrong] = checked.Counted();
      EXPECT_EQ(calls, num_calls);
      EXPECT_EQ(num_wrong, 0u) << "rank " << rank;
    });
    ExpectNoFault();
  }
}

// Two models on the same GPUs, with kernels behind the sums that fill a GPU. Were those let come
// while a sum waits, each GPU could be full of what waits for the other one.
TEST_F(PeerCallsTest, TwoGroupsOnTheSameGpus) {
  constexpr int kNumCalls = 2000;
  constexpr int64_t kRows = 4096, kWidth = 1024;
  std::vector<std::unique_ptr<PeerAllReduce>> ends;
  for (const int first : {0, 2}) {
    cuda::Device* const devices[] = {&device(first), &device(first + 1)};
    auto group = PeerAllReduce::Create(
        devices, {.time_limit = std::chrono::seconds(10), .most_blocks = kBlocksOfSharedGpus});
    ASSERT_TRUE(group.ok()) << group.status();
    for (auto& end : *group) ends.push_back(std::move(end));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      std::mt19937 values(seed() + rank);
      cuda::CudaBackend& backend = this->backend(rank);
      const auto terms = TypedArray::Random(backend, DType::kBFloat16, 1, 4096, 1.0f, values);
      const auto rows = TypedArray::Random(backend, DType::kBFloat16, kRows, kWidth, 1.0f, values);
      const TypedArray gain(backend, DType::kBFloat16, 1, kWidth, std::vector<float>(kWidth, 1.0f));
      for (int call = 0; call < kNumCalls; ++call) {
        ends[rank]->Sum(terms.device());
        backend.Norm({.x = rows.device(), .gain = gain.device_vector(), .y = rows.device()});
      }
      EXPECT_TRUE(backend.Synchronize().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& end : ends) EXPECT_TRUE(end->status().ok()) << end->status();
}

}  // namespace
}  // namespace beamline::peer_calls_test
