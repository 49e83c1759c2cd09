#include "kernels/cuda/device/read_back.h"

#include "base/check.h"
#include "base/status.h"

namespace beamline::cuda {

absl::StatusOr<std::unique_ptr<ReadBack>> CudaReadBack::Create(Device& device, size_t bytes) {
  std::unique_ptr<CudaReadBack> result(new CudaReadBack(device));
  BEAMLINE_ASSIGN_OR_RETURN(result->device_,
                            device.arena().Allocate(bytes, ArenaUse::kActivations));
  device.Check(cudaHostAlloc(&result->pinned_, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  for (cudaEvent_t* event : {&result->written_, &result->arrived_}) {
    device.Check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
  }
  BEAMLINE_RETURN_IF_ERROR(device.status());
  result->host_ = result->pinned_;
  result->size_ = bytes;
  return result;
}

CudaReadBack::~CudaReadBack() {
  owner_.Use();
  // The copy may still be in flight on its own stream. Its memory may not be freed before it is
  // done.
  const WaitMark::Scope waiting(*owner_.wait_mark());
  if (arrived_ != nullptr) {
    cudaEventSynchronize(arrived_);
    cudaEventDestroy(arrived_);
  }
  if (written_ != nullptr) cudaEventDestroy(written_);
  if (pinned_ != nullptr) cudaFreeHost(pinned_);
  if (device_ != nullptr) owner_.arena().Free(device_);
}

void CudaReadBack::Start(size_t bytes) {
  BEAMLINE_CHECK(bytes <= size_);
  owner_.Use();
  if (!owner_.MayTransfer("a read back")) return;
  // On a stream of its own, so that later work of the main stream does not wait for the copy. The
  // caller waits for this copy before it writes to the device memory again.
  const cudaStream_t copies = bytes > 0 ? owner_.read_stream() : owner_.stream();
  if (bytes > 0) {
    owner_.Check(cudaEventRecord(written_, owner_.stream()), "cudaEventRecord");
    owner_.Check(cudaStreamWaitEvent(copies, written_), "cudaStreamWaitEvent");
    owner_.Check(cudaMemcpyAsync(pinned_, device_, bytes, cudaMemcpyDeviceToHost, copies),
                 "copy to the host");
  }
  num_frees_ = owner_.arena().num_frees();
  owner_.Check(cudaEventRecord(arrived_, copies), "cudaEventRecord");
}

void CudaReadBack::Arrived(cudaError_t answer) {
  owner_.Check(answer, "a step");
  if (owner_.ok()) owner_.arena().Settle(num_frees_);
}

bool CudaReadBack::Done() {
  owner_.Use();
  if (!owner_.ok()) return true;
  const cudaError_t state = cudaEventQuery(arrived_);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // clears "not ready", no fault, which the next check would report
    return false;
  }
  Arrived(state);
  return true;
}

absl::Status CudaReadBack::Wait() {
  owner_.Use();
  if (!owner_.ok()) return owner_.status();
  const WaitMark::Scope waiting(*owner_.wait_mark());
  Arrived(cudaEventSynchronize(arrived_));
  return owner_.status();
}

}  // namespace beamline::cuda
