// The engine: loads checkpoints, answers requests. A library of its own, without gRPC
// (examples/generate.cc); server/ is a thin layer over it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request.h"
#include "engine/text/tokenizer.h"
#include "kernels/device_memory.h"

namespace beamline {

enum class ModelTask : uint8_t {
  kGenerate,
  kTranslate,
  kEncode
};  // decoder, encoder-decoder, encoder

// One model to serve.
struct ModelOptions {
  std::string name;                 // as requests name it
  std::string folder;               // a Hugging Face checkpoint folder
  DType dtype = DType::kFloat32;    // what to compute in
  std::string device = "auto";      // "cpu", "cuda", "cuda:1", ...; auto: a GPU when there is one
  int32_t max_batch_tokens = 4096;  // tokens one step may compute, 16 .. 1048576
  int32_t max_sequences = 256;      // sequences that may run at once, 1 .. 65535
  // KV cache; 0: sized for max_sequences, at most an eighth of memory or 1 GiB, on a GPU at most an
  // even share of what the weights leave.
  int64_t cache_bytes = 0;
  bool prefix_cache = true;            // shares the cached beginnings of prompts between requests
  int32_t speculative_tokens = 0;      // most tokens that a greedy sequence guesses a step, 0 .. 16
  int32_t max_queued_requests = 4096;  // accepted and not yet running; more is RESOURCE_EXHAUSTED
  // Whether loading runs the usual steps once, so that the first requests need not wait for what a
  // device does when it meets them: "true", "false"; "auto": on a GPU.
  std::string warm_up = "auto";
};

struct EngineOptions {
  std::vector<ModelOptions> models;
  int num_threads = 0;  // compute threads of the CPU; 0: all
  int num_tokenizer_threads = 2;
  GpuMemoryLimit gpu_memory;  // of each GPU that a model names
};

// What loading ran in advance of the first request.
struct WarmUpReport {
  int32_t num_steps = 0;  // 0: nothing
  bool complete = true;   // false: it ended early, for its time was up
  std::chrono::nanoseconds duration{};
};

// What GetModel answers. Sizes in bytes, lengths in tokens.
struct ModelInfo {
  std::string name;
  std::string folder;
  std::string architecture;  // "MarianMTModel"
  ModelTask task = ModelTask::kGenerate;
  DType dtype = DType::kFloat32;
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
  int32_t max_total_tokens = 0;           // decoder positions; 0 for encoders
  int32_t embedding_dimensions = 0;       // encoders
  std::string tokenizer;                  // Tokenizer::Kind()
  std::vector<std::string> prompt_names;  // encoders
  int32_t eos_token_id = -1;
  std::string device;  // Backend::Name()
  std::string device_description;
  std::string device_reason;  // why it runs there
  WarmUpReport warm_up;
};

// An INTERNAL error with this payload has a message that a client may read.
inline constexpr char kPublicErrorPayload[] = "beamline.public_error";

// A moment's numbers of one model, for gauges and counters. Counters only grow.
struct ModelStats {
  bool can_answer = true;  // false for good once its device has failed
  int64_t waiting_requests = 0;
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
  uint64_t speculative_proposed = 0;  // tokens guessed
  uint64_t speculative_accepted = 0;  // of them, those that were right
  std::vector<MemoryUse> memory;      // of the device, by what it is for
  // Bytes that no model of its device holds; nullopt: its memory is not divided in advance.
  std::optional<size_t> unused_device_bytes;
};

// One step of a replica, reported to the observer.
struct StepReport {
  enum class Phase : uint8_t { kPrefill, kDecode, kMixed, kEncode };
  Phase phase = Phase::kDecode;
  std::chrono::nanoseconds duration{};
  int32_t num_tokens = 0;
  int32_t num_sequences = 0;
};

// Told of what happens, on the replica's own thread: one instance per model needs no locks against
// itself.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnStep(const std::string& model, const StepReport& report) = 0;
  // A choice that the model's device made for the first time: what was chosen, and why.
  virtual void OnChoice(const std::string& model, const std::string& line) {
    static_cast<void>(model), static_cast<void>(line);
  }
};

// Names one running request. Cancelling a finished one does nothing.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  // Returns at once; the sink gets OnFinish(CANCELLED) or the result that was ready first.
  virtual void Cancel() = 0;
};

class Engine {
 public:
  // Loads every model; an error names the model, the file and the fault. The observer outlives the
  // engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                        EngineObserver* observer = nullptr);
  virtual ~Engine() = default;  // finishes nothing: running requests get CANCELLED

  // Validates, then queues; thread safe, returns at once. Errors (the sink is not called then):
  // NOT_FOUND unknown model; INVALID_ARGUMENT naming the field, its value and the accepted range;
  // RESOURCE_EXHAUSTED queue full; UNAVAILABLE draining, or the model's device has failed. Errors
  // that only tokenizing can find (prompt too long) come to the sink, and so do those of computing:
  // UNAVAILABLE when the device fails; INTERNAL when the model computed NaN or infinity for this
  // request.
  virtual absl::StatusOr<std::shared_ptr<RequestHandle>> Generate(
      GenerateRequest request, std::shared_ptr<GenerateSink> sink) = 0;
  virtual absl::StatusOr<std::shared_ptr<RequestHandle>> Encode(
      EncodeRequest request, std::shared_ptr<EncodeSink> sink) = 0;
  virtual absl::StatusOr<std::shared_ptr<RequestHandle>> Score(ScoreRequest request,
                                                               std::shared_ptr<ScoreSink> sink) = 0;

  // The same, waiting for the answer.
  absl::StatusOr<GenerateResult> GenerateAndWait(GenerateRequest request);
  absl::StatusOr<EncodeResult> EncodeAndWait(EncodeRequest request);
  absl::StatusOr<ScoreResult> ScoreAndWait(ScoreRequest request);

  // NOT_FOUND naming the model and those that there are.
  virtual absl::StatusOr<const Tokenizer*> FindTokenizer(const std::string& model) const = 0;
  virtual std::vector<ModelInfo> Models() const = 0;
  virtual absl::StatusOr<ModelInfo> FindModel(const std::string& model) const = 0;
  virtual absl::StatusOr<ModelStats> Stats(const std::string& model) const = 0;

  // `listener` is told of each model whose device fails for good, before that model's requests get
  // the error; of those that have failed already, at once. Called from engine threads; must return
  // quickly. Replaces an earlier listener.
  using FaultListener = std::function<void(const std::string& model, const absl::Status& fault)>;
  virtual void OnFault(FaultListener listener) = 0;

  // Refuses new requests with UNAVAILABLE and waits until those accepted have finished, at most
  // `timeout`. Returns whether all of them did.
  virtual bool Drain(std::chrono::milliseconds timeout) = 0;
};

}  // namespace beamline
