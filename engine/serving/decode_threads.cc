#include "engine/serving/decode_threads.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "kernels/cpu/cpu_count.h"

namespace beamline {
namespace {

constexpr int64_t kGroupsAtATime = 8;
constexpr int kCoresOfAThread = 4;

}  // namespace

DecodeThreads::DecodeThreads(int num_threads)
    : num_threads_(num_threads),
      pool_(num_threads > 1 ? std::make_unique<cpu::ThreadPool>() : nullptr) {
  BEAMLINE_CHECK(num_threads >= 1 && num_threads <= kMostThreads);
  if (pool_ != nullptr) pool_->Grow(num_threads);
}

Pipeline::Parallel DecodeThreads::parallel() {
  if (pool_ == nullptr) return nullptr;
  return [this](size_t count, absl::FunctionRef<void(size_t, size_t)> body) {
    if (count < kFewestGroups) return body(0, count);
    pool_->ParallelFor(num_threads_, static_cast<int64_t>(count), kGroupsAtATime,
                       [&](int64_t begin, int64_t end, int /*thread*/) {
                         body(static_cast<size_t>(begin), static_cast<size_t>(end));
                       });
  };
}

DecodeThreads DecodeThreadsFor(const Backend& backend) {
  if (!backend.Records()) return DecodeThreads(1);
  return DecodeThreads(
      std::clamp(cpu::AvailableCpus() / kCoresOfAThread, 1, DecodeThreads::kMostThreads));
}

}  // namespace beamline
