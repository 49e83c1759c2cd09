#include "engine/serving/replica.h"

#include <algorithm>
#include <utility>

#include "base/lent_thread.h"
#include "base/waiting_thread.h"

namespace beamline {
namespace {

// A thread that lends itself computes steps that are expected to take so long: about what waking
// another thread takes.
constexpr double kMostSecondsInPlace = 20e-6;
// With what has come until it begins.
constexpr double kMostSecondsOfBurst = 100e-6;

// The host computes it, with threads that belong to nobody.
bool AnyThreadMayCompute(const LoadedModel& model) {
  return !model.on_gpu && model.cores.empty() && model.num_processes == 1 &&
         model.transformer->ranked() == nullptr;
}

// A GPU of its own computes it, whoever launches.
bool AnyThreadMayLaunch(const LoadedModel& model) {
  return model.on_gpu && model.num_processes == 1 && model.transformer->ranked() == nullptr;
}

}  // namespace

Replica::Replica(std::unique_ptr<LoadedModel> model, EngineObserver* observer)
    : model_(std::move(model)),
      may_borrow_(AnyThreadMayCompute(*model_)),
      any_may_launch_(AnyThreadMayLaunch(*model_)),
      fault_(model_->options.name) {
  const LoopContext context = {model_->options.name,
                               model_->info.dtype,
                               *model_->transformer,
                               *model_->backend,
                               stats_,
                               fault_,
                               observer,
                               model_->classifier.get(),
                               model_->mask_head.get(),
                               model_->dense.get()};
  if (!Generates(model_->info.task)) {
    encode_.emplace(model_->limits, context);
    thread_ = std::thread([this] { Compute(*encode_); });
  } else {
    generate_.emplace(model_->limits, model_->options.prefix_cache,
                      std::chrono::milliseconds(model_->options.max_gap_ms), context);
    thread_ = std::thread([this] { Compute(*generate_); });
  }
}

void Replica::Submit(std::unique_ptr<EncodeJob> job) {
  // Who is in the thread's place keeps the replica.
  WaitingThread* const waiting =
      any_may_launch_ && !weak_from_this().expired() ? WaitingThread::OfThisThread() : nullptr;
  if (waiting != nullptr) {
    return PutInPlace(std::move(job), [this, waiting] {
      waiting->Leave([self = shared_from_this(), waiting] {
        self->encode_->RunInPlace([waiting] { return waiting->StillWaits(); });
      });
    });
  }
  LentThread* const lent = MayBorrowFor(*job) ? LentThread::OfThisThread() : nullptr;
  if (lent == nullptr) return Put(encode_, std::move(job));
  PutInPlace(std::move(job), [this, lent] {
    lent->Leave([self = shared_from_this()] {
      self->encode_->RunInPlace(
          [&] { return self->IsComputedWithin(kMostSecondsOfBurst, self->stats_.work.tokens()); });
    });
  });
}

template <typename Leave>
void Replica::PutInPlace(std::unique_ptr<EncodeJob> job, const Leave& leave) {
  switch (encode_->inbox().PutInPlace(job)) {
    case Inbox<std::unique_ptr<EncodeJob>>::PutResult::kInPlace:
      return leave();
    case Inbox<std::unique_ptr<EncodeJob>>::PutResult::kPut:
      return;
    case Inbox<std::unique_ptr<EncodeJob>>::PutResult::kClosed:
      return job->Answer(fault_.EndStatus());
  }
}

bool Replica::MayBorrowFor(const EncodeJob& job) const {
  return may_borrow_ && !weak_from_this().expired() &&
         IsComputedWithin(kMostSecondsInPlace, std::max(stats_.work.tokens(), job.cost));
}

bool Replica::IsComputedWithin(double seconds, int64_t tokens) const {
  const double per_token = stats_.rate.seconds_per_token();
  return per_token > 0 && per_token * static_cast<double>(tokens) <= seconds;
}

void Replica::Stop(const absl::Status& why) {
  if (!thread_.joinable()) return;
  fault_.SetEnd(why);
  if (generate_.has_value()) generate_->inbox().Close();
  if (encode_.has_value()) encode_->inbox().Close();
  thread_.join();
}

}  // namespace beamline
