#include "kernels/cuda/device/recorder.h"

#include <algorithm>

namespace beamline::cuda {
namespace {

// A graph of a hundred kernels takes some hundred KiB of host and device memory.
constexpr size_t kMostRecordings = 256;

void Destroy(cudaGraphExec_t& graph) {
  if (graph != nullptr) cudaGraphExecDestroy(graph);
  graph = nullptr;
}

}  // namespace

Recorder::~Recorder() {
  device_.Use();
  for (auto& [key, recording] : recordings_) Destroy(recording.graph);
}

void Recorder::Replay(uint64_t key, absl::FunctionRef<void()> work) {
  if (!device_.ok()) return;
  Recording& recording = recordings_[key];
  recording.last_use = ++clock_;
  if (HasMoved(recording)) {
    Destroy(recording.graph);
    recording.ran = false;
  }
  if (recording.ran && !recording.refused && recording.graph == nullptr) Record(recording, work);
  if (recording.graph != nullptr) {
    device_.Check(cudaGraphLaunch(recording.graph, device_.stream()), "cudaGraphLaunch");
    return;
  }
  work();
  recording.ran = true;
  recording.generation = device_.scratch_generation();
  if (recordings_.size() > kMostRecordings) DropOldest();
}

void Recorder::Record(Recording& recording, absl::FunctionRef<void()> work) {
  cudaGraph_t graph = nullptr;
  if (cudaStreamBeginCapture(device_.stream(), cudaStreamCaptureModeRelaxed) == cudaSuccess) {
    const absl::Status recorded = device_.Capture(work);
    const cudaError_t ended = cudaStreamEndCapture(device_.stream(), &graph);
    if (recorded.ok() && ended == cudaSuccess && !HasMoved(recording)) {
      cudaGraphInstantiate(&recording.graph, graph, 0);
    }
    // The executable graph keeps the user objects that libraries attached to the captured one.
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  // If the scratch memory moved during the capture, the next call tries again.
  recording.refused = recording.graph == nullptr && !HasMoved(recording);
  cudaGetLastError();  // work that cannot be captured runs without a graph, which is no fault
}

void Recorder::DropOldest() {
  const auto oldest = std::min_element(
      recordings_.begin(), recordings_.end(),
      [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
  Destroy(oldest->second.graph);
  recordings_.erase(oldest);
}

}  // namespace beamline::cuda
