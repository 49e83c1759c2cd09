// A served model: what is asked of it at load, what it is, and a moment's numbers.
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

// Whether it writes text: what it does for a request is a step for each token.
constexpr bool Generates(ModelTask task) {
  return task == ModelTask::kGenerate || task == ModelTask::kTranslate;
}

// Whether its answers are classes, of texts or of tokens.
constexpr bool Classifies(ModelTask task) {
  return task == ModelTask::kClassify || task == ModelTask::kClassifyTokens;
}

// A model, or one version of it, from the call that loads it to the end of the one that unloads it.
// kFailed: it could not be loaded. kUnloaded: told of its end alone.
enum class ModelState : uint8_t { kLoading, kReady, kDraining, kFailed, kUnloaded };

// Stands between a model's name and a version of it, so no name has it.
inline constexpr char kVersionSeparator = '@';

// One model to serve; engine/api/model_settings.h has the ranges.
struct ModelOptions {
  std::string name;     // as requests name it
  int32_t version = 1;  // several of one name may be served beside each other
  std::string folder;   // a Hugging Face checkpoint folder
  // Every file of `folder` is opened beneath this folder, wherever links in it lead; empty: where
  // they lead. No setting: LoadModel's callers do not choose it.
  std::string folder_root;
  // Of what the next three leave open; nullopt, "auto": by the checkpoint and the device
  // (docs/decisions/0071-types-of-the-checkpoint.md).
  std::optional<DType> dtype;
  // Types of matrices in memory, of products, and of keys and values in memory ("bfloat16");
  // empty: dtype, of the cache what the device's activations have
  // (docs/decisions/0036-precision.md).
  std::string weights, compute, cache;
  // "cpu", "cuda", "cuda:1", ...; "auto", or empty: a GPU when there is one.
  std::string device;
  // Replicas that answer beside each other: a number, or "auto", which empty means too: one for
  // each GPU that `devices` names, else 1.
  std::string replicas;
  // Instead of `device`: "cpu", or the GPUs of the replicas, "cuda:0, cuda:1"; to each replica one
  // for each of its ranks. Without it the ranks of `device` "cuda" or "auto" are the first GPUs.
  std::string devices;
  // Tokens of a sequence at most; 0: the checkpoint's positions. More than these only where
  // positions are distances (T5, BLOOM).
  int32_t max_model_len = 0;
  // Tokens that a step computes at most. More only where an input cannot be cut: an encoder's that
  // looks both ways (ModelInfo::max_batch_tokens).
  int32_t max_batch_tokens = 4096;
  // How long sequences that run may wait for a step that computes prompts beside them; prompts are
  // cut for it. 0: by max_batch_tokens alone.
  int32_t max_gap_ms = 50;
  int32_t max_sequences = 256;  // sequences that may run at once
  // KV cache; 0: sized for max_sequences, at most an eighth of memory or 1 GiB, on a GPU at most an
  // even share of what the weights leave.
  int64_t cache_bytes = 0;
  bool prefix_cache = true;        // shares the cached beginnings of prompts between requests
  int32_t speculative_tokens = 0;  // most tokens that a greedy sequence guesses a step
  // On a GPU: an answer has the same bits alone and in any batch, as it has on the CPU anyway.
  bool deterministic = false;
  int32_t tensor_parallel = 1;         // ranks that compute the model together, a part each
  int32_t pipeline_parallel = 1;       // stages that compute it one behind the other, layers each
  int32_t max_queued_requests = 4096;  // accepted and not yet running; more is RESOURCE_EXHAUSTED
  // Of the requests that wait, the tokens that are to be read; 0: what 256 full steps read, and
  // eight of the longest inputs at least.
  int64_t max_queued_tokens = 0;
  // Whether loading runs the usual steps once, so that the first requests need not wait for what a
  // device does when it meets them: "true", "false"; "auto": on a GPU. "true" on a CPU gives the
  // cache its pages, too, which else come when requests write it.
  std::string warm_up = "auto";
  // What a model that writes reads to judge a document: a text with {query} and {document} in it.
  // The two tokens that would follow it, "yes,no": of a document that answers the query, and of one
  // that does not. Both or neither.
  std::string rerank_template, rerank_tokens;

  // Of a replica, in all stages together.
  int32_t num_ranks() const { return tensor_parallel * pipeline_parallel; }
  bool operator==(const ModelOptions&) const = default;
};

// kUp: it answers. kDraining: it finishes what it has, to be restarted. kRestarting: it is being
// loaded once more. kFailed: its device has failed.
enum class ReplicaPhase : uint8_t { kUp, kDraining, kRestarting, kFailed };

// A replica, for whoever looks on.
struct ReplicaInfo {
  std::string device;       // Backend::Name()
  std::string description;  // Backend::Description()
  ReplicaPhase phase = ReplicaPhase::kUp;
  int32_t restarts = 0;

  bool operator==(const ReplicaInfo&) const = default;
};

// What loading ran in advance of the first request.
struct WarmUpReport {
  int32_t num_steps = 0;  // 0: nothing
  bool complete = true;   // false: it ended early, for its time was up
  std::chrono::nanoseconds duration{};
};

