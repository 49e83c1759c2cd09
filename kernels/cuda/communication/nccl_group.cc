#include "kernels/cuda/communication/nccl_group.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline::cuda {
namespace {

constexpr std::chrono::milliseconds kMostBetweenLooks{100};
constexpr int kFewestLooks = 10;  // per time limit
// How long an abort waits for a thread to return from an NCCL call that waits for the GPU.
constexpr std::chrono::seconds kTimeToLeave{10};
// A wait in a kernel lasts this many time limits. So the watcher finds a rank that waits on the
// host first, and reports how many ranks did not come.
constexpr int kPeerTimeLimits = 2;

constexpr char kPeerSumsVariable[] = "BEAMLINE_PEER_SUMS";

bool MayUsePeers() {
  const char* const value = std::getenv(kPeerSumsVariable);
  return value == nullptr || std::string_view(value) != "0";
}

absl::Status CheckReachEachOther(std::span<Device* const> devices) {
  for (const Device* const one : devices) {
    for (const Device* const other : devices) {
      if (one == other) continue;
      if (one->index() == other->index()) {
        return absl::FailedPreconditionError(
            fmt::format("GPU {} is to be two ranks; accepted: a GPU for each", one->index()));
      }
      int can = 0;
      const cudaError_t error = cudaDeviceCanAccessPeer(&can, one->index(), other->index());
      if (error != cudaSuccess) cudaGetLastError();
      if (error == cudaSuccess && can != 0) continue;
      return absl::FailedPreconditionError(
          fmt::format("GPU {} cannot reach the memory of GPU {} (`nvidia-smi topo -p2p r` shows "
                      "which can); accepted: GPUs with peer access",
                      one->index(), other->index()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<NcclGroup>> NcclGroup::Create(std::span<Device* const> devices,
                                                             RankTraffic traffic,
                                                             std::chrono::nanoseconds time_limit) {
  BEAMLINE_ASSIGN_OR_RETURN(const NcclLibrary nccl, OpenNccl());
  BEAMLINE_RETURN_IF_ERROR(CheckReachEachOther(devices));
  const auto size = static_cast<int>(devices.size());
  std::shared_ptr<NcclGroup> group(new NcclGroup(nccl, devices, 0, size, time_limit));
  BEAMLINE_RETURN_IF_ERROR(group->Connect());
  BEAMLINE_RETURN_IF_ERROR(traffic == RankTraffic::kMessages ? group->ConnectNeighbours(devices)
                                                             : group->ConnectPeers(devices));
  group->watcher_ = std::thread([self = group.get()] { self->Watch(); });
  return group;
}

absl::StatusOr<std::shared_ptr<NcclGroup>> NcclGroup::Join(Device& device, const NcclPlace& place,
                                                           RankTraffic traffic,
                                                           std::chrono::nanoseconds time_limit) {
  BEAMLINE_ASSIGN_OR_RETURN(const NcclLibrary nccl, OpenNccl());
  Device* const only = &device;
  const std::span<Device* const> devices(&only, 1);
  std::shared_ptr<NcclGroup> group(
      new NcclGroup(nccl, devices, place.rank, place.size, time_limit));
  BEAMLINE_RETURN_IF_ERROR(group->ConnectRank(place.name));
  group->HoldMemory(device);
  group->watcher_ = std::thread([self = group.get()] { self->Watch(); });
  if (traffic == RankTraffic::kMessages) {
    const WaitMark::Scope waiting(*device.wait_mark());
    BEAMLINE_RETURN_IF_ERROR(group->ConnectNeighbours(devices));
  }
  return group;
}

NcclGroup::NcclGroup(const NcclLibrary& nccl, std::span<Device* const> devices, int first_rank,
                     int size, std::chrono::nanoseconds time_limit)
    : nccl_(nccl),
      time_limit_(time_limit),
      between_looks_(
          std::min<std::chrono::nanoseconds>(kMostBetweenLooks, time_limit / kFewestLooks)),
      first_rank_(first_rank),
      size_(size) {
  for (Device* const device : devices) {
    members_.push_back(std::make_unique<Member>());
    members_.back()->device = device->index();
    members_.back()->waits = device->wait_mark();
  }
}

absl::Status NcclGroup::Connect() {
  std::vector<int> devices;
  for (const auto& member : members_) devices.push_back(member->device);
  std::vector<NcclComm> comms(devices.size(), nullptr);
  const int result = nccl_.comm_init_all(comms.data(), size(), devices.data());
  if (result != kNcclSuccess) {
    return absl::UnavailableError(
        fmt::format("NCCL {} does not connect the GPUs: {} (NCCL_DEBUG=WARN in the environment "
                    "shows why)",
                    nccl_.version, nccl_.get_error_string(result)));
  }
  for (size_t rank = 0; rank < comms.size(); ++rank) members_[rank]->comm = comms[rank];
  return absl::OkStatus();
}

// NCCL waits for a missing rank as long as its sockets do, and nothing ends that wait. So a
// separate thread waits.
absl::Status NcclGroup::ConnectRank(const NcclName& name) {
  struct Attempt {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<int> result;
    NcclComm comm = nullptr;
    bool is_given_up = false;
  };
  const auto attempt = std::make_shared<Attempt>();
  Member& member = *members_.front();
  std::thread([attempt, name, nccl = nccl_, size = size_, rank = first_rank_,
               device = member.device] {
    NcclComm comm = nullptr;
    cudaSetDevice(device);
    const int result = nccl.comm_init_rank(&comm, size, name, rank);
    std::lock_guard lock(attempt->mutex);
    attempt->result = result;
    attempt->comm = comm;
    if (attempt->is_given_up && result == kNcclSuccess) nccl.comm_abort(comm);
    attempt->done.notify_all();
  }).detach();
  std::unique_lock lock(attempt->mutex);
  attempt->is_given_up =
      !attempt->done.wait_for(lock, time_limit_, [&] { return attempt->result.has_value(); });
  if (attempt->is_given_up) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time_limit_).count();
    return absl::UnavailableError(fmt::format(
        "NCCL {} does not connect GPU {} as rank {} of {} within {} ms (NCCL_DEBUG=INFO "
        "in the environment shows why)",
        nccl_.version, member.device, first_rank_, size_, ms));
  }
  if (*attempt->result != kNcclSuccess) {
    return absl::UnavailableError(
        fmt::format("NCCL {} does not connect GPU {} as rank {} of {}: {} (NCCL_DEBUG=WARN in the "
                    "environment shows why)",
                    nccl_.version, member.device, first_rank_, size_,
                    nccl_.get_error_string(*attempt->result)));
  }
  member.comm = attempt->comm;
  return absl::OkStatus();
}

// An abort ends this rank's kernels and then frees memory. Kernels of other processes still read
// and write that memory until they are aborted too. They would access an illegal address, which
// destroys their GPU's context. NCCL frees nothing while a CUDA graph has kernels of the
// communicator. So this captures a graph that is never replayed. If the capture fails there is no
// such graph, and models work all the same.
void NcclGroup::HoldMemory(Device& device) {
  device.Use();
  device.BeginOperator();
  float* const word = device.TakeScratch<float>(1);
  if (word == nullptr) return;
  Member& member = *members_.front();
  const cudaStream_t stream = device.stream();
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess) {
    const int result = nccl_.all_reduce(word, word, 1, kNcclFloat32, kNcclSum, member.comm, stream);
    const cudaError_t ended = cudaStreamEndCapture(stream, &member.hold);
    if (member.hold != nullptr && (result != kNcclSuccess || ended != cudaSuccess)) {
      cudaGraphDestroy(std::exchange(member.hold, nullptr));
    }
  }
  cudaGetLastError();  // a failed capture is not a fault
}

absl::Status NcclGroup::ConnectPeers(std::span<Device* const> devices) {
  if (!MayUsePeers() || !PeerAllReduce::Suits(devices)) return absl::OkStatus();
  PeerOptions options;
  options.time_limit = kPeerTimeLimits * time_limit_;
  BEAMLINE_ASSIGN_OR_RETURN(auto ends, PeerAllReduce::Create(devices, options));
  for (size_t rank = 0; rank < ends.size(); ++rank) members_[rank]->peers = std::move(ends[rank]);
  return absl::OkStatus();
}

// NCCL connects a sender and a receiver at their first message. That waits on the host for both
// ranks, and takes driver memory. So every rank sends a byte to the next one now.
absl::Status NcclGroup::ConnectNeighbours(std::span<Device* const> devices) {
  std::vector<char*> bytes;
  for (Device* const device : devices) {
    device->Use();
    device->BeginOperator();
    bytes.push_back(device->TakeScratch<char>(2));
    BEAMLINE_RETURN_IF_ERROR(device->status());
  }
  int result = nccl_.group_start();
  for (size_t i = 0; i < devices.size(); ++i) {
    const int rank = first_rank_ + static_cast<int>(i);
    if (result == kNcclSuccess && rank + 1 < size_) {
      result =
          nccl_.send(bytes[i], 1, kNcclUint8, rank + 1, members_[i]->comm, devices[i]->stream());
    }
    if (result == kNcclSuccess && rank > 0) {
      result = nccl_.receive(bytes[i] + 1, 1, kNcclUint8, rank - 1, members_[i]->comm,
                             devices[i]->stream());
    }
  }
  const int ended = nccl_.group_end();
  if (result == kNcclSuccess) result = ended;
  if (result != kNcclSuccess) {
    return absl::UnavailableError(
        fmt::format("NCCL {} does not send from one GPU to the next: {} (NCCL_DEBUG=WARN in the "
                    "environment shows why)",
                    nccl_.version, nccl_.get_error_string(result)));
  }
  for (Device* const device : devices) {
    device->Use();
    BEAMLINE_RETURN_IF_ERROR(device->Synchronize());
  }
  return fault();
}

NcclGroup::~NcclGroup() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  // A running abort waits until these are destroyed.
  for (const auto& member : members_) {
    if (member->hold != nullptr) cudaGraphDestroy(member->hold);
  }
  if (watcher_.joinable()) watcher_.join();
  if (failed()) AbortAll();
  for (const auto& member : members_) {
    if (member->comm != nullptr) nccl_.comm_destroy(member->comm);
  }
}

void NcclGroup::Call(int rank, const char* what, absl::FunctionRef<int(NcclComm)> enqueue) {
  Member& member = MemberOf(rank);
  int result = kNcclSuccess;
  {
    std::lock_guard calling(member.calling);
    if (failed() || member.comm == nullptr) return;
    result = enqueue(member.comm);
  }
  if (result == kNcclSuccess) return;
  Fail(absl::UnavailableError(
      fmt::format("GPU {}: {}: {}", member.device, what, nccl_.get_error_string(result))));
}

absl::Status NcclGroup::fault() const {
  {
    std::lock_guard lock(mutex_);
    if (!fault_.ok()) return fault_;
  }
  // Kernels may have reported a fault that the watcher has not seen yet.
  const auto& peers = members_.front()->peers;
  return peers == nullptr ? absl::OkStatus() : peers->status();
}

void NcclGroup::Fail(const absl::Status& why) {
  BEAMLINE_CHECK(!why.ok());
  {
    std::lock_guard lock(mutex_);
    if (!fault_.ok()) return;
    fault_ = absl::UnavailableError(std::string(why.message()));
    failed_.store(true, std::memory_order_release);
  }
  if (const auto& peers = members_.front()->peers; peers != nullptr) peers->Abort();
  changed_.notify_all();
}

void NcclGroup::Watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && fault_.ok()) {
    changed_.wait_for(lock, between_looks_, [&] { return stopping_ || !fault_.ok(); });
    if (stopping_ || !fault_.ok()) break;
    lock.unlock();
    LookForErrors();
    LookAtPeers();
    LookForWaits();
    lock.lock();
  }
  lock.unlock();
  if (failed()) AbortAll();
}

