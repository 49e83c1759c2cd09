#include "base/work_batch.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/send_batch.h"

namespace beamline {
namespace {

thread_local WorkBatch* batch_of_this_thread = nullptr;

}  // namespace

WorkBatch::WorkBatch() {
  BEAMLINE_CHECK(batch_of_this_thread == nullptr);
  batch_of_this_thread = this;
}

WorkBatch::~WorkBatch() {
  batch_of_this_thread = nullptr;
  HandOver();
}

WorkBatch* WorkBatch::OfThisThread() { return batch_of_this_thread; }

void WorkBatch::HandOver() {
  Give(kept_, 0);
  Give(brief_, 0);
}

void WorkBatch::RunWhile(absl::FunctionRef<bool()> idle) {
  Give(kept_, 0);
  size_t next = 0;
  bool go_on = true;
  while (go_on && next < brief_.size()) {
    const size_t end = next + kMostJoined;
    const auto run = [&] {
      // What runs may post more.
      while (go_on && next < std::min(end, brief_.size())) {
        go_on = idle();
        if (!go_on) break;
        WorkerPool::Work work = std::move(brief_[next++].piece.work);
        work();
      }
    };
    std::optional<SendBatch> sends;
    if (brief_.size() - next > 1) sends.emplace(run);
    run();
  }
  Give(kept_, 0);
  Give(brief_, next);
}

void WorkBatch::Give(Pieces& kept, size_t first) {
  for (size_t i = first; i < kept.size(); ++i) {
    given_.push_back(std::move(kept[i].piece));
    if (i + 1 < kept.size() && kept[i + 1].pool == kept[i].pool) continue;
    kept[i].pool->PostAll(given_);
    given_.clear();
  }
  kept.clear();
}

}  // namespace beamline
