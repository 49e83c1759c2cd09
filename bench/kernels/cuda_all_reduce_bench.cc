// Times all-reduce sums over the GPUs of a host: one-shot, two-shot, and NCCL if it is installed.
// Prints one line each and writes JSON.
//
//   cuda_all_reduce_bench RESULTS.json [RANKS]      RANKS: 2 to 8, default: all GPUs
//
// A time is that of one call in a CUDA graph of many calls, on the slowest rank, as the median over
// rounds. Each line's results are first compared bit by bit across the ranks. Bus bandwidth is 2
// (ranks - 1) / ranks of the bytes, divided by the time, as in NCCL's own benchmarks.
#include <dlfcn.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "kernels/cuda/communication/peer_all_reduce.h"
#include "kernels/cuda/cuda_backend.h"

namespace beamline {
namespace {

using cuda::PeerAlgorithm;
using cuda::PeerAllReduce;

constexpr int kNumRounds = 15;
constexpr int64_t kMostBytes = int64_t{64} << 20;
constexpr double kGraphBytes = 512e6;  // of all calls in a graph, approximately
constexpr int kMostCalls = 200, kFewestCalls = 10;

// The few declarations of nccl.h that are needed; NCCL is loaded at run time.
class Nccl {
 public:
  using Comm = void*;

  explicit Nccl(const std::vector<int>& gpus) {
    // The comparison excludes NVLink multicast.
    setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
    void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto init_all =
        reinterpret_cast<int (*)(Comm*, int, const int*)>(dlsym(library, "ncclCommInitAll"));
    all_reduce_ = reinterpret_cast<AllReduce>(dlsym(library, "ncclAllReduce"));
    const auto version = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
    BEAMLINE_CHECK(init_all != nullptr && all_reduce_ != nullptr && version != nullptr);
    version(&version_);
    comms_.resize(gpus.size());
    BEAMLINE_CHECK(init_all(comms_.data(), static_cast<int>(gpus.size()), gpus.data()) == 0);
  }

  bool there() const { return !comms_.empty(); }
  int version() const { return version_; }
  void Sum(int rank, const Tensor& x, cudaStream_t stream) const {
    const int type = x.dtype == DType::kFloat32 ? 7 : x.dtype == DType::kFloat16 ? 6 : 9;
    constexpr int kSum = 0;
    BEAMLINE_CHECK(all_reduce_(x.data, x.data, static_cast<size_t>(x.num_elements()), type, kSum,
                               comms_[rank], stream) == 0);
  }

 private:
  using AllReduce = int (*)(const void*, void*, size_t, int, int, Comm, cudaStream_t);

  AllReduce all_reduce_ = nullptr;
  int version_ = 0;
  std::vector<Comm> comms_;
};

class Bench {
 public:
  explicit Bench(int num_ranks) {
    std::vector<cuda::Device*> devices;
    for (int rank = 0; rank < num_ranks; ++rank) {
      gpus_.push_back(rank);
      auto backend = cuda::CudaBackend::Create(rank, {.fraction = 0.2});
      if (!backend.ok()) fmt::print(stderr, "{}\n", backend.status().ToString());
      BEAMLINE_CHECK(backend.ok());
      devices.push_back(&(*backend)->device());
      backends_.push_back(*std::move(backend));
      auto memory = backends_.back()->Allocate(kMostBytes);
      BEAMLINE_CHECK(memory.ok());
      memory_.push_back(*std::move(memory));
    }
    auto peers = PeerAllReduce::Create(devices);
    if (!peers.ok()) fmt::print(stderr, "{}\n", peers.status().ToString());
    BEAMLINE_CHECK(peers.ok());
    peers_ = *std::move(peers);
    nccl_ = std::make_unique<Nccl>(gpus_);
  }

  int num_ranks() const { return static_cast<int>(gpus_.size()); }
  const Nccl& nccl() const { return *nccl_; }
  PeerAllReduce& peer(int rank) { return *peers_[rank]; }
  cuda::CudaBackend& backend(int rank) { return *backends_[rank]; }
  cuda::Device& device(int rank) { return backends_[rank]->device(); }
  void* memory(int rank) { return memory_[rank]->data(); }
  Tensor X(int rank, DType dtype, int64_t bytes) {
    return Tensor(memory(rank), dtype, {bytes / static_cast<int64_t>(SizeOf(dtype))});
  }

