#include "engine/loading/loaded_model.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/decoding/default_checks.h"
#include "engine/loading/host_heads.h"
#include "engine/loading/load_progress.h"
#include "engine/loading/loading_checkpoint.h"
#include "engine/loading/make_backend.h"
#include "engine/loading/make_ranks.h"
#include "engine/loading/model_limits.h"
#include "engine/loading/model_options_check.h"
#include "engine/loading/model_precision.h"
#include "engine/loading/placement.h"
#include "engine/loading/rank_meeting.h"
#include "engine/loading/rehearsal.h"
#include "engine/text/error_line.h"
#include "engine/transformer/rank_call.h"
#include "engine/transformer/ranked_transformer.h"
#include "engine/transformer/shard.h"
#include "engine/transformer/stage.h"
#include "fmt/format.h"
#include "kernels/cpu/core_sets.h"

namespace beamline {
namespace {

// A large model with nothing measured before may need more; the rest then comes as it is needed.
constexpr std::chrono::seconds kWarmUpTime{20};
// Of an error of loading, and of what it quotes. A device's list what was tried and what is held.
constexpr size_t kMaxErrorBytes = 460;
constexpr size_t kMaxDeviceErrorBytes = 4096;
constexpr size_t kMaxFolderBytes = 160, kMaxNameBytes = 64;

ModelTask TaskOf(const TransformerSpec& spec) {
  if (spec.classifier.has_value()) {
    return spec.classifier->per_token ? ModelTask::kClassifyTokens : ModelTask::kClassify;
  }
  if (!spec.decoder.has_value()) return ModelTask::kEncode;
  return spec.encoder.has_value() ? ModelTask::kTranslate : ModelTask::kGenerate;
}

// An encoder's input is cut to its limit on request, and the special tokens around it stay.
absl::Status CheckRoomForText(const LoadedModel& model) {
  const int32_t limit = MaxInputTokens(model.description, *model.tokenizer);
  int32_t special = model.tokenizer->num_template_tokens();
  const ModelTask task = TaskOf(model.description.spec);
  if (task == ModelTask::kClassify) {
    special = std::max(special, model.tokenizer->num_pair_template_tokens());
  }
  if (Generates(task) || limit >= special) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}: the longest input has {} tokens, by max_seq_length of sentence_bert_config.json, "
      "model_max_length of tokenizer_config.json, max_position_embeddings of config.json or the "
      "setting max_model_len; the tokenizer's special tokens alone are {}",
      model.options.folder, limit, special));
}

// Of two texts that are one input, each piece has a type that the classifier knows.
absl::Status CheckTypes(const LoadedModel& model) {
  const TransformerSpec& spec = model.description.spec;
  if (TaskOf(spec) != ModelTask::kClassify || spec.encoder->num_types < 2) return absl::OkStatus();
  const int32_t id = 0;
  const auto pair = model.tokenizer->JoinPair({&id, 1}, {&id, 1}, Truncation::kNone, 0);
  if (!pair.has_value()) return absl::OkStatus();
  const int32_t largest = *std::ranges::max_element(pair->type_ids);
  if (largest < spec.encoder->num_types) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{}/config.json: type_vocab_size is {}; at least {} is expected, the types of the "
      "tokenizer's template of two texts",
      model.options.folder, spec.encoder->num_types, largest + 1));
}

int32_t InputVocabSize(const TransformerSpec& spec) {
  return spec.encoder.has_value() ? spec.encoder->vocab_size : spec.vocab_size;
}

absl::Status CheckVocabularies(const std::string& folder, const Tokenizer& tokenizer,
                               const TransformerSpec& spec) {
  const auto check = [&](std::string_view field, std::string_view files, int32_t tokens,
                         int32_t vocab_size) {
    if (tokens <= vocab_size) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}/config.json: {} is {}; at least {} is expected, the ids of the {}", folder,
                    field, vocab_size, tokens, files));
  };
  BEAMLINE_RETURN_IF_ERROR(check("vocab_size", "tokenizer's files", tokenizer.source_vocab_size(),
                                 InputVocabSize(spec)));
  return check("decoder_vocab_size", "tokenizer's target_vocab.json",
               tokenizer.target_vocab_size().value_or(0), spec.vocab_size);
}

