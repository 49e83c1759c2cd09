// A served model: its options at load, its description, and its current statistics.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device_memory.h"
#include "kernels/tensor.h"

namespace beamline {

enum class ModelTask : uint8_t {
  kGenerate,
  kTranslate,
  kEncode,
  kClassify,
  kClassifyTokens
};  // decoder, encoder-decoder, encoder, encoder with a head for classes of texts or of tokens

// Whether the model generates text, one step per token.
constexpr bool Generates(ModelTask task) {
  return task == ModelTask::kGenerate || task == ModelTask::kTranslate;
}

// Whether the answers are classes, of texts or of tokens.
constexpr bool Classifies(ModelTask task) {
  return task == ModelTask::kClassify || task == ModelTask::kClassifyTokens;
}

// State of one version of a model, from the start of its load to the end of its unload. kFailed:
// the load failed. kUnloaded: reported only once, at the end of an unload.
enum class ModelState : uint8_t { kLoading, kReady, kDraining, kFailed, kUnloaded };

// Separates a model's name from its version; names must not contain it.
inline constexpr char kVersionSeparator = '@';

// One model to serve; engine/api/model_settings.h has the ranges.
struct ModelOptions {
  std::string name;     // the name that requests use
  int32_t version = 1;  // several versions of a name may be served at the same time
  std::string folder;   // a Hugging Face checkpoint folder
  // When set, no file of `folder` may be outside this folder, even through symbolic links. Empty:
  // links may lead anywhere. Not a setting: callers of LoadModel do not choose it.
  std::string folder_root;
  // Default for those of the next three that are empty. nullopt ("auto"): chosen by the checkpoint
  // and the device (docs/decisions/0071-types-of-the-checkpoint.md).
  std::optional<DType> dtype;
  // Types ("bfloat16") of stored matrices, of matmuls, and of cached keys and values. Empty: dtype;
  // for the cache, the type of the device's activations (docs/decisions/0036-precision.md).
  std::string weights, compute, cache;
  // "cpu", "cuda", "cuda:1", ...; "auto", or empty: a GPU when there is one.
  std::string device;
  // Number of replicas that serve requests in parallel, or "auto". Empty means "auto": one for each
  // GPU in `devices`, else 1.
  std::string replicas;
  // Instead of `device`: "cpu", or the GPUs of the replicas, "cuda:0, cuda:1", one for each rank of
  // each replica. Without it, `device` "cuda" or "auto" places the ranks on the first GPUs.
  std::string devices;
  // Maximum tokens of a sequence; 0: the checkpoint's positions. Larger values are accepted only
  // for models with relative positions (T5, BLOOM).
  int32_t max_model_len = 0;
  // Maximum tokens of a step. A step has more only when an input cannot be split: that of an
  // encoder with bidirectional attention (ModelInfo::max_batch_tokens).
  int32_t max_batch_tokens = 4096;
  // How long running sequences may wait for a step that also computes prompts; prompts are split
  // into chunks to meet it. 0: only max_batch_tokens limits the chunks.
  int32_t max_gap_ms = 50;
  int32_t max_sequences = 256;  // sequences that may run at once
  // KV cache. 0: sized for max_sequences, at most an eighth of memory or 1 GiB; on a GPU at most an
  // even share of what the weights leave.
  int64_t cache_bytes = 0;
  bool prefix_cache = true;        // requests share cached prefixes of prompts
  int32_t speculative_tokens = 0;  // most draft tokens of a greedy sequence per step
  // On a GPU: an answer has the same bits alone and in any batch. On a CPU this always holds.
  bool deterministic = false;
  int32_t tensor_parallel = 1;         // ranks that each compute a part of every layer
  int32_t pipeline_parallel = 1;       // consecutive stages that each compute some of the layers
  int32_t max_queued_requests = 4096;  // accepted but not yet running; beyond it:
                                       // RESOURCE_EXHAUSTED
  // Maximum tokens to be read by all waiting requests. 0: the tokens of 256 full steps, and at
  // least eight of the longest inputs.
  int64_t max_queued_tokens = 0;
  // Whether loading runs warm-up steps, so that first requests do not pay for one-time work of the
  // device: "true", "false", or "auto" (only on a GPU). On a CPU "true" also touches the cache's
  // memory pages, which are otherwise mapped when requests first write them.
  std::string warm_up = "auto";
  // For LLM rerankers: the prompt that judges a document, a text with {query} and {document}.
  // rerank_tokens are the two possible answers, "yes,no": first the token for a relevant document,
  // then the one for an irrelevant document. Set both or neither.
  std::string rerank_template, rerank_tokens;

  // Ranks of one replica, over all stages.
  int32_t num_ranks() const { return tensor_parallel * pipeline_parallel; }
  bool operator==(const ModelOptions&) const = default;
};

// kUp: answers. kDraining: finishes its requests before a restart. kRestarting: is being reloaded.
// kFailed: its device has failed.
enum class ReplicaPhase : uint8_t { kUp, kDraining, kRestarting, kFailed };

// Replica status, for monitoring.
struct ReplicaInfo {
  std::string device;       // Backend::Name()
  std::string description;  // Backend::Description()
  ReplicaPhase phase = ReplicaPhase::kUp;
  int32_t restarts = 0;