  // Whether all ranks get the same bits from one call on random numbers.
  bool GivesSameBits(int64_t bytes, const std::function<void(int)>& call) {
    std::vector<std::vector<uint8_t>> results(num_ranks(), std::vector<uint8_t>(bytes));
    Run([&](int rank) {
      // Each 16 bits, and each 32, form a normal number.
      std::mt19937 random(7 + rank);
      std::vector<uint16_t> values(bytes / 2);
      for (uint16_t& value : values) value = static_cast<uint16_t>(0x3c00 + random() % 0x400);
      backend(rank).CopyToDevice(values.data(), memory(rank), bytes);
      call(rank);
      BEAMLINE_CHECK(backend(rank).CopyToHost(memory(rank), results[rank].data(), bytes).ok());
    });
    return std::all_of(results.begin(), results.end(),
                       [&](const auto& result) { return result == results.front(); });
  }

  // Times call(rank), which each rank makes on its own thread and its device's stream. `bytes`: the
  // size of x.
  void Time(const std::string& name, int64_t bytes, const std::function<void(int)>& call) {
    const bool same_bits = GivesSameBits(bytes, call);
    const int calls = std::clamp(static_cast<int>(kGraphBytes / static_cast<double>(bytes)),
                                 kFewestCalls, kMostCalls);
    std::vector<std::vector<double>> microseconds(num_ranks(), std::vector<double>(kNumRounds));
    std::barrier together(num_ranks());
    Run([&](int rank) {
      TimeOnRank(
          rank, bytes, calls, call, [&] { together.arrive_and_wait(); }, microseconds[rank]);
    });
    std::vector<double> slowest(kNumRounds);
    for (int round = 0; round < kNumRounds; ++round) {
      for (const auto& of_rank : microseconds) {
        slowest[round] = std::max(slowest[round], of_rank[round]);
      }
    }
    std::sort(slowest.begin(), slowest.end());
    const double median = slowest[kNumRounds / 2];
    const double spread = (slowest.back() - slowest.front()) / median;
    const double bus =
        2.0 * (num_ranks() - 1) / num_ranks() * static_cast<double>(bytes) / median * 1e-3;
    fmt::print("{:<34} {:>9} bytes {:>9.2f} us {:>7.1f} GB/s  fastest {:.2f} us{}\n", name, bytes,
               median, bus, slowest.front(), same_bits ? "" : "  OTHER BITS ON SOME RANK");
    std::fflush(stdout);
    all_same_bits_ &= same_bits;
    lines_.push_back(
        fmt::format("{{\"name\": \"{}\", \"bytes\": {}, \"us\": {:.3f}, \"bus_gbs\": {:.2f}, "
                    "\"fastest_us\": {:.3f}, \"spread\": {:.4f}, \"same_bits\": {}}}",
                    name, bytes, median, bus, slowest.front(), spread, same_bits));
  }

  bool all_same_bits() const { return all_same_bits_; }
  bool Write(const char* path) {
    std::FILE* const file = std::fopen(path, "w");
    if (file == nullptr) return false;
    fmt::print(file, "{{\"device\": \"{}\", \"ranks\": {}, \"nccl\": {}, \"lines\": [\n",
               backend(0).Description(), num_ranks(), nccl_->version());
    for (size_t i = 0; i < lines_.size(); ++i) {
      fmt::print(file, " {}{}\n", lines_[i], i + 1 < lines_.size() ? "," : "");
    }
    fmt::print(file, "]}}\n");
    return std::fclose(file) == 0;
  }

