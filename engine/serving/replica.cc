#include "engine/serving/replica.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace beamline {
namespace {

// Of the blocks, how many admission keeps free for the running groups to grow into.
constexpr int32_t kWatermarkDivisor = 32;

GenerateLoopOptions GenerateOptions(const LoadedModel& model) {
  GenerateLoopOptions options;
  options.model = model.options.name;
  options.num_blocks = model.info.cache_blocks;
  options.share_prefixes = model.options.prefix_cache;
  options.limits.max_batch_tokens = model.options.max_batch_tokens;
  options.limits.max_rows = model.options.max_sequences;
  options.limits.max_logits_rows = model.max_logits_rows;
  options.limits.block_size = model.info.block_size;
  options.limits.watermark_blocks = model.info.cache_blocks / kWatermarkDivisor;
  return options;
}

}  // namespace

Replica::Replica(std::unique_ptr<LoadedModel> model, EngineObserver* observer)
    : model_(std::move(model)), fault_(model_->options.name) {
  if (model_->info.task == ModelTask::kEncode) {
    const EncodeLoopOptions options = {model_->options.name, model_->options.max_batch_tokens,
                                       model_->options.max_sequences};
    encode_.emplace(options, *model_->transformer, *model_->backend, stats_, fault_, observer);
    thread_ = std::thread([this] { encode_->Run(); });
  } else {
    generate_.emplace(GenerateOptions(*model_), *model_->transformer, *model_->backend, stats_,
                      fault_, observer);
    thread_ = std::thread([this] { generate_->Run(); });
  }
}

Replica::~Replica() {
  if (generate_.has_value()) generate_->inbox().Close();
  if (encode_.has_value()) encode_->inbox().Close();
  thread_.join();
}

void Replica::Submit(std::unique_ptr<Group> group) {
  BEAMLINE_CHECK(generate_.has_value());
  if (!generate_->inbox().Put(group)) {
    --stats_.waiting_requests;
    group->sink->OnFinish(fault_.EndStatus());
  }
}

void Replica::Submit(std::unique_ptr<EncodeJob> job) {
  BEAMLINE_CHECK(encode_.has_value());
  if (!encode_->inbox().Put(job)) {
    --stats_.waiting_requests;
    job->sink->OnFinish(fault_.EndStatus());
  }
}

}  // namespace beamline
