#include "engine/transformer/rank_group.h"

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace beamline {

namespace {

constexpr std::chrono::milliseconds kBetweenLooks{100};
// How long a rank that ends waits for those that do not go on.
constexpr std::chrono::seconds kPartTimeLimit{5};

std::vector<RankGroup::Rank> Alone(RankGroup::Rank rank) {
  std::vector<RankGroup::Rank> ranks;
  ranks.push_back(std::move(rank));
  return ranks;
}

}  // namespace

RankGroup::RankGroup(std::vector<Rank> ranks) : RankGroup(std::move(ranks), nullptr) {}

RankGroup::RankGroup(Rank rank, std::shared_ptr<RankLinks> links)
    : RankGroup(Alone(std::move(rank)), std::move(links)) {}

RankGroup::RankGroup(std::vector<Rank> ranks, std::shared_ptr<RankLinks> links)
    : links_(std::move(links)),
      ranks_(std::move(ranks)),
      num_stages_(ranks_.front().stages == nullptr ? 1 : ranks_.front().stages->size()),
      first_(links_ == nullptr ? 0 : RankOfProcess(links_->rank(), links_->size(), num_stages_)) {
  BEAMLINE_CHECK(num_ranks() >= 2 && num_ranks() % num_stages_ == 0);
  for (int rank = 0; rank < size(); ++rank) AddConnections(rank);
  try {
    for (int rank = num_stages_ > 1 ? 0 : 1; rank < size(); ++rank) {
      workers_.emplace_back([this, rank] { WorkerLoop(rank); });
    }
    if (links_ != nullptr) watch_ = std::thread([this] { Watch(); });
  } catch (...) {  // a thread that the system has not: those before it must end
    EndThreads();
    throw;
  }
}

int RankGroup::RankOfProcess(int process, int num_ranks, int num_stages) {
  return (process + num_ranks - num_ranks / num_stages) % num_ranks;
}

// One end of each connection that this process has.
void RankGroup::AddConnections(int rank) {
  const int share = ranks_per_stage(), of_model = first_ + rank;
  Communicator* const shared = shares(rank);
  Communicator* const staged = stages(rank);
  BEAMLINE_CHECK((shared != nullptr) == (share > 1) && (staged != nullptr) == (num_stages_ > 1));
  if (shared != nullptr) {
    BEAMLINE_CHECK(shared->rank() == of_model % share && shared->size() == share);
    if (links_ != nullptr || shared->rank() == 0) connections_.push_back(shared);
  }
  if (staged != nullptr) {
    BEAMLINE_CHECK(staged->rank() == of_model / share && staged->size() == num_stages_);
    if (links_ != nullptr || staged->rank() == 0) connections_.push_back(staged);
  }
}

RankGroup::~RankGroup() {
  const absl::Status fault = status();
  // Of what goes away here the followers know the reason first.
  if (followers() != nullptr) followers()->End();
  EndThreads();
  if (links_ != nullptr && !fault.ok()) Part(fault);
  // A device's recordings hold what its communicator has on the device.
  for (Rank& rank : ranks_) rank.backend.reset();
}

void RankGroup::EndThreads() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  called_.notify_all();
  ending_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  if (watch_.joinable()) watch_.join();
}

void RankGroup::Part(const absl::Status& fault) {
  Fail(fault);  // what is under way ends
  for (Rank& rank : ranks_) rank.backend->Synchronize().IgnoreError();
  links_->Part(kPartTimeLimit);
}

absl::Status RankGroup::Run(Work work) {
  BEAMLINE_RETURN_IF_ERROR(status());
  if (workers_.empty()) {
    RunRank(0, work);
    return status();
  }
  const uint64_t call = Post(work);
  if (num_stages_ == 1) RunRank(0, work);
  return Wait(call);
}

uint64_t RankGroup::Start(std::function<absl::Status(int rank)> work) {
  BEAMLINE_CHECK(num_stages_ > 1);
  return Post(std::move(work));
}

uint64_t RankGroup::Post(std::function<absl::Status(int rank)> work) {
  uint64_t call = 0;
  {
    std::lock_guard lock(mutex_);
    call = first_call_ + calls_.size();
    calls_.push_back({std::move(work), static_cast<int>(workers_.size())});
  }
  called_.notify_all();
  return call;
}

bool RankGroup::Done(uint64_t call) const {
  std::lock_guard lock(mutex_);
  return DoneLocked(call);
}

absl::Status RankGroup::Wait(uint64_t call) {
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return DoneLocked(call); });
  }
  return status();
}

void RankGroup::Drain() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return calls_.empty(); });
}

void RankGroup::WorkerLoop(int rank) {
  std::unique_lock lock(mutex_);
  for (uint64_t next = 0;; ++next) {
    const auto called = [&] { return next < first_call_ + calls_.size(); };
    called_.wait(lock, [&] { return stopping_ || called(); });
    if (!called()) return;
    Call& call = calls_[next - first_call_];  // stays where it is until all are done with it
    lock.unlock();
    RunRank(rank, call.work);
    lock.lock();
    --call.num_left;
    bool any_done = false;
    for (; !calls_.empty() && calls_.front().num_left == 0; any_done = true) {
      calls_.pop_front();
      ++first_call_;
    }
    if (any_done) done_.notify_all();
  }
}

void RankGroup::RunRank(int rank, Work work) {
  if (num_stages_ > 1 && !status().ok()) return;
  absl::Status result = work(rank);
  // A fault of its connections is one of the ranks that are not on them too.
  if (result.ok() && links_ != nullptr) result = links_->fault();
  for (const Communicator* connection : {shares(rank), stages(rank)}) {
    if (result.ok() && connection != nullptr) result = connection->status();
  }
  if (!result.ok()) Fail(result);
}

void RankGroup::Fail(const absl::Status& fault) {
  // A loss that a connection has seen, and nobody has asked it for yet, came before this one.
  absl::Status first = status();
  if (first.ok()) first = fault;
  {
    std::lock_guard lock(mutex_);
    if (fault_.ok()) fault_ = first;
  }
  if (links_ != nullptr) links_->Fail(first);
  for (Communicator* connection : connections_) connection->Abort(first);
}

void RankGroup::Watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    ending_.wait_for(lock, kBetweenLooks, [this] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    const absl::Status fault = status();
    if (!fault.ok()) return Fail(fault);
    lock.lock();
  }
}

absl::Status RankGroup::Look() {
  if (followers() != nullptr) followers()->Look().IgnoreError();  // it is among what follows
  return status();
}

absl::Status RankGroup::status() const {
  {
    std::lock_guard lock(mutex_);
    if (!fault_.ok()) return fault_;
  }
  // Of processes this connection knows which one is lost.
  if (links_ != nullptr) {
    if (absl::Status status = links_->fault(); !status.ok()) return status;
  }
  for (const Communicator* connection : connections_) {
    if (absl::Status status = connection->status(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace beamline
