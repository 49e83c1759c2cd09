#include "base/work_batch.h"

#include "base/check.h"

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
  // The work may post more.
  while (next < brief_.size() && idle()) {
    WorkerPool::Work work = std::move(brief_[next++].piece.work);
    work();
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
