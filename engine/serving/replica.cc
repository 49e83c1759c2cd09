#include "engine/serving/replica.h"

#include <algorithm>
#include <utility>

#include "base/waiting_thread.h"

namespace beamline {
namespace {

// Its GPU computes the same for any launching thread.
bool AnyThreadMayLaunch(const LoadedModel& model) {
  return model.on_gpu && model.num_processes == 1 && model.transformer->ranked() == nullptr;
}

}  // namespace

Replica::Replica(std::unique_ptr<LoadedModel> model, EngineObserver* observer)
    : model_(std::move(model)),
      any_may_launch_(AnyThreadMayLaunch(*model_)),
      fault_(model_->options.name) {
  const LoopContext context = {model_->options.name,
                               model_->types.precision.compute,
                               *model_->transformer,
                               *model_->backend,
                               stats_,
                               fault_,
                               observer};
  if (!Generates(model_->info.task)) {
    encode_.emplace(model_->limits, model_->heads, context);
    thread_ = std::thread([this] { Compute(*encode_); });
  } else {
    generate_.emplace(model_->limits, model_->options.prefix_cache,
                      std::chrono::milliseconds(model_->options.max_gap_ms), context);
    thread_ = std::thread([this] { Compute(*generate_); });
  }
}

void Replica::Submit(std::unique_ptr<EncodeJob> job) {
  WaitingThread* const waiting =
      any_may_launch_ && !weak_from_this().expired() ? WaitingThread::OfThisThread() : nullptr;
  if (waiting == nullptr) return Put(encode_, std::move(job));
  switch (encode_->inbox().PutInPlace(job)) {
    case Inbox<std::unique_ptr<EncodeJob>>::PutResult::kInPlace:
      // The task holds a shared_ptr to the replica.
      return waiting->Leave([self = shared_from_this(), waiting] {
        self->encode_->RunInPlace([waiting] { return waiting->StillWaits(); });
      });
    case Inbox<std::unique_ptr<EncodeJob>>::PutResult::kPut:
      return;
    case Inbox<std::unique_ptr<EncodeJob>>::PutResult::kClosed:
      return job->Answer(fault_.EndStatus());
  }
}

void Replica::Stop(const absl::Status& why) {
  if (!thread_.joinable()) return;
  fault_.SetEnd(why);
  if (generate_.has_value()) generate_->inbox().Close();
  if (encode_.has_value()) encode_->inbox().Close();
  thread_.join();
}

}  // namespace beamline
