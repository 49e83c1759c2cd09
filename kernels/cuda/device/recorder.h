// CUDA graphs of repeated work: a decode step of a hundred small kernels costs the host one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

class Recorder {
 public:
  explicit Recorder(Device& device) : device_(device) {}
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // See Backend::Replay. The first call with a key runs the work without a graph: it chooses
  // algorithms, loads kernels and grows the scratch memory, none of which can be captured. The
  // second call captures it.
  void Replay(uint64_t key, absl::FunctionRef<void()> work);

 private:
  struct Recording {
    bool ran = false;      // with the scratch memory of `generation`
    bool refused = false;  // it cannot be captured
    uint64_t generation = 0;
    uint64_t last_use = 0;
    cudaGraphExec_t graph = nullptr;
  };

  bool HasMoved(const Recording& recording) const {
    return recording.generation != device_.scratch_generation();
  }
  void Record(Recording& recording, absl::FunctionRef<void()> work);
  void DropOldest();

  Device& device_;
  uint64_t clock_ = 0;
  absl::flat_hash_map<uint64_t, Recording> recordings_;
};

}  // namespace beamline::cuda
