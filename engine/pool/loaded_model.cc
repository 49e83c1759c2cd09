#include "engine/pool/loaded_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/checkpoint/checkpoint.h"
#include "engine/pool/make_backend.h"
#include "kernels/status.h"

namespace beamline {
namespace {

constexpr int32_t kBlockSize = 16;
// Of a step: room for a row that verifies or scores many tokens at once.
constexpr int32_t kMinLogitsRows = 64;
// Of a cache that nobody sized: enough for the demo models' full batches, and no surprise on a
// laptop.
constexpr int64_t kMaxDefaultCacheBytes = int64_t{1} << 30;

int64_t PhysicalMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
}

// The most that a cache gets when nobody sized it. A GPU has little else to do with its memory:
// half of what the weights leave.
int64_t DefaultCacheBytes(const Backend& backend, const Checkpoint& checkpoint, DType dtype) {
  const auto free_bytes = static_cast<int64_t>(backend.FreeMemory());
  if (free_bytes == 0) return std::min(kMaxDefaultCacheBytes, PhysicalMemoryBytes() / 8);
  int64_t weight_bytes = 0;
  for (const std::string& name : checkpoint.TensorNames()) {
    const auto tensor = checkpoint.Find(name);
    if (!tensor.ok()) continue;
    weight_bytes += static_cast<int64_t>(tensor->size / SizeOf(tensor->dtype) * SizeOf(dtype));
  }
  return std::max<int64_t>(free_bytes - weight_bytes, 0) / 2;
}

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

// Blocks for max_sequences of full length, within the bytes allowed; at least one request of full
// length.
int32_t NumBlocks(const ModelOptions& options, const TransformerSpec& spec, int64_t block_bytes,
                  int64_t default_bytes) {
  if (!spec.decoder.has_value()) return 0;
  const auto blocks_of = [](int32_t positions) {
    return (positions + kBlockSize - 1) / kBlockSize;
  };
  int64_t longest = blocks_of(spec.decoder->max_positions) + 1;
  if (spec.encoder.has_value()) longest += blocks_of(spec.encoder->max_positions);
  const int64_t bytes = options.cache_bytes > 0 ? options.cache_bytes : default_bytes;
  const int64_t wanted = options.cache_bytes > 0
                             ? bytes / block_bytes
                             : std::min(longest * options.max_sequences, bytes / block_bytes);
  return static_cast<int32_t>(std::clamp<int64_t>(wanted, longest, int64_t{1} << 26));
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
  info.block_size = kBlockSize;
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
                                                         int num_threads) {
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
  BEAMLINE_ASSIGN_OR_RETURN(
      ChosenBackend chosen,
      MakeBackend(options.device, {options.dtype, spec.max_head_dim()}, num_threads));
  model->backend = std::move(chosen.backend);
  RaiseLimits(model->description, model->options);
  model->max_logits_rows = std::max(model->options.max_sequences, kMinLogitsRows);
  if (options.speculative_tokens > 0) {
    model->speculation = std::make_unique<Speculation>(
        options.speculative_tokens,
        std::min(model->max_logits_rows, model->options.max_batch_tokens));
  }

  const int64_t block_bytes =
      Transformer::BlockBytes(spec, model->backend->ActivationDType(options.dtype), kBlockSize);
  TransformerLimits limits;
  limits.max_batch_tokens = model->options.max_batch_tokens;
  limits.max_sequences = model->options.max_sequences;
  limits.max_logits_rows = model->max_logits_rows;
  limits.num_blocks = NumBlocks(model->options, spec, block_bytes,
                                DefaultCacheBytes(*model->backend, *checkpoint, options.dtype));
  limits.block_size = kBlockSize;
  BEAMLINE_ASSIGN_OR_RETURN(
      model->transformer,
      Transformer::Create(spec, *checkpoint, options.dtype, limits, *model->backend));
  model->info = Describe(*model, limits.num_blocks, block_bytes);
  model->info.device_reason = std::move(chosen.reason);
  return model;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadedModel::Load(const ModelOptions& options,
                                                               int num_threads) {
  auto model = LoadUnnamed(options, num_threads);
  if (model.ok()) return model;
  return absl::Status(model.status().code(), fmt::format("model '{}': {}", options.name,
                                                         std::string(model.status().message())));
}

}  // namespace beamline
