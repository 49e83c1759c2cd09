#include "engine/pool/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/checkpoint/checkpoint.h"
#include "engine/pool/cache_size.h"
#include "engine/pool/make_backend.h"
#include "engine/pool/warm_up.h"
#include "kernels/status.h"

namespace beamline {
namespace {

// Of a step: room for a row that verifies or scores many tokens at once.
constexpr int32_t kMinLogitsRows = 64;

ModelTask TaskOf(const TransformerSpec& spec) {
  if (!spec.decoder.has_value()) return ModelTask::kEncode;
  return spec.encoder.has_value() ? ModelTask::kTranslate : ModelTask::kGenerate;
}

int32_t MaxInputTokens(const ModelDescription& description) {
  const TransformerSpec& spec = description.spec;
  if (!spec.encoder.has_value()) return spec.decoder->max_positions - 1;
  int32_t tokens = spec.encoder->max_positions;
  if (!spec.decoder.has_value() && description.encoding.max_input_tokens > 0) {
    tokens = std::min(tokens, description.encoding.max_input_tokens);
  }
  return tokens;
}

absl::Status CheckLimits(const ModelOptions& options) {
  const auto check = [](const char* field, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{} is {}; accepted: {} to {}", field, value, low, high));
  };
  BEAMLINE_RETURN_IF_ERROR(check("max_batch_tokens", options.max_batch_tokens, 16, 1 << 20));
  BEAMLINE_RETURN_IF_ERROR(check("max_sequences", options.max_sequences, 1, 1 << 16));
  BEAMLINE_RETURN_IF_ERROR(check("speculative_tokens", options.speculative_tokens, 0, 16));
  BEAMLINE_RETURN_IF_ERROR(check("max_queued_requests", options.max_queued_requests, 1, 1 << 24));
  return check("cache_bytes", options.cache_bytes, 0, int64_t{1} << 50);
}

// A step must hold the longest input whole, and one token of every sequence.
void RaiseLimits(const ModelDescription& description, ModelOptions& options) {
  options.max_batch_tokens =
      std::max({options.max_batch_tokens, options.max_sequences, MaxInputTokens(description)});
}

ModelInfo Describe(const LoadedModel& model, int32_t num_blocks, int64_t block_bytes) {
  const TransformerSpec& spec = model.description.spec;
  ModelInfo info;
  info.name = model.options.name;
  info.folder = model.options.folder;
  info.architecture = spec.architecture;
  info.task = TaskOf(spec);
  info.dtype = model.options.dtype;
  info.num_parameters = model.transformer->num_parameters();
  info.weight_bytes = model.transformer->weight_bytes();
  info.cache_blocks = num_blocks;
  info.cache_bytes = num_blocks * block_bytes;
  info.block_size = kCacheBlockSize;
  info.vocab_size = spec.vocab_size;
  info.hidden_size = (spec.decoder.has_value() ? *spec.decoder : *spec.encoder).hidden_size;
  if (spec.encoder.has_value()) info.num_encoder_layers = spec.encoder->num_layers;
  if (spec.decoder.has_value()) {
    info.num_decoder_layers = spec.decoder->num_layers;
    info.max_total_tokens = spec.decoder->max_positions;
  } else {
    info.embedding_dimensions = spec.encoder->hidden_size;
  }
  info.max_input_tokens = MaxInputTokens(model.description);
  info.tokenizer = model.tokenizer->Kind();
  for (const auto& prompt : model.description.encoding.prompts) {
    info.prompt_names.push_back(prompt.first);
  }
  if (!model.description.generation.eos_token_ids.empty()) {
    info.eos_token_id = model.description.generation.eos_token_ids.front();
  }
  info.device = model.backend->Name();
  info.device_description = model.backend->Description();
  return info;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadUnnamed(const ModelOptions& options,
                                                         const LoadContext& context) {
  BEAMLINE_RETURN_IF_ERROR(CheckLimits(options));
  auto model = std::make_unique<LoadedModel>();
  model->options = options;
  BEAMLINE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(options.folder));
  BEAMLINE_ASSIGN_OR_RETURN(model->description, DescribeModel(*checkpoint));
  BEAMLINE_ASSIGN_OR_RETURN(model->tokenizer, LoadTokenizer(options.folder));
  const TransformerSpec& spec = model->description.spec;
  if (model->tokenizer->vocab_size() > spec.vocab_size) {
    return absl::InvalidArgumentError(
        fmt::format("the tokenizer has {} tokens; the model's vocabulary has {}",
                    model->tokenizer->vocab_size(), spec.vocab_size));
  }
  BEAMLINE_ASSIGN_OR_RETURN(ChosenBackend chosen,
                            MakeBackend(options.device, {options.dtype, spec.max_head_dim()},
                                        context.num_threads, context.gpu_memory));
  model->backend = std::move(chosen.backend);
  RaiseLimits(model->description, model->options);
  model->max_logits_rows = std::max(model->options.max_sequences, kMinLogitsRows);
  if (options.speculative_tokens > 0) {
    model->speculation = std::make_unique<Speculation>(
        options.speculative_tokens,
        std::min(model->max_logits_rows, model->options.max_batch_tokens));
  }

  const int64_t block_bytes = Transformer::BlockBytes(
      spec, model->backend->ActivationDType(options.dtype), kCacheBlockSize);
  TransformerLimits limits;
  limits.max_batch_tokens = model->options.max_batch_tokens;
  limits.max_sequences = model->options.max_sequences;
  limits.max_logits_rows = model->max_logits_rows;
  const std::optional<size_t> free_bytes = model->backend->FreeMemory();
  limits.num_blocks = NumCacheBlocks(
      model->options, spec, block_bytes,
      DefaultCacheBytes(free_bytes, Demand(model->options, *checkpoint, context.later_models)));
  limits.block_size = kCacheBlockSize;
  BEAMLINE_ASSIGN_OR_RETURN(
      model->transformer,
      Transformer::Create(spec, *checkpoint, options.dtype, limits, *model->backend));
  if (free_bytes.has_value()) {
    BEAMLINE_RETURN_IF_ERROR(RunLargestSteps(limits, *model->transformer, *model->backend));
  }
  model->info = Describe(*model, limits.num_blocks, block_bytes);
  model->info.device_reason = std::move(chosen.reason);
  return model;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadedModel::Load(const ModelOptions& options,
                                                               const LoadContext& context) {
  auto model = LoadUnnamed(options, context);
  if (model.ok()) return model;
  return absl::Status(model.status().code(), fmt::format("model '{}': {}", options.name,
                                                         std::string(model.status().message())));
}

}  // namespace beamline
