// A checkpoint on a device: everything of a model that requests share and nothing of them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/chat/chat_templates.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/decoding/speculation.h"
#include "engine/encoding/model_heads.h"
#include "engine/loading/load_progress.h"
#include "engine/loading/make_backend.h"
#include "engine/loading/memory_plan.h"
#include "engine/loading/rerank_prompt.h"
#include "engine/models/models.h"
#include "engine/text/tokenizer.h"
#include "engine/transformer/long_input.h"
#include "engine/transformer/model_types.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

// What loading a model needs to know besides its own options.
struct LoadContext {
  CpuShare cpu;
  GpuMemoryLimit gpu_memory;
  Backend::Log log;  // of the device's choices, those made while loading too; may be empty
  LoadProgress::Log progress;                  // how far a large load is; may be empty
  std::span<const ModelOptions> later_models;  // to be loaded after this one, some on its device
  // Asked before anything of the device's memory is taken; its error ends the load. May be empty.
  std::function<absl::Status(const MemoryPlan& plan, const Backend& backend)> admit;
  const std::atomic<bool>* stop = nullptr;  // once set, the load ends with CANCELLED; may be null
  // Where the model's ranks come together as processes, of which this one is the front; null: they
  // are threads.
  const ProcessOptions* processes = nullptr;
  // The calling thread gives way to others, from now on and for good. With cpu.cores it stays on
  // these.
  bool yields = false;
};

// What is known of a model wherever it computes: all that requests are checked and tokenized by. A
// model's replicas have the same, and it may outlive them.
struct ModelFacts {
  ModelOptions options;
  ModelDescription description;
  StepLimits limits;
  ModelInfo info;
  ModelTypes types = DType::kFloat32;
  MemoryPlan memory;
  int32_t cached_len = 0;  // tokens of a sequence that the cache holds; 0: of the model's length
  std::shared_ptr<const Tokenizer> tokenizer;  // may outlive the model
  std::shared_ptr<const ChatTemplates> chat;   // may be empty
  std::shared_ptr<Speculation> speculation;    // null: sequences guess nothing
  std::shared_ptr<const RerankPrompt> rerank;  // null: it judges nothing by what it writes

  // Whether options.max_model_len limits what a request may have, and not the checkpoint.
  bool limited_by_setting() const {
    return options.max_model_len > 0 && (info.max_total_tokens == options.max_model_len ||
                                         info.max_input_tokens == options.max_model_len);
  }
  // What options.max_queued_tokens means.
  int64_t max_queued_tokens() const {
    constexpr int64_t kSteps = 256, kLongest = 8;
    if (options.max_queued_tokens > 0) return options.max_queued_tokens;
    return std::max(kSteps * limits.max_batch_tokens, kLongest * info.max_input_tokens);
  }
  // Steps that an input of num_tokens takes, about, where it is longer than one step.
  int64_t StepsOfLong(int32_t num_tokens) const {
    if (limits.max_input_tokens == 0) return 1;
    return LongInputCost(*description.spec.encoder).Steps(num_tokens, limits);
  }
};

struct LoadedModel : ModelFacts {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Transformer> transformer;
  ModelHeads heads;
  bool on_gpu = false;
  int num_processes = 1;  // that have about as much of `memory` each
  // Where the threads that compute it belong; empty: anywhere.
  std::vector<int> cores;

  // Of the host, that it may still come to write beyond what it holds now.
  int64_t PromisedHostBytes() const;

  // Computes the largest steps once on a device that divides a fixed memory, so that serving takes
  // nothing large from it. Errors name the model, the file and the fault.
  static absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const ModelOptions& options,
                                                           const LoadContext& context);
};

// All that the folder's files say but the weights. Sets the model's description, tokenizer, chat
// templates and prompt of a reranker. REQUIRES: model.options passed CheckModelOptions.
absl::StatusOr<std::unique_ptr<Checkpoint>> ReadFolder(LoadedModel& model);

}  // namespace beamline
