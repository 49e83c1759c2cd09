// A device: its properties, memory, transfers, weights in its own layout, and recorded work (CUDA
// graphs). The operators are in kernels/operators.h.
//
// Every pointer and Tensor is device memory unless the comment says "host".
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
  // false: [out_features, in_features] (Linear). true: [in_features, out_features] (Conv1D).
  bool transposed = false;
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

// Device memory for results, with a copy in host memory.
class ReadBack {
 public:
  virtual ~ReadBack() = default;
  void* device() const { return device_; }
  const void* host() const { return host_; }
  size_t size() const { return size_; }  // bytes

  // Copies the first `bytes` to the host after all earlier calls are done; returns at once.
  // device() must not be written again before the copy is Done.
  virtual void Start(size_t bytes) = 0;
  // True if the copy of the last Start is complete, so that Wait does not block.
  virtual bool Done() = 0;
  // Waits for the copy. Returns the device's sticky fault.
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

// Categories of memory in MemoryUsage. Packed weights count as weights, and operators' working
// memory as workspaces.
enum class MemoryKind : uint8_t { kWeights, kCache, kActivations };

// Not thread-safe unless a function says otherwise: one thread calls a device at a time.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  // "cpu" or "cuda:0". Description: "AMD EPYC ..., 2 threads, AVX-512".
  virtual std::string Name() const = 0;
  virtual std::string Description() const = 0;
  // OK, or the reason why this device cannot compute in `dtype`.
  virtual absl::Status SupportsDType(DType dtype) const = 0;
  // OK, or the reason why this device has no attention with heads of `head_dim` elements.
  virtual absl::Status SupportsHeadDim(int head_dim) const {
    static_cast<void>(head_dim);
    return absl::OkStatus();
  }
  // OK, or the reason why this device has no norm over rows of `hidden_size` elements.
  virtual absl::Status SupportsHiddenSize(int hidden_size) const {
    static_cast<void>(hidden_size);
    return absl::OkStatus();
  }
  // OK, or the reason why this device does not support these types, with those that it supports.
  virtual absl::Status SupportsPrecision(const Precision& precision) const;
  // From now on a row's results are bitwise the same alone, in any batch, and with any division of
  // its sequence into steps. Call before the first weight is packed. Does nothing if the device
  // always computes so. UNIMPLEMENTED if it cannot.
  virtual absl::Status MakeBatchInvariant() = 0;
  // The type of activations of a model that computes in `dtype`.
  virtual DType ActivationDType(DType dtype) const = 0;
  DType CacheDType(const Precision& precision) const {
    return precision.cache.value_or(ActivationDType(precision.compute));
  }
  // Memory held by this backend: "weights", "cache", "activations" and, if operators take their
  // working memory from the same pool, "workspaces". Constant after the largest step. Of a CPU's
  // cache it counts only pages that have been written. Empty if not counted. Thread-safe.
  virtual std::vector<MemoryUse> MemoryUsage() const { return {}; }
  // Free bytes for allocations of all backends of this device together. nullopt on a device whose
  // memory is not reserved in advance. Thread-safe.
  virtual std::optional<size_t> FreeMemory() const { return std::nullopt; }

  // Memory and transfers. After CopyToDevice returns, the host memory may be reused.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) = 0;
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) {
    return Allocate(bytes, MemoryKind::kActivations);
  }
  virtual void CopyToDevice(const void* host, void* device, size_t bytes) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host, size_t bytes) = 0;
  virtual absl::Status Synchronize() = 0;
  virtual absl::StatusOr<std::unique_ptr<ReadBack>> AllocateReadBack(size_t bytes) = 0;

  // Packs the parts, stacked along out_features, as one weight for MatMul and ProjectHeads.
  // `precision`: the types of storage and computation. The host memory may be freed afterwards.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(
      std::span<const HostMatrix> parts, const Precision& precision) = 0;

  // Called with a line for each new choice of a kernel or algorithm, and its reason, on the thread
  // that calls the operators.
  using Log = std::function<void(const std::string& line)>;
  virtual void SetLog(Log log) { static_cast<void>(log); }

  // True if Replay records work.
  virtual bool Records() const { return false; }
  // Runs `work`, or replays a recording of it. All work with the same key must call the same
  // operators with the same pointers, shapes and host values; the contents of device memory may
  // differ.
  virtual void Replay(uint64_t key, absl::FunctionRef<void()> work) {
    static_cast<void>(key);
    work();
  }
};

}  // namespace beamline
