#include "kernels/cuda/communication/nccl_communicator.h"

#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "base/status.h"
#include "fmt/format.h"
#include "kernels/cuda/communication/columns.h"
#include "kernels/cuda/communication/merge_candidates.h"

namespace beamline::cuda {
namespace {

int NcclTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return kNcclFloat16;
    case DType::kBFloat16:
      return kNcclBFloat16;
    default:
      BEAMLINE_CHECK(dtype == DType::kFloat32);
      return kNcclFloat32;
  }
}

size_t BytesOf(const Tensor& x) { return static_cast<size_t>(x.num_elements()) * SizeOf(x.dtype); }

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(int rank, Device& device, std::shared_ptr<NcclGroup> group)
      : Communicator(rank, group->size()), device_(device), group_(std::move(group)) {}

  absl::Status status() const override { return group_->fault(); }
  void Abort(const absl::Status& why) override { group_->Fail(why); }

 private:
  // The only place that decides how an all-reduce is computed.
  void DoAllReduceSum(const Tensor& x) override {
    if (!Begin()) return;
    PeerAllReduce* const peers = group_->peers(rank());
    if (peers != nullptr && peers->Takes(x.dtype, x.num_elements())) {
      const WaitMark::Scope waiting(*device_.wait_mark());
      peers->Sum(x);
      return;
    }
    Enqueue("ncclAllReduce", [&](NcclComm comm) {
      return group_->nccl().all_reduce(x.data, x.data, static_cast<size_t>(x.num_elements()),
                                       NcclTypeOf(x.dtype), kNcclSum, comm, device_.stream());
    });
  }

  void DoAllGather(const Tensor& part, const Tensor& whole) override {
    if (!Begin()) return;
    const Columns columns = {whole.num_rows(), whole.dim(-1), size()};
    BEAMLINE_CHECK(part.dim(-1) == columns.Width(rank()));
    // All ranks send the same number of columns.
    const size_t bytes =
        static_cast<size_t>(columns.num_rows * columns.MostWidth()) * SizeOf(whole.dtype);
    const bool in_place = columns.are_even() && columns.num_rows == 1;
    const void* sent = part.data;
    if (!columns.are_even() || (columns.num_rows > 1 && part.row_stride != part.dim(-1))) {
      char* const packed = device_.TakeScratch<char>(bytes);
      if (packed != nullptr) PackColumns(device_, part, columns, packed);
      sent = packed;
    }
    char* const received = in_place
                               ? whole.as<char>()
                               : device_.TakeScratch<char>(bytes * static_cast<size_t>(size()));
    if (!Gather(sent, received, bytes) || in_place) return;
    UnpackColumns(device_, received, columns, whole);
  }

  void DoBroadcast(const Tensor& x, int root) override {
    if (!Begin()) return;
    Enqueue("ncclBroadcast", [&](NcclComm comm) {
      return group_->nccl().broadcast(x.data, x.data, BytesOf(x), kNcclUint8, root, comm,
                                      device_.stream());
    });
  }

  void DoSend(const Tensor& x, int to) override {
    if (!Begin()) return;
    Enqueue("ncclSend", [&](NcclComm comm) {
      return group_->nccl().send(x.data, BytesOf(x), kNcclUint8, to, comm, device_.stream());
    });
  }

  void DoReceive(const Tensor& x, int from) override {
    if (!Begin()) return;
    Enqueue("ncclRecv", [&](NcclComm comm) {
      return group_->nccl().receive(x.data, BytesOf(x), kNcclUint8, from, comm, device_.stream());
    });
  }

  void DoMergeCandidates(const MergeCandidatesParams& params) override {
    if (!Begin()) return;
    cuda::MergeCandidates(device_, params, size(),
                          [this](const void* sent, void* received, size_t bytes) {
                            return Gather(sent, received, bytes);
                          });
  }

  // Whether a collective may be enqueued. A failed device fails the group, because the other ranks
  // would wait for it.
  bool Begin() {
    device_.Use();
    device_.BeginOperator();
    return !group_->failed() && MayGoOn();
  }
  bool MayGoOn() {
    // A fault in a capture belongs to the capture; the work is called again.
    if (!device_.ok() && !device_.capturing()) group_->Fail(device_.status());
    return device_.ok();
  }

  void Enqueue(const char* what, absl::FunctionRef<int(NcclComm)> enqueue) {
    const WaitMark::Scope waiting(*device_.wait_mark());
    group_->Call(rank(), what, enqueue);
  }

  // received = the `bytes` of each rank. False: after a fault, with nothing received.
  bool Gather(const void* sent, void* received, size_t bytes) {
    if (!MayGoOn()) return false;
    PeerAllReduce* const peers = group_->peers(rank());
    if (peers != nullptr && peers->TakesGather(sent, received, bytes)) {
      const WaitMark::Scope waiting(*device_.wait_mark());
      peers->Gather(sent, received, bytes);
      return !group_->failed();
    }
    Enqueue("ncclAllGather", [&](NcclComm comm) {
      return group_->nccl().all_gather(sent, received, bytes, kNcclUint8, comm, device_.stream());
    });
    return !group_->failed();
  }

  Device& device_;
  const std::shared_ptr<NcclGroup> group_;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeNcclCommunicators(
    std::span<Device* const> devices, RankTraffic traffic, std::chrono::nanoseconds time_limit) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::shared_ptr<NcclGroup> group,
                            NcclGroup::Create(devices, traffic, time_limit));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    communicators.push_back(
        std::make_unique<NcclCommunicator>(static_cast<int>(rank), *devices[rank], group));
  }
  return communicators;
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinNcclRanks(Device& device, const NcclPlace& place,
                                                            RankTraffic traffic,
                                                            std::chrono::nanoseconds time_limit) {
  BEAMLINE_ASSIGN_OR_RETURN(std::shared_ptr<NcclGroup> group,
                            NcclGroup::Join(device, place, traffic, time_limit));
  return std::make_unique<NcclCommunicator>(place.rank, device, std::move(group));
}

absl::StatusOr<NcclName> NameNcclRanks() {
  BEAMLINE_ASSIGN_OR_RETURN(const NcclLibrary nccl, OpenNccl());
  NcclName name;
  const int result = nccl.get_unique_id(&name);
  if (result == kNcclSuccess) return name;
  return absl::UnavailableError(
      fmt::format("NCCL {} finds no address at which ranks meet: {} (NCCL_SOCKET_IFNAME names the "
                  "network interface)",
                  nccl.version, nccl.get_error_string(result)));
}

}  // namespace beamline::cuda
