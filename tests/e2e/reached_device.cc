// Stands for libbeamline_cuda.so and for libcuda.so.1: a CPU that says it is eight GPUs, whose
// ranks in different processes come together as NCCL's do, with what decides how they end:
// - a rank has memory that the others reach, in a file of the folder BEAMLINE_TEST_REACHED_FOLDER,
//   from its joining until its communicator goes, or until its process has ended and nobody reaches
//   it any more;
// - a rank whose peer is lost does not notice: it waits, reaching for the others' memory, until it
//   is aborted;
// - who reaches for memory that a living process has let go of has a broken device.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/process_communicator.h"
#include "kernels/cuda_module.h"
#include "kernels/rank_links.h"
#include "kernels/rank_sockets.h"
#include "tests/engine/late_backend.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

using beamline::Communicator;
using beamline::RankDoor;
using beamline::RankLinks;
using beamline::RankSocket;
using beamline::Tensor;

constexpr int kGpus = 8;
constexpr std::chrono::milliseconds kBetweenReaches{1};

int Refuse(absl::StatusCode code, const std::string& why, char* error, size_t error_size) {
  std::snprintf(error, error_size, "%s", why.c_str());
  return static_cast<int>(code);
}

// One rank's, as every process of the group sees it.
class ReachedMemory {
 public:
  ReachedMemory(const std::string& group, int rank) {
    const char* const folder = std::getenv("BEAMLINE_TEST_REACHED_FOLDER");
    const std::string path = std::string(folder == nullptr ? "/nonexistent" : folder) + "/" +
                             group + "." + std::to_string(rank);
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(*state_)) != 0) return;
    void* const mapped =
        mmap(nullptr, sizeof(*state_), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) state_ = static_cast<std::atomic<uint32_t>*>(mapped);
  }
  ReachedMemory(ReachedMemory&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  ~ReachedMemory() {
    if (state_ != nullptr) munmap(state_, sizeof(*state_));
  }

  bool is_open() const { return state_ != nullptr; }
  void LetGo() { *state_ = 1; }
  bool is_let_go() const { return *state_ != 0; }

 private:
  std::atomic<uint32_t>* state_ = nullptr;  // 0: held
};

class ReachingCommunicator final : public Communicator {
 public:
  ReachingCommunicator(beamline::LateBackend& device, std::shared_ptr<RankLinks> links,
                       std::vector<ReachedMemory> memory)
      : Communicator(links->rank(), links->size()),
        device_(device),
        links_(links),
        inner_(beamline::MakeProcessCommunicator(std::move(links))),
        memory_(std::move(memory)) {}
  ~ReachingCommunicator() override { memory_[static_cast<size_t>(rank())].LetGo(); }

  absl::Status status() const override {
    std::lock_guard lock(mutex_);
    return fault_;
  }
  void Abort(const absl::Status& why) override {
    std::lock_guard lock(mutex_);
    if (fault_.ok()) fault_ = absl::UnavailableError(why.message());
  }

 private:
  void DoAllReduceSum(const Tensor& x) override {
    Together([&] { inner_->AllReduceSum(x); });
  }
  void DoAllGather(const Tensor& part, const Tensor& whole) override {
    Together([&] { inner_->AllGather(part, whole); });
  }
  void DoBroadcast(const Tensor& x, int root) override {
    Together([&] { inner_->Broadcast(x, root); });
  }
  void DoMergeCandidates(const beamline::MergeCandidatesParams& params) override {
    Together([&] { inner_->MergeCandidates(params); });
  }

  // A kernel of NCCL's.
  template <typename Collective>
  void Together(const Collective& collective) {
    if (!status().ok()) return;
    collective();
    while (!links_->fault().ok()) {
      const bool is_aborted = !status().ok();
      for (const ReachedMemory& memory : memory_) {
        if (memory.is_let_go()) device_.BreakAfter(-1);
      }
      if (is_aborted) return;
      std::this_thread::sleep_for(kBetweenReaches);
    }
  }