void NcclGroup::LookForErrors() {
  for (const auto& member : members_) {
    std::unique_lock calling(member->calling, std::try_to_lock);
    if (!calling.owns_lock() || member->comm == nullptr) continue;
    int error = kNcclSuccess;
    const int result = nccl_.comm_get_async_error(member->comm, &error);
    if (result != kNcclSuccess) error = result;
    if (error == kNcclSuccess || error == kNcclInProgress) continue;
    return Fail(absl::UnavailableError(fmt::format("GPU {}: NCCL reports an error: {}",
                                                   member->device, nccl_.get_error_string(error))));
  }
}

void NcclGroup::LookAtPeers() {
  const auto& peers = members_.front()->peers;
  if (peers == nullptr) return;
  if (const absl::Status status = peers->status(); !status.ok()) Fail(status);
}

// Counts looks instead of time, because no look passes while the process is stopped.
void NcclGroup::LookForWaits() {
  const int64_t most_looks = time_limit_ / between_looks_;
  bool over = false;
  int num_waiting = size() - static_cast<int>(members_.size());  // waits of others are not visible
  for (const auto& member : members_) {
    const uint64_t num_changes = member->waits->num_changes();
    const bool waits = member->waits->is_set() && num_changes == member->num_changes;
    member->num_looks = waits ? member->num_looks + 1 : 0;
    member->num_changes = num_changes;
    num_waiting += waits ? 1 : 0;
    over = over || member->num_looks >= most_looks;
  }
  if (!over) return;
  const auto limit_ms = std::chrono::duration_cast<std::chrono::milliseconds>(time_limit_).count();
  Fail(absl::UnavailableError(
      num_waiting == size()
          ? fmt::format("what {} ranks do together did not end within {} ms", size(), limit_ms)
          : fmt::format("{} of {} ranks did not come within {} ms", size() - num_waiting, size(),
                        limit_ms)));
}

void NcclGroup::AbortAll() {
  std::vector<NcclComm> comms;
  for (const auto& member : members_) {
    std::unique_lock calling(member->calling, kTimeToLeave);
    if (const NcclComm comm = std::exchange(member->comm, nullptr); comm != nullptr) {
      comms.push_back(comm);
    }
  }
  // The kernels of all communicators end at once. The last call returns when no CUDA graph is left.
  for (const NcclComm comm : comms) nccl_.comm_abort(comm);
}

}  // namespace beamline::cuda
