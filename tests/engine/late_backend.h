// The CPU backend behaving like a busy asynchronous device that records its steps: results are
// never there before somebody waits for them, and what the host would read too early is poison. It
// can break, for good or for a moment.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_backend.h"

namespace beamline {

// A device's fault, which comes after a number of results have been read.
class LateFault {
 public:
  void ComeAfter(int64_t reads) { reads_left_ = reads; }
  // A result is read.
  absl::Status Read() {
    --reads_left_;
    return status();
  }
  absl::Status status() const {
    return reads_left_ >= 0 ? absl::OkStatus() : absl::UnavailableError("the late device broke");
  }

 private:
  std::atomic<int64_t> reads_left_ = std::numeric_limits<int64_t>::max();
};

class LateReadBack : public ReadBack {
 public:
  LateReadBack(std::unique_ptr<ReadBack> early, LateFault& fault, const std::atomic<bool>& waits)
      : early_(std::move(early)), fault_(fault), waits_(waits), arrived_(early_->size()) {
    device_ = early_->device();
    host_ = arrived_.data();
    size_ = early_->size();
  }
  void Start(size_t bytes) override {
    std::memset(arrived_.data(), 0xA5, arrived_.size());
    sent_.assign(bytes, 0);
    if (bytes > 0) std::memcpy(sent_.data(), early_->host(), bytes);
    waited_ = false;
  }
  bool Done() override { return waited_ || waits_; }
  absl::Status Wait() override {
    if (!sent_.empty()) std::memcpy(arrived_.data(), sent_.data(), sent_.size());
    waited_ = true;
    return fault_.Read();
  }

 private:
  std::unique_ptr<ReadBack> early_;
  LateFault& fault_;
  const std::atomic<bool>& waits_;
  std::vector<uint8_t> sent_, arrived_;
  bool waited_ = true;
};

class LateBackend : public Backend {
 public:
  static constexpr int kMostHeadDim = 256;
  static constexpr int kMostHiddenSize = 4096;

  explicit LateBackend(int num_threads)
      : LateBackend(MakeCpuBackend({.num_threads = num_threads})) {}

  // Tokens that went to a step without the host's knowing them.
  int64_t num_filled() const { return num_filled_; }
  // Searches whose tables were ordered without the host's knowing their beams.
  int64_t num_reordered() const { return num_reordered_; }
  // The shapes of the steps that came to be recorded, those that came at least `times` times.
  std::set<uint64_t> shapes(int times = 1) const {
    std::lock_guard lock(mutex_);
    std::set<uint64_t> shapes;
    for (const auto& [shape, count] : shapes_) {
      if (count >= times) shapes.insert(shape);
    }
    return shapes;
  }
  // The most of any operation: tokens embedded, rows of logits looked at, candidates wanted of one,
  // draws made.
  struct Largest {
    int64_t tokens = 0, logits_rows = 0, candidates = 0, draws = 0;
    bool operator==(const Largest&) const = default;
  };
  Largest largest() const {
    std::lock_guard lock(mutex_);
    return largest_;
  }
  // Breaks for good when so many more results have been read.
  void BreakAfter(int64_t reads) { fault_.ComeAfter(reads); }
  // From now on the device waits for the host: every result is there when somebody asks.
  void WaitForTheHost() { waits_ = true; }
  // The next memory for results is refused.
  void RefuseReadBack() { refuse_read_back_ = true; }

  std::string Name() const override { return cpu_->Name(); }
  std::string Description() const override { return cpu_->Description(); }
  absl::Status SupportsDType(DType dtype) const override { return cpu_->SupportsDType(dtype); }
  absl::Status SupportsHeadDim(int head_dim) const override {
    if (head_dim <= kMostHeadDim) return absl::OkStatus();
    return absl::UnimplementedError("heads are too large for the late backend");
  }
  absl::Status SupportsHiddenSize(int hidden_size) const override {
    if (hidden_size <= kMostHiddenSize) return absl::OkStatus();
    return absl::UnimplementedError("rows are too long for the late backend");
  }
  absl::Status SupportsPrecision(const Precision& precision) const override {
    return cpu_->SupportsPrecision(precision);
  }
  absl::Status MakeBatchInvariant() override { return cpu_->MakeBatchInvariant(); }
  DType ActivationDType(DType dtype) const override { return cpu_->ActivationDType(dtype); }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override {
    return cpu_->Allocate(bytes, kind);
  }
  void CopyToDevice(const void* host, void* device, size_t bytes) override {
    cpu_->CopyToDevice(host, device, bytes);
  }
  absl::Status CopyToHost(const void* device, void* host, size_t bytes) override {
    if (absl::Status status = fault_.Read(); !status.ok()) return status;
    return cpu_->CopyToHost(device, host, bytes);
  }
  absl::Status Synchronize() override { return fault_.status(); }
  absl::StatusOr<std::unique_ptr<ReadBack>> AllocateReadBack(size_t bytes) override {
    if (refuse_read_back_.exchange(false)) return absl::ResourceExhaustedError("no memory to read");
    auto early = cpu_->AllocateReadBack(bytes);
    if (!early.ok()) return early.status();
    return std::make_unique<LateReadBack>(*std::move(early), fault_, waits_);
  }
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(std::span<const HostMatrix> parts,
                                                           const Precision& precision) override {
    return cpu_->PackWeight(parts, precision);
  }
  // Steps come in padded shapes, as to a device that records them.
  bool Records() const override { return true; }
  void Replay(uint64_t key, absl::FunctionRef<void()> work) override {
    {
      std::lock_guard lock(mutex_);
      ++shapes_[key];
    }
    work();
  }

 protected:
  void Compute(const Operation& operation) override {
    if (const auto* const* fill = std::get_if<const FillTokensParams*>(&operation)) {
      num_filled_ += static_cast<int64_t>((*fill)->fills.size());
    }
    if (const auto* const* reorder = std::get_if<const ReorderBeamsParams*>(&operation)) {
      num_reordered_ += static_cast<int64_t>((*reorder)->groups.size());
      num_filled_ += static_cast<int64_t>((*reorder)->fills.size());
    }
    Measure(operation);
    cpu_->Run(operation);
  }

 private:
  explicit LateBackend(std::unique_ptr<Backend> cpu)
      : Backend({.key_layout = cpu->key_layout()}), cpu_(std::move(cpu)) {}

  void Measure(const Operation& operation) {
    const auto grow = [](int64_t& most, int64_t size) { most = std::max(most, size); };
    std::lock_guard lock(mutex_);
    if (const auto* const* embed = std::get_if<const EmbedParams*>(&operation)) {
      grow(largest_.tokens, (*embed)->num_tokens);
    }
    if (const auto* const* best = std::get_if<const TopCandidatesParams*>(&operation)) {
      grow(largest_.logits_rows, (*best)->logits.num_rows());
      grow(largest_.candidates, (*best)->max_count);
    }
    if (const auto* const* draw = std::get_if<const SampleParams*>(&operation)) {
      grow(largest_.draws, static_cast<int64_t>((*draw)->rows.size()));
    }
  }

  std::unique_ptr<Backend> cpu_;
  LateFault fault_;
  std::atomic<bool> waits_ = false;
  std::atomic<bool> refuse_read_back_ = false;
  std::atomic<int64_t> num_filled_ = 0;
  std::atomic<int64_t> num_reordered_ = 0;
  mutable std::mutex mutex_;
  Largest largest_;                 // guarded by mutex_
  std::map<uint64_t, int> shapes_;  // how often each came; guarded by mutex_
};

}  // namespace beamline
