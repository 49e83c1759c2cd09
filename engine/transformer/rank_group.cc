#include "engine/transformer/rank_group.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace beamline {

RankGroup::RankGroup(std::vector<Rank> ranks) : ranks_(std::move(ranks)) {
  BEAMLINE_CHECK(size() >= 2);
  for (int rank = 0; rank < size(); ++rank) {
    BEAMLINE_CHECK(communicator(rank).rank() == rank && communicator(rank).size() == size());
  }
  for (int rank = 1; rank < size(); ++rank) {
    workers_.emplace_back([this, rank] { WorkerLoop(rank); });
  }
}

RankGroup::~RankGroup() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  called_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  // A device's recordings hold what its communicator has on the device.
  for (Rank& rank : ranks_) rank.backend.reset();
}

absl::Status RankGroup::Run(Work work) {
  BEAMLINE_RETURN_IF_ERROR(status());
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    ++num_calls_;
    num_running_ = size() - 1;
  }
  called_.notify_all();
  RunRank(0, work);
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return num_running_ == 0; });
    work_ = nullptr;
  }
  return status();
}

void RankGroup::WorkerLoop(int rank) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    called_.wait(lock, [&] { return stopping_ || num_calls_ != seen; });
    if (stopping_) return;
    seen = num_calls_;
    const Work work = *work_;
    lock.unlock();
    RunRank(rank, work);
    lock.lock();
    if (--num_running_ == 0) done_.notify_one();
  }
}

void RankGroup::RunRank(int rank, Work work) {
  if (const absl::Status status = work(rank); !status.ok()) Fail(status);
}

void RankGroup::Fail(const absl::Status& fault) {
  {
    std::lock_guard lock(mutex_);
    if (fault_.ok()) fault_ = fault;
  }
  ranks_.front().communicator->Abort(fault);
}

absl::Status RankGroup::status() const {
  {
    std::lock_guard lock(mutex_);
    if (!fault_.ok()) return fault_;
  }
  return ranks_.front().communicator->status();
}

}  // namespace beamline
