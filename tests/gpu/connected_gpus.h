// Ranks on the GPUs of this machine, connected by NCCL, and threads that are these ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/cuda/communication/nccl_communicator.h"
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/test_gpu_memory.h"
#include "tests/test_seed.h"

namespace beamline {

class ConnectedGpus {
 public:
  // `joins`: they are connected as ranks of different processes are.
  explicit ConnectedGpus(std::chrono::nanoseconds time_limit = std::chrono::seconds(20),
                         RankTraffic traffic = RankTraffic::kCollectives, bool joins = false) {
    int count = 0;
    BEAMLINE_CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
    std::vector<cuda::Device*> devices;
    for (int gpu = 0; gpu < std::min(count, 8); ++gpu) {
      auto backend = cuda::CudaBackend::Create(gpu, kTestGpuMemory);
      EXPECT_TRUE(backend.ok()) << backend.status();
      BEAMLINE_CHECK(backend.ok());
      devices.push_back(&(*backend)->device());
      backends_.push_back(*std::move(backend));
    }
    if (joins) {
      Join(devices, traffic, time_limit);
      return;
    }
    auto communicators = cuda::MakeNcclCommunicators(devices, traffic, time_limit);
    EXPECT_TRUE(communicators.ok()) << communicators.status();
    BEAMLINE_CHECK(communicators.ok());
    communicators_ = *std::move(communicators);
  }
  // Their recordings first. NCCL lets ranks of one process go together, so that they go at once.
  ~ConnectedGpus() {
    const int num_ranks = size();
    backends_.clear();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < num_ranks; ++rank) {
      threads.emplace_back([this, rank] { communicators_[rank].reset(); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  int size() const { return static_cast<int>(backends_.size()); }
  cuda::CudaBackend& backend(int rank) { return *backends_[rank]; }
  Communicator& communicator(int rank) { return *communicators_[rank]; }

  // Calls `work` on a thread for each rank from `first` on, and waits for all.
  void Run(absl::FunctionRef<void(int rank)> work, int first = 0) {
    std::vector<std::thread> threads;
    for (int rank = first; rank < size(); ++rank)
      threads.emplace_back([&work, rank] { work(rank); });
    for (std::thread& thread : threads) thread.join();
  }
  void ExpectNoFault() {
    for (int rank = 0; rank < size(); ++rank) {
      EXPECT_TRUE(backend(rank).Synchronize().ok());
      EXPECT_TRUE(communicator(rank).status().ok()) << communicator(rank).status();
    }
  }

 private:
  // Each rank for itself, as processes do.
  void Join(const std::vector<cuda::Device*>& devices, RankTraffic traffic,
            std::chrono::nanoseconds time_limit) {
    const auto name = cuda::NameNcclRanks();
    BEAMLINE_CHECK(name.ok());
    communicators_.resize(devices.size());
    Run([&](int rank) {
      auto joined = cuda::JoinNcclRanks(*devices[rank], {rank, size(), *name}, traffic, time_limit);
      EXPECT_TRUE(joined.ok()) << joined.status();
      BEAMLINE_CHECK(joined.ok());
      communicators_[rank] = *std::move(joined);
    });
  }

  std::vector<std::unique_ptr<cuda::CudaBackend>> backends_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

class RandomTest : public testing::Test {
 protected:
  void SetUp() override {
    seed_ = TestSeed();
    random_.seed(seed_);
  }
  void TearDown() override {
    if (HasFailure()) std::fprintf(stderr, "seed %u\n", seed_);
  }
  int RandomInt(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  std::mt19937& random() { return random_; }

 private:
  unsigned seed_ = 0;
  std::mt19937 random_;
};

}  // namespace beamline
