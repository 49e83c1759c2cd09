// Long because what becomes of requests, faults, restarts and drains meets under one mutex.
#include "engine/serving/replica_pool.h"

#include <algorithm>
#include <system_error>

#include "absl/strings/cord.h"
#include "base/status.h"
#include "engine/serving/model_stats.h"
#include "fmt/format.h"

namespace beamline {
namespace {

using std::chrono::steady_clock;

// How often a wait looks whether it is still wanted.
constexpr std::chrono::milliseconds kLook{20};

absl::Status Ended(const std::string& message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kReplicaEndedPayload, absl::Cord());
  return status;
}

absl::Status CheckSame(const ModelFacts& facts, const LoadedModel& model) {
  if (model.limits.num_blocks == facts.limits.num_blocks) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "model '{}': the cache of a replica on {} has {} blocks, those of the others {}; "
      "cache_bytes gives all of them one size",
      facts.options.name, model.info.device, model.limits.num_blocks, facts.limits.num_blocks));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ReplicaPool>> ReplicaPool::Create(Options options) {
  std::vector<std::unique_ptr<LoadedModel>> models;
  for (int i = 0; i < options.num_replicas; ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel> model, options.load(i));
    models.push_back(std::move(model));
    BEAMLINE_RETURN_IF_ERROR(CheckSame(*models.front(), *models.back()));
  }
  return std::shared_ptr<ReplicaPool>(new ReplicaPool(std::move(options), std::move(models)));
}

ReplicaPool::ReplicaPool(Options options, std::vector<std::unique_ptr<LoadedModel>> models)
    : options_(std::move(options)),
      facts_(std::make_unique<ModelFacts>(*models.front())),
      state_(options_.num_replicas, options_.seed, options_.restart),
      slots_(models.size()) {
  for (size_t i = 0; i < models.size(); ++i) Install(static_cast<int>(i), std::move(models[i]));
}

void ReplicaPool::Install(int number, std::unique_ptr<LoadedModel> model) {
  // One of each for all replicas.
  model->tokenizer = facts_->tokenizer;
  model->speculation = facts_->speculation;
  Slot& slot = slots_[static_cast<size_t>(number)];
  slot.device = model->info.device;
  slot.description = model->info.device_description;
  slot.on_gpu = model->on_gpu;
  slot.may_load_again = !model->on_gpu || model->num_processes > 1;
  slot.replica = std::make_shared<Replica>(std::move(model), options_.observer);
  slot.replica->fault().Listen([this, number, replica = slot.replica.get()](
                                   const absl::Status& fault) { OnFault(number, replica, fault); });
}

absl::Status ReplicaPool::TryInstall(int number, std::unique_ptr<LoadedModel> model) {
  try {
    Install(number, std::move(model));
    return absl::OkStatus();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(fmt::format("no thread can be started: {}", error.what()));
  }
}

absl::Status ReplicaPool::StatusLocked() const {
  if (!end_.ok()) return end_;
  if (state_.num_up() > 0) return absl::OkStatus();
  absl::Status status = last_fault_;
  if (!state_.has_future()) status.ErasePayload(kReplicaEndedPayload);
  return status;
}

absl::Status ReplicaPool::status() const {
  std::lock_guard lock(mutex_);
  return StatusLocked();
}

std::vector<ReplicaView> ReplicaPool::Views() const {
  std::vector<ReplicaView> views(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].replica == nullptr) continue;
    const ReplicaStats& stats = slots_[i].replica->stats();
    views[i].tokens = stats.work.tokens();
    views[i].requests = stats.work.requests();
    views[i].seconds_per_token = stats.rate.seconds_per_token();
  }
  return views;
}

