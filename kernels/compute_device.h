// A device that computes: what it is, its memory and transfers, weights in its own layout, and work
// that it records. What it computes are the operators (kernels/operators.h).
//
// Every pointer and Tensor is memory of the device unless the comment says "host".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device_memory.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace beamline {

// A matrix in host memory, as a checkpoint stores it.
struct HostMatrix {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t rows = 0;
  int64_t cols = 0;
  bool transposed =
      false;  // false: [out_features, in_features] (Linear); true: the reverse (Conv1D)
};

// Device memory, freed with the object.
class Buffer {
 public:
  virtual ~Buffer() = default;
  void* data() const { return data_; }
  size_t size() const { return size_; }  // bytes

 protected:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Results on their way from the device: memory there, and the host's copy of it.
class ReadBack {
 public:
  virtual ~ReadBack() = default;
  void* device() const { return device_; }
  const void* host() const { return host_; }
  size_t size() const { return size_; }  // bytes

  // Copies the first `bytes` to the host once everything called before is done; returns at once.
  // Nothing may write device() again before the copy is Done.
  virtual void Start(size_t bytes) = 0;
  // Whether the host has what the last Start asked for: Wait will not wait.
  virtual bool Done() = 0;
  // Waits until then. Returns the device's sticky fault.
  virtual absl::Status Wait() = 0;

 protected:
  void* device_ = nullptr;
  const void* host_ = nullptr;
  size_t size_ = 0;
};

// A weight matrix in the device's own layout (blocked, padded, quantised), made by PackWeight.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  int64_t out_features() const { return out_features_; }
  int64_t in_features() const { return in_features_; }

 protected:
  int64_t out_features_ = 0;
  int64_t in_features_ = 0;
};

// What memory is allocated for, in MemoryUsage. Packed weights count as weights, what an operator
// needs while it runs as workspaces.
enum class MemoryKind : uint8_t { kWeights, kCache, kActivations };

// One thread calls a device at a time unless a function says otherwise.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  // "cpu" or "cuda:0", and what it is: "AMD EPYC ..., 2 threads, AVX-512".
  virtual std::string Name() const = 0;
  virtual std::string Description() const = 0;
  // OK, or why this device cannot compute in `dtype`.
  virtual absl::Status SupportsDType(DType dtype) const = 0;
  // OK, or why this device has no attention over heads of that many elements.
  virtual absl::Status SupportsHeadDim(int head_dim) const {
    static_cast<void>(head_dim);
    return absl::OkStatus();
  }
  // OK, or why this device has no norm over rows of that many elements.
  virtual absl::Status SupportsHiddenSize(int hidden_size) const {
    static_cast<void>(hidden_size);
    return absl::OkStatus();
  }
  // OK, or why this device does not compute with these types, and with which it does.
  virtual absl::Status SupportsPrecision(const Precision& precision) const;
  // From now on a row's results are the same bits alone, in any batch and however its sequence is
  // cut into steps. Called before the first weight is packed. A device that always computes so has
  // nothing to do; UNIMPLEMENTED where it cannot.
  virtual absl::Status MakeBatchInvariant() = 0;
  // The type of activations when the model computes in `dtype`.
  virtual DType ActivationDType(DType dtype) const = 0;
  DType CacheDType(const Precision& precision) const {
    return precision.cache.value_or(ActivationDType(precision.compute));
  }
  // What this backend holds: "weights", "cache", "activations" and, where operators take their
  // working memory from the same place, "workspaces". Steps do not change it once the largest has
  // run; of a CPU's cache, the part whose pages the system has given. Empty if not counted.
  // Thread-safe.
  virtual std::vector<MemoryUse> MemoryUsage() const { return {}; }
  // Bytes that are left for the allocations of all backends of this device together; nullopt on a
  // device whose memory is not divided in advance. Thread-safe.
  virtual std::optional<size_t> FreeMemory() const { return std::nullopt; }

  // Memory and transfers. A host pointer given to CopyToDevice may be reused when the call returns.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) = 0;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) {
    return Allocate(bytes, MemoryKind::kActivations);
  }
  virtual void CopyToDevice(const void* host, void* device, size_t bytes) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host, size_t bytes) = 0;
  virtual absl::Status Synchronize() = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadBack>> AllocateReadBack(size_t bytes) = 0;

  // The parts, stacked along out_features, as one weight for MatMul and ProjectHeads, stored and
  // multiplied as `precision` says. The host memory may go away afterwards.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(
      std::span<const HostMatrix> parts, const Precision& precision) = 0;

  // Gets a line for each choice among ways to compute that is new since then: what was chosen, and
  // why. Called by the thread that calls the operators.
  using Log = std::function<void(const std::string& line)>;
  virtual void SetLog(Log log) { static_cast<void>(log); }

  // Whether Replay can record.
  virtual bool Records() const { return false; }
  // Runs `work`. All work of one key calls the same operators with the same pointers, shapes and
  // host values, on memory that may hold others: a device may record it once and replay that.
  virtual void Replay(uint64_t key, absl::FunctionRef<void()> work) {
    static_cast<void>(key);
    work();
  }
};

}  // namespace beamline