  bool operator==(const ReplicaInfo&) const = default;
};

// Result of the warm-up.
struct WarmUpReport {
  int32_t num_steps = 0;  // 0: no warm-up
  bool complete = true;   // false: stopped early at its time limit
  std::chrono::nanoseconds duration{};
};

// Answer of GetModel. Sizes in bytes, lengths in tokens. While a model is loading or has failed,
// only the fields that its options determine are set.
struct ModelInfo {
  std::string name;
  int32_t version = 1;
  std::string versioned_name;  // "write-en@1": names this version in requests
  ModelState state = ModelState::kReady;
  std::string error;  // why the load failed; else empty
  std::string folder;
  std::string architecture;  // "MarianMTModel"
  ModelTask task = ModelTask::kGenerate;
  std::optional<DType> dtype;  // compute type; loading or failed: only if the options set it
  DType weight_dtype = DType::kFloat32;
  DType cache_dtype = DType::kFloat32;
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t cache_bytes = 0;
  int32_t cache_blocks = 0;
  int32_t block_size = 0;
  int32_t vocab_size = 0;            // ids that the model generates: 0 .. vocab_size - 1
  int32_t input_vocab_size = 0;      // ids of prompts; some translators have another number here
  int32_t tokenizer_vocab_size = 0;  // Tokenizer::vocab_size()
  int32_t hidden_size = 0;
  int32_t num_encoder_layers = 0;
  int32_t num_decoder_layers = 0;
  int32_t max_input_tokens = 0;
  int32_t max_total_tokens = 0;  // decoder positions, max_model_len or what the cache holds; 0 for
                                 // encoders
  int32_t max_batch_tokens = 0;  // of a step; limit_notes explains a value that differs from the
                                 // options
  int32_t max_sequences = 0;     // that run at once; likewise
  std::string types_note;        // sentence for the log: the types that "auto" resolved to; or
                                 // empty
  std::string weights_note;      // sentence for the log: how quantised weights are read; or empty
  std::vector<std::string> limit_notes;     // sentences for the log: limits that differ from the
                                            // options
  int32_t embedding_dimensions = 0;         // encoders
  std::string tokenizer;                    // Tokenizer::Kind()
  std::vector<std::string> prompt_names;    // encoders
  std::vector<std::string> labels;          // classifiers: one per class
  bool reranks = false;                     // one class, or a rerank_template
  std::string mask_token;                   // of a masked LM; else empty
  std::vector<std::string> languages;       // multilingual translators: languages that requests may
                                            // name
  std::vector<std::string> chat_templates;  // names of those that can be rendered
  int32_t eos_token_id = -1;
  std::string device;  // Backend::Name() of the first replica
  std::string device_description;
  std::string device_reason;  // why this device was chosen
  WarmUpReport warm_up;
  std::vector<ReplicaInfo> replicas;
};

// A replica changed its phase.
struct ReplicaChange {
  ModelInfo model;
  int32_t replica = 0;
  ReplicaPhase phase = ReplicaPhase::kUp;
  std::string reason;            // with kFailed, and when a restart failed
  bool will_restart = false;     // with kFailed: the engine will restart it by itself
  bool model_can_answer = true;  // at least one replica of the model can answer
};

// State of one replica and its device.
struct ReplicaState {
  int32_t version = 1;
  int32_t replica = 0;  // index among the replicas of the version
  std::string device;   // Backend::Name()
  bool can_answer = true;
  ReplicaPhase phase = ReplicaPhase::kUp;
  uint64_t restarts = 0;
  uint64_t steps = 0;  // since its last load
  // Estimated time until a request that arrives now would start, at the speed of recent steps.
  double expected_wait_seconds = 0;
  std::vector<MemoryUse> memory;  // memory it uses on the device, by purpose
  // Bytes of its device that no model uses; nullopt: the device's memory is not reserved in
  // advance.
  std::optional<size_t> unused_device_bytes;
};

// One request of a replica, at one moment.
struct JobSnapshot {
  std::string client;
  int32_t priority = 0;
  double age_seconds = 0;
  std::optional<double> left_seconds;  // until its deadline; nullopt: no deadline
  bool begun = false;                  // it has been part of a step
  bool running = false;                // it is in the current batch
  int64_t cost = 0;                    // most tokens that it may have to compute
  // Only for requests that generate:
  int64_t sequences = 0;
  int64_t tokens = 0;  // over all its sequences
  int64_t blocks = 0;  // in the block tables of its sequences; a shared block counts for each
};

// The requests of one replica, at one moment.
struct ReplicaSnapshot {
  std::string model;
  int32_t version = 1;
  int32_t replica = 0;
  std::string device;
  bool answered = false;  // its thread reported `jobs`; false: a long step runs, or it has ended
  std::vector<JobSnapshot> jobs;
};

// Current statistics of one model, for gauges and counters. Counters never decrease, even across
// reloads.
struct ModelStats {
  bool can_answer = true;  // false while at least one replica cannot answer
  int64_t waiting_requests = 0;
  int64_t waiting_tokens = 0;         // prompt tokens that they still have to read
  double oldest_waiting_seconds = 0;  // age of the oldest waiting request
  double expected_queue_seconds = 0;  // for a request that arrives after all waiting ones
  int64_t running_sequences = 0;
  int64_t used_blocks = 0;
  int64_t total_blocks = 0;
  uint64_t steps = 0;
  uint64_t prompt_tokens = 0;  // computed
  uint64_t cached_prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  uint64_t encoded_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t cancelled = 0;
  uint64_t hopeless = 0;                      // requests ended because their deadline was out of
                                              // reach
  uint64_t rerun = 0;                         // requests that were retried at another replica
  uint64_t speculative_proposed = 0;          // draft tokens proposed
  uint64_t speculative_accepted = 0;          // draft tokens accepted
  std::vector<MemoryUse> memory;              // over all replicas, by purpose
  std::optional<size_t> unused_device_bytes;  // as in ReplicaState; of the first replica that has
                                              // it
  std::vector<ReplicaState> replicas;
};

}  // namespace beamline