  beamline::LateBackend& device_;
  const std::shared_ptr<RankLinks> links_;
  const std::unique_ptr<Communicator> inner_;
  std::vector<ReachedMemory> memory_;  // of every rank
  mutable std::mutex mutex_;
  absl::Status fault_;  // guarded by mutex_
};

// Where the ranks of a name come together; the process that made the name listens there.
struct Meeting {
  std::mutex mutex;
  RankSocket listener;
};
Meeting& TheMeeting() {
  static Meeting meeting;
  return meeting;
}

}  // namespace

EXPORTED int beamline_cuda_create(int, int, const beamline::GpuMemoryLimit*,
                                  beamline::Backend** backend, char*, size_t) {
  *backend = new beamline::LateBackend(1);
  return 0;
}

EXPORTED int beamline_cuda_count(int, int* count, char*, size_t) {
  *count = kGpus;
  return 0;
}

EXPORTED int beamline_cuda_connect(int, beamline::RankTraffic, beamline::Backend* const*, int,
                                   Communicator**, char* error, size_t error_size) {
  return Refuse(absl::StatusCode::kUnimplemented, "ranks are processes here", error, error_size);
}

EXPORTED int beamline_cuda_name_ranks(int, char* name, char* error, size_t error_size) {
  auto listener = beamline::ListenAt({.host = "127.0.0.1"});
  if (!listener.ok()) {
    return Refuse(listener.status().code(), listener.status().ToString(), error, error_size);
  }
  std::memset(name, 0, beamline::kRanksNameBytes);
  std::snprintf(name, beamline::kRanksNameBytes, "%d", beamline::PortOf(*listener));
  std::lock_guard lock(TheMeeting().mutex);
  TheMeeting().listener = *std::move(listener);
  return 0;
}

EXPORTED int beamline_cuda_join(int, beamline::Backend* backend, const beamline::CudaRank* rank,
                                Communicator** communicator, char* error, size_t error_size) {
  if (rank->traffic != beamline::RankTraffic::kCollectives) {
    return Refuse(absl::StatusCode::kUnimplemented, "no stages here", error, error_size);
  }
  const RankDoor door = {.host = "127.0.0.1",
                         .port = std::atoi(rank->name),
                         .size = rank->size,
                         .secret = "ranks of one name"};
  absl::StatusOr<std::shared_ptr<RankLinks>> links = absl::UnknownError("");
  if (rank->rank == 0) {
    std::unique_lock lock(TheMeeting().mutex);
    RankSocket listener = std::move(TheMeeting().listener);
    lock.unlock();
    links = RankLinks::Gather(door, std::move(listener));
  } else {
    links = RankLinks::Join(door, rank->rank);
  }
  if (!links.ok()) {
    return Refuse(links.status().code(), links.status().ToString(), error, error_size);
  }
  std::vector<ReachedMemory> memory;
  for (int each = 0; each < rank->size; ++each) memory.emplace_back(rank->name, each);
  for (const ReachedMemory& each : memory) {
    if (!each.is_open()) {
      return Refuse(absl::StatusCode::kInternal, "BEAMLINE_TEST_REACHED_FOLDER is no folder", error,
                    error_size);
    }
  }
  *communicator = new ReachingCommunicator(*static_cast<beamline::LateBackend*>(backend),
                                           *std::move(links), std::move(memory));
  return 0;
}

static_assert(std::is_same_v<decltype(beamline_cuda_create), beamline::CudaCreateFunction>);
static_assert(std::is_same_v<decltype(beamline_cuda_count), beamline::CudaCountFunction>);
static_assert(std::is_same_v<decltype(beamline_cuda_connect), beamline::CudaConnectFunction>);
static_assert(std::is_same_v<decltype(beamline_cuda_name_ranks), beamline::CudaNameRanksFunction>);
static_assert(std::is_same_v<decltype(beamline_cuda_join), beamline::CudaJoinFunction>);
