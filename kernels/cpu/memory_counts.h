// What one CPU backend has allocated, by what it is for.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace beamline::cpu {

// Any thread may count and read.
class MemoryCounts {
 public:
  void Add(MemoryKind kind, size_t bytes) { bytes_[static_cast<size_t>(kind)] += bytes; }
  void Subtract(MemoryKind kind, size_t bytes) { bytes_[static_cast<size_t>(kind)] -= bytes; }
  std::vector<MemoryUse> Read() const {
    const auto of = [this](MemoryKind kind) { return bytes_[static_cast<size_t>(kind)].load(); };
    return {{"weights", of(MemoryKind::kWeights)},
            {"cache", of(MemoryKind::kCache)},
            {"activations", of(MemoryKind::kActivations)}};
  }

 private:
  std::array<std::atomic<size_t>, 3> bytes_ = {};
};

// Counts bytes for as long as it lives.
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

}  // namespace beamline::cpu
