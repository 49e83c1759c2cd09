#include "engine/serving/replica.h"

#include <utility>

namespace beamline {
namespace {

// Of the blocks, how many admission keeps free for the running groups to grow into.
constexpr int32_t kWatermarkDivisor = 32;

GenerateLoopOptions GenerateOptions(const LoadedModel& model) {
  GenerateLoopOptions options;
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
  const LoopContext context = {
      model_->options.name, *model_->transformer, *model_->backend, stats_, fault_, observer};
  if (model_->info.task == ModelTask::kEncode) {
    const EncodeLoopOptions options = {model_->options.max_batch_tokens,
                                       model_->options.max_sequences};
    encode_.emplace(options, context);
    thread_ = std::thread([this] { encode_->Run(); });
  } else {
    generate_.emplace(GenerateOptions(*model_), context);
    thread_ = std::thread([this] { generate_->Run(); });
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