template <typename JobType>
void ReplicaPool::Route(std::unique_ptr<JobType> job, std::span<const Beginning> beginnings) {
  std::shared_ptr<Replica> replica;
  absl::Status error;
  {
    std::lock_guard lock(mutex_);
    const auto chosen = end_.ok() ? Choose(beginnings) : std::nullopt;
    if (chosen.has_value()) {
      replica = slots_[static_cast<size_t>(*chosen)].replica;
      job->work = WorkShare(replica->stats().work, job->cost);
    } else {
      error = StatusLocked();
    }
  }
  if (replica == nullptr) return job->Answer(error);
  replica->Submit(std::move(job));
}

void ReplicaPool::Submit(std::unique_ptr<Group> job) {
  std::vector<Beginning> beginnings;
  if (size() > 1 && facts_->options.prefix_cache && job->encoder_ids.empty()) {
    beginnings = BeginningsOf(job->rows[0].tokens, job->cache_salt, facts_->limits.block_size);
  }
  Route(std::move(job), beginnings);
}

void ReplicaPool::Submit(std::unique_ptr<EncodeJob> job) { Route(std::move(job), {}); }

ReplicaChange ReplicaPool::ChangeOf(int number, std::string reason) const {
  ReplicaChange change;
  change.model = facts_->info;
  change.replica = number;
  change.phase = state_.phase(number);
  change.reason = std::move(reason);
  change.will_restart = state_.restart_at(number).has_value();
  change.model_can_answer = state_.num_up() > 0;
  return change;
}

void ReplicaPool::Tell(const ReplicaChange& change) const {
  if (on_change_) on_change_(change);
}

void ReplicaPool::OnFault(int number, const Replica* failed, const absl::Status& fault) {
  std::lock_guard telling(telling_);
  ReplicaChange change;
  bool is_end = false;
  {
    std::lock_guard lock(mutex_);
    const Slot& slot = slots_[static_cast<size_t>(number)];
    if (slot.replica.get() != failed) return;  // it is being replaced already
    last_fault_ = fault;
    state_.Fail(number, !slot.on_gpu || failed->fault().leaves_device_whole(),
                failed->stats().steps > 0, steady_clock::now());
    change = ChangeOf(number, std::string(fault.message()));
    is_end = !state_.has_future();
    if (end_.ok() && change.will_restart) StartMender();
  }
  wake_.notify_all();
  Tell(change);
  if (is_end && on_end_) on_end_(facts_->info, fault);
}

void ReplicaPool::StartMender() {
  if (mender_.joinable()) return;
  try {
    mender_ = std::thread([this] { Mend(); });
  } catch (const std::system_error&) {
    // The system has no thread left. The next fault or restart tries again.
  }
}

void ReplicaPool::Mend() {
  std::unique_lock lock(mutex_);
  while (end_.ok()) {
    const std::optional<int> next = state_.NextRestart();
    if (!next.has_value()) {
      wake_.wait(lock);
    } else if (const auto at = *state_.restart_at(*next); steady_clock::now() < at) {
      wake_.wait_until(lock, at);
    } else {
      state_.BeginRestart(*next);
      const absl::Status fault = last_fault_;
      lock.unlock();
      Reload(*next, fault).IgnoreError();  // it is told of
      lock.lock();
    }
  }
}

