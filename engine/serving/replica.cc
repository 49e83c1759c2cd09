#include "engine/serving/replica.h"

#include <utility>

namespace beamline {

Replica::Replica(std::unique_ptr<LoadedModel> model, EngineObserver* observer)
    : model_(std::move(model)), fault_(model_->options.name) {
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
    generate_.emplace(model_->limits, model_->options.prefix_cache, context);
    thread_ = std::thread([this] { Compute(*generate_); });
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