 private:
  void Run(const std::function<void(int)>& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < num_ranks(); ++rank) {
      threads.emplace_back([&, rank] {
        device(rank).Use();
        work(rank);
        const absl::Status status = peer(rank).status();
        if (!status.ok()) fmt::print(stderr, "rank {}: {}\n", rank, status.ToString());
        BEAMLINE_CHECK(status.ok() && device(rank).Synchronize().ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void TimeOnRank(int rank, int64_t bytes, int calls, const std::function<void(int)>& call,
                  const std::function<void()>& meet, std::vector<double>& microseconds) {
    const cudaStream_t stream = device(rank).stream();
    const auto check = [](cudaError_t error) { BEAMLINE_CHECK(error == cudaSuccess); };
    // Zeros stay zeros in repeated sums.
    check(cudaMemsetAsync(memory(rank), 0, static_cast<size_t>(bytes), stream));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t recording = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < calls; ++i) call(rank);
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&recording, graph, 0));
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    for (int round = -2; round < kNumRounds; ++round) {  // the first two rounds are untimed
      meet();
      // This call synchronizes the ranks on the device, so that the timed calls contain no waiting.
      call(rank);
      check(cudaEventRecord(begin, stream));
      check(cudaGraphLaunch(recording, stream));
      check(cudaEventRecord(end, stream));
      check(cudaEventSynchronize(end));
      float milliseconds = 0.0f;
      check(cudaEventElapsedTime(&milliseconds, begin, end));
      if (round >= 0) microseconds[round] = 1e3 * milliseconds / calls;
    }
    check(cudaEventDestroy(begin));
    check(cudaEventDestroy(end));
    check(cudaGraphExecDestroy(recording));
    check(cudaGraphDestroy(graph));
  }

  std::vector<int> gpus_;
  std::vector<std::unique_ptr<cuda::CudaBackend>> backends_;
  std::vector<std::unique_ptr<Buffer>> memory_;
  std::vector<std::unique_ptr<PeerAllReduce>> peers_;  // destroyed before their devices
  std::unique_ptr<Nccl> nccl_;
  std::vector<std::string> lines_;
  bool all_same_bits_ = true;
};

void TimeSums(Bench& bench, DType dtype, int64_t bytes) {
  const auto peer_sum = [&](PeerAlgorithm algorithm) {
    return [&bench, dtype, bytes, algorithm](int rank) {
      bench.peer(rank).Sum(bench.X(rank, dtype, bytes), algorithm);
    };
  };
  const std::string type = Name(dtype);
  if (cuda::FitsOneShot(bench.num_ranks(), bytes)) {
    bench.Time("one-shot " + type, bytes, peer_sum(PeerAlgorithm::kOneShot));
  }
  bench.Time("two-shot " + type, bytes, peer_sum(PeerAlgorithm::kTwoShot));
  if (!bench.nccl().there()) return;
  bench.Time("NCCL " + type, bytes, [&](int rank) {
    bench.nccl().Sum(rank, bench.X(rank, dtype, bytes), bench.device(rank).stream());
  });
}

int Main(int argc, char** argv) {
  int num_gpus = 0;
  if (cudaGetDeviceCount(&num_gpus) != cudaSuccess) num_gpus = 0;
  const int num_ranks = argc > 2 ? std::atoi(argv[2]) : std::min(num_gpus, cuda::kMostPeerRanks);
  if (argc < 2 || num_ranks < cuda::kLeastPeerRanks || num_ranks > num_gpus) {
    fmt::print(stderr,
               "usage: cuda_all_reduce_bench RESULTS.json [RANKS]\n"
               "RANKS is {}; accepted: {} to {}, the GPUs of this machine: {}\n",
               num_ranks, cuda::kLeastPeerRanks, cuda::kMostPeerRanks, num_gpus);
    return 2;
  }
  Bench bench(num_ranks);
  fmt::print("{} ranks, {}, NCCL {}\n", num_ranks, bench.backend(0).Description(),
             bench.nccl().there() ? std::to_string(bench.nccl().version()) : "not found");
  TimeSums(bench, DType::kBFloat16, cuda::kPeerVecBytes);  // almost only latency
  for (int64_t bytes = int64_t{8} << 10; bytes <= kMostBytes; bytes *= 2) {
    TimeSums(bench, DType::kBFloat16, bytes);
  }
  TimeSums(bench, DType::kFloat32, int64_t{256} << 10);
  TimeSums(bench, DType::kFloat16, int64_t{256} << 10);
  const bool written = bench.Write(argv[1]);
  return written && bench.all_same_bits() ? 0 : 1;
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) { return beamline::Main(argc, argv); }