absl::Status ReplicaPool::Reload(int number, const absl::Status& why) {
  std::lock_guard reloading(reloading_);
  std::shared_ptr<Replica> old;
  {
    std::lock_guard telling(telling_);
    ReplicaChange change;
    {
      std::lock_guard lock(mutex_);
      if (!end_.ok()) return end_;
      old = slots_[static_cast<size_t>(number)].replica;
      change = ChangeOf(number, "");
    }
    Tell(change);
  }
  if (old != nullptr) {
    old->Stop(why);
    {
      std::lock_guard lock(mutex_);
      beamline::AddCounters(*old, past_);
      slots_[static_cast<size_t>(number)].replica = nullptr;
    }
    // Whoever hands it a request, or reads its statistics, at this moment still holds it; nobody
    // new can. Its memory is the new one's.
    while (old.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    old.reset();
  }
  absl::StatusOr<std::unique_ptr<LoadedModel>> model = options_.load(number);
  if (model.ok()) {
    if (const absl::Status same = CheckSame(*facts_, **model); !same.ok()) model = same;
  }
  absl::Status status = model.status();
  std::lock_guard telling(telling_);
  ReplicaChange change;
  bool is_end = false;
  {
    std::lock_guard lock(mutex_);
    if (!end_.ok()) return end_;
    if (status.ok()) status = TryInstall(number, *std::move(model));
    state_.EndRestart(number, status.ok(), slots_[static_cast<size_t>(number)].may_load_again,
                      steady_clock::now());
    if (!status.ok()) last_fault_ = Ended(std::string(status.message()));
    change = ChangeOf(number, std::string(status.message()));
    is_end = !state_.has_future();
    if (change.will_restart) StartMender();
  }
  wake_.notify_all();
  Tell(change);
  if (is_end && on_end_) on_end_(facts_->info, status);
  return status;
}

absl::Status ReplicaPool::CheckCanDrain(int number) const {
  if (!end_.ok()) return end_;
  const std::string name = fmt::format("replica {} of model '{}'", number, facts_->options.name);
  const ReplicaPhase phase = state_.phase(number);
  if (phase == ReplicaPhase::kDraining || phase == ReplicaPhase::kRestarting) {
    return absl::FailedPreconditionError(fmt::format("{} is being restarted already", name));
  }
  if (phase == ReplicaPhase::kUp && state_.num_up() == 1) {
    return absl::FailedPreconditionError(
        fmt::format("{} is the only one that can answer; restart it when another can", name));
  }
  return absl::OkStatus();
}

absl::Status ReplicaPool::Restart(int replica, steady_clock::time_point deadline,
                                  const std::function<bool()>& quit) {
  if (replica < 0 || replica >= size()) {
    return absl::NotFoundError(fmt::format("model '{}' has no replica {}; it has: 0 to {}",
                                           facts_->options.name, replica, size() - 1));
  }
  std::shared_ptr<Replica> draining;
  {
    std::lock_guard telling(telling_);
    ReplicaChange change;
    {
      std::lock_guard lock(mutex_);
      BEAMLINE_RETURN_IF_ERROR(CheckCanDrain(replica));
      if (state_.phase(replica) == ReplicaPhase::kUp) {
        state_.BeginDrain(replica);
        draining = slots_[static_cast<size_t>(replica)].replica;
        change = ChangeOf(replica, "");
      } else {
        state_.BeginRestart(replica);
      }
    }
    if (draining != nullptr) Tell(change);
  }
  if (draining != nullptr) {
    while (draining->stats().work.requests() > 0 && draining->fault().status().ok() && !quit() &&
           steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kLook);
    }
    draining.reset();
    std::lock_guard lock(mutex_);
    if (!end_.ok()) return end_;
    const ReplicaPhase phase = state_.phase(replica);
    if (phase != ReplicaPhase::kDraining && phase != ReplicaPhase::kFailed) {
      return absl::FailedPreconditionError(fmt::format(
          "replica {} of model '{}' failed while it was drained, and was restarted for that",
          replica, facts_->options.name));
    }
    state_.BeginRestart(replica);
  }
  return Reload(replica, Ended(fmt::format("replica {} of model '{}' was restarted before the "
                                           "answer was complete",
                                           replica, facts_->options.name)));
}

void ReplicaPool::Stop(const absl::Status& why) {
  std::thread mender;
  {
    std::lock_guard lock(mutex_);
    if (end_.ok()) end_ = why;
    mender = std::move(mender_);
  }
  wake_.notify_all();
  if (mender.joinable()) mender.join();
  std::lock_guard reloading(reloading_);
  for (int i = 0; i < size(); ++i) {
    if (const auto ending = replica(i); ending != nullptr) ending->Stop(why);
  }
}

void ReplicaPool::Listen(Listener on_change) {
  std::lock_guard telling(telling_);
  on_change_ = std::move(on_change);
}