ModelInfo Describe(const LoadedModel& model) {
  const TransformerSpec& spec = model.description.spec;
  ModelInfo info;
  info.limit_notes = model.info.limit_notes;
  info.max_batch_tokens = model.limits.max_batch_tokens;
  info.max_sequences = model.limits.max_sequences;
  info.name = model.options.name;
  info.version = model.options.version;
  info.versioned_name = fmt::format("{}{}{}", info.name, kVersionSeparator, info.version);
  info.folder = model.options.folder;
  info.architecture = spec.architecture;
  info.task = TaskOf(spec);
  info.dtype = model.types.precision.compute;
  info.weight_dtype = model.info.weight_dtype;
  info.types_note = model.info.types_note;
  info.weights_note = model.info.weights_note;
  info.cache_dtype = model.backend->CacheDType(model.types.precision);
  info.num_parameters = model.transformer->num_parameters();
  info.weight_bytes = model.transformer->weight_bytes();
  if (model.heads.classifier != nullptr) {
    info.num_parameters += model.heads.classifier->num_parameters();
    info.weight_bytes += model.heads.classifier->weight_bytes();
    info.labels = model.description.classifying.labels;
    info.reranks = !spec.classifier->per_token && info.labels.size() == 1;
  }
  if (model.heads.mask != nullptr) {
    info.num_parameters += model.heads.mask->num_parameters();
    if (spec.mask_head->output.weights.front() == spec.encoder->token_table) {  // counted before
      info.num_parameters -= int64_t{spec.encoder->vocab_size} * spec.encoder->embedding_size();
    }
    info.weight_bytes += model.heads.mask->weight_bytes();
    info.mask_token = model.tokenizer->TokenText(*model.tokenizer->mask_id());
  }
  if (model.heads.dense != nullptr) {
    info.num_parameters += model.heads.dense->num_parameters();
    info.weight_bytes += model.heads.dense->weight_bytes();
  }
  info.cache_blocks = model.limits.num_blocks;
  info.cache_bytes = model.memory.cache;
  info.block_size = model.limits.block_size;
  info.vocab_size = spec.vocab_size;
  info.input_vocab_size = InputVocabSize(spec);
  info.tokenizer_vocab_size = model.tokenizer->vocab_size();
  info.hidden_size = (spec.decoder.has_value() ? *spec.decoder : *spec.encoder).hidden_size;
  if (spec.encoder.has_value()) info.num_encoder_layers = spec.encoder->num_layers;
  if (spec.decoder.has_value()) {
    info.num_decoder_layers = spec.decoder->num_layers;
    info.max_total_tokens = spec.decoder->max_positions;
  } else if (model.heads.classifier == nullptr) {
    const EncodingDefaults& encoding = model.description.encoding;
    info.embedding_dimensions = encoding.dimensions > 0
                                    ? encoding.dimensions
                                    : encoding.vector_size(spec.encoder->hidden_size);
  }
  info.max_input_tokens = MaxInputTokens(model.description, *model.tokenizer);
  info.tokenizer = model.tokenizer->Kind();
  info.languages = model.tokenizer->languages();
  info.chat_templates = model.chat->names();
  info.reranks = info.reranks || model.rerank != nullptr;
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

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> ReadFolder(LoadedModel& model) {
  const ModelOptions& options = model.options;
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointPath folder,
                            CheckpointPath::Beneath(options.folder_root, options.folder));
  BEAMLINE_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Open(folder, CheckFamily));
  BEAMLINE_ASSIGN_OR_RETURN(model.description, DescribeModel(*checkpoint, options.max_model_len));
  BEAMLINE_ASSIGN_OR_RETURN(model.tokenizer,
                            LoadTokenizer(folder, model.description.encoding.lower_case));
  BEAMLINE_ASSIGN_OR_RETURN(ChatTemplates chat, ChatTemplates::Load(folder));
  model.chat = std::make_shared<const ChatTemplates>(std::move(chat));
  BEAMLINE_RETURN_IF_ERROR(CheckRoomForText(model));
  BEAMLINE_RETURN_IF_ERROR(CheckTypes(model));
  const TransformerSpec& spec = model.description.spec;
  BEAMLINE_ASSIGN_OR_RETURN(model.rerank, RerankPrompt::Make(options, *model.tokenizer, spec));
  BEAMLINE_RETURN_IF_ERROR(CheckVocabularies(options.folder, *model.tokenizer, spec));
  if (spec.decoder.has_value()) {
    const char* const file =
        checkpoint->generation_config().empty() ? "config.json" : "generation_config.json";
    BEAMLINE_RETURN_IF_ERROR(CheckGenerationDefaults(
        fmt::format("{}/{}", options.folder, file), model.description.generation, *model.tokenizer,
        {spec.vocab_size, spec.decoder->max_positions}));
  }
  return checkpoint;
}