// What GetModel answers. Sizes in bytes, lengths in tokens. Of a model that is loading or has
// failed only what its options say is known.
struct ModelInfo {
  std::string name;
  int32_t version = 1;
  std::string versioned_name;  // "write-en@1": this version for requests, whatever others there are
  ModelState state = ModelState::kReady;
  std::string error;  // why it has failed; else empty
  std::string folder;
  std::string architecture;  // "MarianMTModel"
  ModelTask task = ModelTask::kGenerate;
  std::optional<DType> dtype;  // what it computes in; loading or failed: where the options say it
  DType weight_dtype = DType::kFloat32;
  DType cache_dtype = DType::kFloat32;
  int64_t num_parameters = 0;
  int64_t weight_bytes = 0;
  int64_t cache_bytes = 0;
  int32_t cache_blocks = 0;
  int32_t block_size = 0;
  int32_t vocab_size = 0;            // ids that the model generates: 0 .. vocab_size - 1
  int32_t input_vocab_size = 0;      // ids of prompts; another number of some translators
  int32_t tokenizer_vocab_size = 0;  // Tokenizer::vocab_size()
  int32_t hidden_size = 0;
  int32_t num_encoder_layers = 0;
  int32_t num_decoder_layers = 0;
  int32_t max_input_tokens = 0;
  int32_t max_total_tokens = 0;  // decoder positions, max_model_len or what the cache holds; 0 for
                                 // encoders
  int32_t max_batch_tokens = 0;  // of a step; of the options unless limit_notes say why not
  int32_t max_sequences = 0;     // that run at once; likewise
  std::string types_note;        // a sentence for the log: what an open dtype has become; or empty
  std::string weights_note;      // a sentence for the log: how quantised weights are read; or empty
  std::vector<std::string> limit_notes;   // sentences for the log: limits that are not the options'
  int32_t embedding_dimensions = 0;       // encoders
  std::string tokenizer;                  // Tokenizer::Kind()
  std::vector<std::string> prompt_names;  // encoders
  std::vector<std::string> labels;        // classifiers: of each class
  bool reranks = false;                   // one class, or a rerank_template
  std::string mask_token;                 // of an encoder that fills it in; else empty
  std::vector<std::string> languages;     // translators between many: what requests may name
  std::vector<std::string> chat_templates;  // those that conversations may be rendered with
  int32_t eos_token_id = -1;
  std::string device;  // Backend::Name() of the first replica
  std::string device_description;
  std::string device_reason;  // why it runs there
  WarmUpReport warm_up;
  std::vector<ReplicaInfo> replicas;
};

// A replica went from one phase to another.
struct ReplicaChange {
  ModelInfo model;
  int32_t replica = 0;
  ReplicaPhase phase = ReplicaPhase::kUp;
  std::string reason;            // of kFailed, and why a restart failed
  bool will_restart = false;     // of kFailed: it is tried again on its own
  bool model_can_answer = true;  // some replica of the model can
};

// One device that holds a version of a model.
struct ReplicaState {
  int32_t version = 1;
  int32_t replica = 0;  // among those of the version
  std::string device;   // Backend::Name()
  bool can_answer = true;
  ReplicaPhase phase = ReplicaPhase::kUp;
  uint64_t restarts = 0;
  uint64_t steps = 0;  // since its last load
  // Until a request that comes now would have had its turn, as the replica's steps take.
  double expected_wait_seconds = 0;
  std::vector<MemoryUse> memory;  // what it holds there, by what it is for
  // Bytes that no model of its device holds; nullopt: its memory is not divided in advance.
  std::optional<size_t> unused_device_bytes;
};

// A request that a replica has, at one moment.
struct JobSnapshot {
  std::string client;
  int32_t priority = 0;
  double age_seconds = 0;
  std::optional<double> left_seconds;  // until its deadline; none: it has none
  bool begun = false;                  // it was in a step
  bool running = false;                // it is in the batch
  int64_t cost = 0;                    // tokens that it may come to compute
  // Of one that generates:
  int64_t sequences = 0;
  int64_t tokens = 0;  // of all its sequences
  int64_t blocks = 0;  // that its sequences refer to; shared ones count for each
};

// What one replica has, at one moment.
struct ReplicaSnapshot {
  std::string model;
  int32_t version = 1;
  int32_t replica = 0;
  std::string device;
  bool answered = false;  // its thread told `jobs`; false: it is in a long step, or has ended
  std::vector<JobSnapshot> jobs;
};

// A moment's numbers of one model, for gauges and counters. Counters only grow, over reloads too.
struct ModelStats {
  bool can_answer = true;  // false while a replica cannot
  int64_t waiting_requests = 0;
  int64_t waiting_tokens = 0;         // that these are to read
  double oldest_waiting_seconds = 0;  // since the first of them came
  double expected_queue_seconds = 0;  // of a request behind all that wait
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
  uint64_t hopeless = 0;                      // requests ended whose deadline was out of reach
  uint64_t rerun = 0;                         // requests that were begun again at another replica
  uint64_t speculative_proposed = 0;          // tokens guessed
  uint64_t speculative_accepted = 0;          // of them, those that were right
  std::vector<MemoryUse> memory;              // of all replicas together, by what it is for
  std::optional<size_t> unused_device_bytes;  // as ReplicaState; of the first that has it
  std::vector<ReplicaState> replicas;
};

}  // namespace beamline