void ReplicaPool::ListenForEnd(EndListener on_end) {
  std::lock_guard telling(telling_);
  on_end_ = std::move(on_end);
  absl::Status fault;
  {
    std::lock_guard lock(mutex_);
    if (!state_.has_future()) fault = last_fault_;
  }
  if (!fault.ok() && on_end_) on_end_(facts_->info, fault);
}

std::shared_ptr<Replica> ReplicaPool::replica(int number) const {
  std::lock_guard lock(mutex_);
  return slots_[static_cast<size_t>(number)].replica;
}

std::vector<ReplicaInfo> ReplicaPool::Replicas() const {
  std::lock_guard lock(mutex_);
  std::vector<ReplicaInfo> replicas;
  for (int i = 0; i < size(); ++i) {
    const Slot& slot = slots_[static_cast<size_t>(i)];
    replicas.push_back({.device = slot.device,
                        .description = slot.description,
                        .phase = state_.phase(i),
                        .restarts = state_.restarts(i)});
  }
  return replicas;
}

void ReplicaPool::AddCounters(ModelStats& stats) const {
  std::lock_guard lock(mutex_);
  AddCounts(past_, stats);
  for (const Slot& slot : slots_) {
    if (slot.replica != nullptr) beamline::AddCounters(*slot.replica, stats);
  }
  stats.rerun += reruns_;
  if (const Speculation* speculation = facts_->speculation.get()) {
    stats.speculative_proposed += speculation->proposed();
    stats.speculative_accepted += speculation->accepted();
  }
}

void ReplicaPool::AddSnapshots(std::chrono::milliseconds patience,
                               std::vector<ReplicaSnapshot>& snapshots) const {
  for (int i = 0; i < size(); ++i) {
    ReplicaSnapshot& snapshot = snapshots.emplace_back();
    snapshot.model = facts_->info.name;
    snapshot.version = facts_->info.version;
    snapshot.replica = i;
    std::shared_ptr<Replica> asked;
    {
      std::lock_guard lock(mutex_);
      asked = slots_[static_cast<size_t>(i)].replica;
      snapshot.device = slots_[static_cast<size_t>(i)].device;
    }
    if (asked == nullptr) continue;
    auto jobs = asked->Snapshot(Clock::now() + patience);
    snapshot.answered = jobs.has_value();
    if (jobs.has_value()) snapshot.jobs = *std::move(jobs);
  }
}

void ReplicaPool::AddState(ModelStats& stats) const {
  stats.waiting_requests += waiting_.count();
  const Clock::time_point now = Clock::now();
  waiting_.Look([&](const WaitingWork& work) {
    stats.waiting_tokens += work.input_tokens();
    const double age = std::chrono::duration<double>(now - work.oldest().value_or(now)).count();
    stats.oldest_waiting_seconds = std::max(stats.oldest_waiting_seconds, age);
  });
  stats.expected_queue_seconds =
      std::max(stats.expected_queue_seconds, ExpectBehindAll(now).queue_seconds().value_or(0));
  std::lock_guard lock(mutex_);
  const std::vector<double> waits = ExpectedWaits(Views());
  for (int i = 0; i < size(); ++i) {
    const Slot& slot = slots_[static_cast<size_t>(i)];
    ReplicaState state;
    state.version = facts_->info.version;
    state.replica = i;
    state.device = slot.device;
    state.phase = state_.phase(i);
    state.can_answer = state.phase == ReplicaPhase::kUp || state.phase == ReplicaPhase::kDraining;
    state.restarts = static_cast<uint64_t>(state_.restarts(i));
    state.expected_wait_seconds = waits[static_cast<size_t>(i)];
    beamline::AddState(slot.replica.get(), std::move(state), stats);
  }
}

int64_t ReplicaPool::PromisedHostBytes() const {
  std::lock_guard lock(mutex_);
  int64_t promised = 0;
  for (const Slot& slot : slots_) {
    if (slot.replica != nullptr) promised += slot.replica->model().PromisedHostBytes();
  }
  return promised;
}

}  // namespace beamline
