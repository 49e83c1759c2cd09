// What the tests of sums over ranks share. Ranks take the GPUs of the machine in turn: with fewer
// of them than ranks, several share one, each with a stream of its own and few blocks, since all of
// them must have room together.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/communication/peer_all_reduce.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/gpu/typed_arrays.h"
#include "tests/kernels/test_gpu_memory.h"
#include "tests/test_seed.h"

namespace beamline {

inline constexpr DType kPeerTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};
inline constexpr int kBlocksOfSharedGpus = 16;

// Before the driver is asked for anything. To load a kernel at its first launch, the driver may
// wait for a GPU's other kernels, and one of them for the rank that launches.
inline const int kLoadKernelsAtOnce = setenv("CUDA_MODULE_LOADING", "EAGER", 1);

// The backends of all tests: opening one takes longer than most of these.
inline std::vector<std::unique_ptr<cuda::CudaBackend>>& AllBackends() {
  static auto* const backends = new std::vector<std::unique_ptr<cuda::CudaBackend>>();
  return *backends;
}

class PeerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(cudaGetDeviceCount(&num_gpus_), cudaSuccess);
    while (AllBackends().size() < cuda::kMostPeerRanks) {
      const int gpu = static_cast<int>(AllBackends().size()) % num_gpus_;
      auto backend = cuda::CudaBackend::Create(gpu, kTestGpuMemory);
      ASSERT_TRUE(backend.ok()) << backend.status();
      AllBackends().push_back(*std::move(backend));
    }
  }
  static void TearDownTestSuite() { AllBackends().clear(); }

  void SetUp() override {
    seed_ = TestSeed();
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) std::fprintf(stderr, "seed %u\n", seed_);
    Close();
  }

  void Open(int size, cuda::PeerOptions options = {}) {
    std::vector<cuda::Device*> devices;
    for (int rank = 0; rank < size; ++rank) devices.push_back(&device(rank));
    if (size > num_gpus_) options.most_blocks = kBlocksOfSharedGpus;
    Close();
    auto peers = cuda::PeerAllReduce::Create(devices, options);
    ASSERT_TRUE(peers.ok()) << peers.status();
    peers_ = *std::move(peers);
  }
  // The devices stay, so that nothing may be under way on them.
  void Close() {
    for (const auto& backend : AllBackends()) EXPECT_TRUE(backend->Synchronize().ok());
    peers_.clear();
  }
  int size() const { return static_cast<int>(peers_.size()); }
  cuda::PeerAllReduce& peer(int rank) { return *peers_[rank]; }
  cuda::CudaBackend& backend(int rank) { return *AllBackends()[rank]; }
  cuda::Device& device(int rank) { return backend(rank).device(); }
  std::mt19937& random() { return random_; }
  unsigned seed() const { return seed_; }

  // A thread for each rank.
  void Run(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] {
        device(rank).Use();
        work(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void ExpectNoFault() {
    for (int rank = 0; rank < size(); ++rank) {
      EXPECT_TRUE(peer(rank).status().ok()) << peer(rank).status();
      EXPECT_TRUE(device(rank).ok()) << device(rank).status();
    }
  }

  std::vector<float> Normal(int64_t count) {
    std::normal_distribution<float> normal(0.0f, 1.0f);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  // A matrix of each rank's own numbers, on its device.
  std::vector<TypedArray> Terms(DType dtype, int64_t rows, int64_t cols) {
    std::vector<TypedArray> terms;
    for (int rank = 0; rank < size(); ++rank) {
      terms.emplace_back(backend(rank), dtype, rows, cols, Normal(rows * cols));
    }
    return terms;
  }

 private:
  static inline int num_gpus_ = 0;
  std::vector<std::unique_ptr<cuda::PeerAllReduce>> peers_;
  std::mt19937 random_;
  unsigned seed_ = 0;
};

}  // namespace beamline
