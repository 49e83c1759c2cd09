#include "kernels/cpu/context.h"

namespace beamline::cpu {
namespace {

// Handing work to a spinning worker and waiting for it costs about a microsecond.
constexpr double kMinParallelNs = 2500;

}  // namespace

Context::Context(int num_threads, bool own_pool, const std::vector<int>& cores)
    : num_threads_(num_threads),
      own_pool_(own_pool || !cores.empty() ? std::make_unique<ThreadPool>(cores) : nullptr),
      pool_(own_pool_ != nullptr ? *own_pool_ : ThreadPool::Global()),
      scratch_(std::make_unique<Scratch[]>(num_threads)) {
  pool_.Grow(num_threads);
}

void Context::Run(int64_t num_items, int64_t chunk, double cost_ns, Body body) {
  if (num_items <= 0) return;
  if (cost_ns < kMinParallelNs || num_threads_ == 1 || num_items == 1) {
    body(0, num_items, scratch_[0]);
    return;
  }
  pool_.ParallelFor(num_threads_, num_items, chunk, [&](int64_t begin, int64_t end, int thread) {
    body(begin, end, scratch_[thread]);
  });
}

}  // namespace beamline::cpu