namespace {

absl::Status CheckNotStopped(const LoadContext& context) {
  if (context.stop == nullptr || !*context.stop) return absl::OkStatus();
  return absl::CancelledError("the load was stopped");
}

// As far as the system lets it.
void GiveWay() {
  constexpr int kNiceness = 10;
  [[maybe_unused]] const int niceness = nice(kNiceness);
}

struct Placement {
  std::string reason;          // a sentence for the log
  RankGroup* ranks = nullptr;  // of the model's backend; null: one rank
};

// What this thread writes first lies in the memory of the model's cores.
void TakeCores(const LoadContext& context, bool on_gpu, LoadedModel& model) {
  model.on_gpu = on_gpu;
  if (!on_gpu) model.cores = context.cpu.cores;
  cpu::RunOn(model.cores);
}

// The front of a model's processes, once all are there.
absl::StatusOr<Placement> PlaceFront(const ModelNeeds& needs, const Checkpoint& checkpoint,
                                     const LoadContext& context, LoadedModel& model) {
  BEAMLINE_ASSIGN_OR_RETURN(
      ChosenBackend chosen,
      MakeProcessDevice(model.options, needs, context.cpu, context.gpu_memory));
  BEAMLINE_RETURN_IF_ERROR(CheckOneGpu(model.options, chosen.is_gpu));
  TakeCores(context, chosen.is_gpu, model);
  model.num_processes = model.options.num_ranks();
  RankDoor door = DoorOf(*context.processes, model.options);
  door.stop = context.stop;
  BEAMLINE_ASSIGN_OR_RETURN(auto links, RankLinks::Gather(door));
  BEAMLINE_ASSIGN_OR_RETURN(
      auto rank,
      MeetFollowers(std::move(links), door, TermsOf(checkpoint, model.options, chosen.is_gpu),
                    std::move(chosen.backend), context.stop));
  Placement placement = {"its ranks are processes", &rank->ranks()};
  model.backend = std::move(rank);
  return placement;
}

absl::StatusOr<Placement> PlaceRanks(const ModelNeeds& needs, const LoadContext& context,
                                     LoadedModel& model) {
  const ModelOptions& options = model.options;
  BEAMLINE_ASSIGN_OR_RETURN(const auto placements, PlaceReplicas(options, context.cpu.num_threads));
  const std::vector<std::string>& devices = placements.front().devices;
  BEAMLINE_RETURN_IF_ERROR(CheckOneGpu(options, devices.front() != "cpu"));
  TakeCores(context, devices.front() != "cpu", model);
  BEAMLINE_ASSIGN_OR_RETURN(auto ranked, MakeRanks(devices, needs, context.cpu, context.gpu_memory,
                                                   options.pipeline_parallel));
  std::string reason = model.on_gpu ? "the GPUs were asked for" : "the CPU was asked for";
  if (options.devices.empty() && (options.device.empty() || options.device == "auto")) {
    reason = model.on_gpu ? "GPUs are there" : "there is no GPU";
  }
  Placement placement = {std::move(reason), &ranked->ranks()};
  model.backend = std::move(ranked);
  return placement;
}

// Gives the model its backend.
absl::StatusOr<Placement> Place(const Checkpoint& checkpoint, const LoadContext& context,
                                LoadedModel& model) {
  const ModelOptions& options = model.options;
  const TransformerSpec& spec = model.description.spec;
  const ModelNeeds needs = {TypesOf(options, checkpoint, false).precision, spec.max_head_dim(),
                            spec.max_hidden_size(), options.deterministic,
                            TypesOf(options, checkpoint, true).precision};
  BEAMLINE_RETURN_IF_ERROR(CheckDivides(spec, options.tensor_parallel));
  BEAMLINE_RETURN_IF_ERROR(CheckStages(spec, options.pipeline_parallel));
  if (context.processes != nullptr) return PlaceFront(needs, checkpoint, context, model);
  if (options.num_ranks() > 1) return PlaceRanks(needs, context, model);
  BEAMLINE_ASSIGN_OR_RETURN(ChosenBackend chosen,
                            MakeBackend(options.device.empty() ? "auto" : options.device, needs,
                                        context.cpu, context.gpu_memory));
  TakeCores(context, chosen.is_gpu, model);
  model.backend = std::move(chosen.backend);
  return Placement{std::move(chosen.reason)};
}

// As settings, checkpoint and device have it. REQUIRES: the model has its backend.
void SetTypes(const Checkpoint& checkpoint, LoadedModel& model) {
  model.types = TypesOf(model.options, checkpoint, model.on_gpu);
  model.info.weight_dtype =
      model.types.keeps_stored ? StoredType(checkpoint) : model.types.precision.weights;
  model.info.types_note = TypesNote(model.options, checkpoint, model.on_gpu, *model.backend);
  model.info.weights_note = WeightsNote(checkpoint);
}

// Of what all ranks together take, what this process does.
MemoryPlan OwnPlan(const LoadedModel& model) {
  MemoryPlan plan = model.memory;
  plan.weights /= model.num_processes;
  plan.cache /= model.num_processes;
  plan.activations /= model.num_processes;
  plan.workspaces /= model.num_processes;
  return plan;
}

// On the model's backend, or on each of its ranks.
absl::StatusOr<std::unique_ptr<Transformer>> MakeTransformer(const LoadedModel& model,
                                                             const Checkpoint& checkpoint,
                                                             RankGroup* ranks,
                                                             const std::atomic<bool>* stop) {
  const TransformerSpec& spec = model.description.spec;
  if (ranks != nullptr) {
    RankLinks* const followers = ranks->followers();
    if (followers != nullptr) {
      ByteWriter load;
      load(RankCall::kLoad, model.limits);
      followers->Tell(RankLinks::Kind::kCall, load.bytes());
    }
    auto transformer =
        RankedTransformer::Create(spec, checkpoint, model.types, model.limits, *ranks);
    if (transformer.ok() && followers != nullptr) {
      BEAMLINE_RETURN_IF_ERROR(AwaitReplies(*followers, stop).status());
    }
    return transformer;
  }
  return Transformer::Create(spec, checkpoint, model.types, model.limits, *model.backend);
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadUnnamed(const ModelOptions& options,
                                                         const LoadContext& context) {
  BEAMLINE_RETURN_IF_ERROR(CheckModelOptions(options));
  auto model = std::make_unique<LoadedModel>();
  model->options = options;
  BEAMLINE_ASSIGN_OR_RETURN(const auto checkpoint, ReadFolder(*model));
  BEAMLINE_ASSIGN_OR_RETURN(Placement placement, Place(*checkpoint, context, *model));
  SetTypes(*checkpoint, *model);
  // Only now: the threads that a backend starts serve other models too, and would inherit it.
  if (context.yields) GiveWay();
  if (context.log) model->backend->SetLog(context.log);
  BEAMLINE_RETURN_IF_ERROR(SetLimits(*checkpoint, context, *model));
  const StepLimits& limits = model->limits;
  if (options.speculative_tokens > 0) {
    const auto& decoder = model->description.spec.decoder;
    model->speculation =
        std::make_shared<Speculation>(options.speculative_tokens, limits.max_verified_tokens(),
                                      decoder.has_value() ? decoder->rotary.original_positions : 0);
  }
  model->memory = PlanOf(*model, *checkpoint, limits);
  if (context.admit) BEAMLINE_RETURN_IF_ERROR(context.admit(OwnPlan(*model), *model->backend));
  LoadProgress progress(*checkpoint, context.progress);
  BEAMLINE_ASSIGN_OR_RETURN(
      model->transformer,
      MakeTransformer(*model, LoadingCheckpoint(*checkpoint, context.stop, &progress),
                      placement.ranks, context.stop));
  BEAMLINE_RETURN_IF_ERROR(LoadHostHeads(*checkpoint, context, *model));
  BEAMLINE_RETURN_IF_ERROR(CheckNotStopped(context));
  if (model->backend->FreeMemory().has_value()) {
    BEAMLINE_RETURN_IF_ERROR(RehearseLargest(limits, *model->transformer, *model->backend));
  }
  model->info = Describe(*model);
  model->info.device_reason = std::move(placement.reason);
  // A device that records steps has these recorded before requests wait for them.
  if (options.warm_up == "true" || (options.warm_up == "auto" && model->backend->Records())) {
    BEAMLINE_ASSIGN_OR_RETURN(
        model->info.warm_up,
        RehearseUsual(limits, *model->transformer, *model->backend, kWarmUpTime, context.stop));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckNotStopped(context));
  return model;
}

}  // namespace

int64_t LoadedModel::PromisedHostBytes() const {
  if (backend->FreeMemory().has_value()) return 0;  // its memory is not the host's
  int64_t held = 0;
  for (const MemoryUse& use : backend->MemoryUsage()) held += static_cast<int64_t>(use.bytes);
  return std::max<int64_t>(memory.total() / num_processes - held, 0);
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadedModel::Load(const ModelOptions& options,
                                                               const LoadContext& context) {
  auto model = LoadUnnamed(options, context);
  if (model.ok()) return model;
  // Long names must not push the file's out of the line.
  const std::string folder = Shorten(options.folder, kMaxFolderBytes);
  std::string message(model.status().message());
  if (const size_t begin = message.find(options.folder); begin != std::string::npos) {
    message.replace(begin, options.folder.size(), folder);
  }
  const absl::StatusCode code = model.status().code();
  const bool of_device = code == absl::StatusCode::kUnavailable ||
                         code == absl::StatusCode::kResourceExhausted ||
                         code == absl::StatusCode::kInternal;
  message = fmt::format("model '{}': {}", Shorten(options.name, kMaxNameBytes), message);
  return WithShortMessage(absl::Status(code, message),
                          of_device ? kMaxDeviceErrorBytes : kMaxErrorBytes);
}

}  // namespace beamline
