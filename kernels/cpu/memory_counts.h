// Memory that one CPU backend holds, by category.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace beamline::cpu {

// Thread-safe.
class MemoryCounts {
 public:
  // Memory that is written at once.
  void Add(MemoryKind kind, size_t bytes) {
    bytes_[static_cast<size_t>(kind)] += bytes;
    process_bytes_ += static_cast<int64_t>(bytes);
  }
  void Subtract(MemoryKind kind, size_t bytes) {
    bytes_[static_cast<size_t>(kind)] -= bytes;
    process_bytes_ -= static_cast<int64_t>(bytes);
  }
  // Memory that may never be written, such as a cache that requests use partly. The system
  // allocates pages at their first write, and only those count.
  void AddBuffer(MemoryKind kind, const std::byte* data, size_t bytes);
  void RemoveBuffer(const std::byte* data);

  std::vector<MemoryUse> Read() const;
  // Bytes of all backends of the process, written or not.
  static int64_t ProcessBytes() { return process_bytes_; }

 private:
  struct BufferSize {
    MemoryKind kind;
    size_t bytes;
  };

  static inline std::atomic<int64_t> process_bytes_ = 0;

  std::array<std::atomic<size_t>, 3> bytes_ = {};
  mutable std::mutex mutex_;
  std::map<const std::byte*, BufferSize> buffers_;  // guarded by mutex_
};

// Counts bytes while it lives.
class CountedBytes {
 public:
  CountedBytes() = default;
  CountedBytes(std::shared_ptr<MemoryCounts> counts, MemoryKind kind, size_t bytes)
      : counts_(std::move(counts)), kind_(kind), bytes_(bytes) {
    counts_->Add(kind_, bytes_);
  }
  CountedBytes(CountedBytes&&) = default;
  CountedBytes& operator=(CountedBytes&& other) {
    std::swap(counts_, other.counts_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~CountedBytes() {
    if (counts_ != nullptr) counts_->Subtract(kind_, bytes_);
  }

 private:
  std::shared_ptr<MemoryCounts> counts_;  // null: counts nothing
  MemoryKind kind_ = MemoryKind::kActivations;
  size_t bytes_ = 0;
};

// Counts a buffer's pages while it lives. The buffer must outlive it.
class CountedBuffer {
 public:
  CountedBuffer(std::shared_ptr<MemoryCounts> counts, MemoryKind kind, const std::byte* data,
                size_t bytes)
      : counts_(std::move(counts)), data_(data) {
    counts_->AddBuffer(kind, data_, bytes);
  }
  CountedBuffer(const CountedBuffer&) = delete;
  CountedBuffer& operator=(const CountedBuffer&) = delete;
  ~CountedBuffer() { counts_->RemoveBuffer(data_); }

 private:
  const std::shared_ptr<MemoryCounts> counts_;
  const std::byte* const data_;
};

}  // namespace beamline::cpu
