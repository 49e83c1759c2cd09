// The engine: loads checkpoints, answers requests. A library of its own, without gRPC
// (examples/generate.cc); server/ is a thin layer over it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/model.h"
#include "engine/api/observer.h"
#include "engine/api/request.h"
#include "kernels/device_memory.h"

namespace beamline {

class Tokenizer;
class WorkerPool;

// Multi-process mode: each rank of a model is a process, and rank 0 answers requests.
struct ProcessOptions {
  static constexpr size_t kFewestSecretBytes = 16;
  static constexpr size_t kMostSecretBytes = 256;

  // Rank 0 (the front) listens here for the other ranks. Port 0: ranks are threads of one process.
  std::string host;
  int port = 0;
  int rank = 0;                                 // rank of this process
  std::string secret;                           // shared by all ranks
  std::chrono::milliseconds time_limit{60000};  // for all ranks to connect
};

struct EngineOptions {
  static constexpr int kMostThreads = 4096;
  static constexpr int kMostTokenizerThreads = 256;

  std::vector<ModelOptions> models;
  int num_threads = 0;            // compute threads of the CPU, at most kMostThreads; 0: all
  int num_tokenizer_threads = 2;  // 1 .. kMostTokenizerThreads
  GpuMemoryLimit gpu_memory;      // for each GPU that a model uses
  // Applies to the model that uses tensor_parallel; `models` has exactly one model then.
  ProcessOptions processes;
};

// An INTERNAL error with this payload has a message that is safe to show to clients.
inline constexpr char kPublicErrorPayload[] = "beamline.public_error";
// Set on an UNAVAILABLE error when the model is being loaded or unloaded.
inline constexpr char kModelNotReadyPayload[] = "beamline.model_not_ready";

// Set on an UNAVAILABLE error when a replica ended while it ran the request. A retry may succeed at
// another replica, or at the same one after its restart.
inline constexpr char kReplicaEndedPayload[] = "beamline.replica_ended";

// Set on a RESOURCE_EXHAUSTED error that a limit of requests caused. The value is the name of the
// limit, one of those below.
inline constexpr char kRefusalPayload[] = "beamline.refusal";
inline constexpr std::string_view kRefusedByTokens = "queued_tokens";
inline constexpr std::string_view kRefusedByDeadline = "deadline";
inline constexpr std::string_view kRefusedByQuota = "quota";  // refused by a TokenCharge
// Milliseconds after which the client may retry, in decimal.
inline constexpr char kRetryAfterPayload[] = "beamline.retry_after_ms";

// Handle of one running request. Cancelling a finished request does nothing.
class RequestHandle {
 public:
  virtual ~RequestHandle() = default;
  // Returns at once; the sink gets OnFinish(CANCELLED) or the result that was ready first.
  virtual void Cancel() = 0;
};

class Engine {
 public:
  // Loads every model; an error names the model, the file and the fault. The observer must outlive
  // the engine.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(const EngineOptions& options,
                                                        EngineObserver* observer = nullptr);
  virtual ~Engine() = default;  // finishes nothing: running requests get CANCELLED
  // The threads that tokenize (base/worker_pool.h), for work on texts that the program has beside
  // its requests. What is posted is done before the engine ends.
  virtual WorkerPool& text_workers() = 0;

  // Validates and queues the request. Thread safe; returns at once. The sink is not called after
  // one of these errors:
  // - NOT_FOUND: unknown model.
  // - INVALID_ARGUMENT: names the field, its value and the accepted range.
  // - RESOURCE_EXHAUSTED: the queue is full, the request's charge is refused, or the deadline would
  //   pass before the answer at the model's measured speed.
  // - UNAVAILABLE: the engine drains, or no replica of the model can answer.
  //
  // Errors that only tokenizing finds (prompt too long) are returned if the text is short enough to
  // be tokenized at once, and go to the sink otherwise. Errors of the computation also go to the
  // sink: UNAVAILABLE when the device fails and no other replica can start the request again;
  // INTERNAL when the model computed NaN or infinity for this request.
  virtual absl::StatusOr<std::shared_ptr<RequestHandle>> Generate(
      GenerateRequest request, std::shared_ptr<GenerateSink> sink) = 0;
  virtual absl::StatusOr<std::shared_ptr<RequestHandle>> Encode(
      EncodeRequest request, std::shared_ptr<EncodeSink> sink) = 0;
  virtual absl::StatusOr<std::shared_ptr<RequestHandle>> Classify(
      ClassifyRequest request, std::shared_ptr<EncodeSink> sink) = 0;
  virtual absl::StatusOr<std::shared_ptr<RequestHandle>> ClassifyTokens(
      ClassifyTokensRequest request, std::shared_ptr<EncodeSink> sink) = 0;
  virtual absl::StatusOr<std::shared_ptr<RequestHandle>> FillMask(
      FillMaskRequest request, std::shared_ptr<EncodeSink> sink) = 0;
  virtual absl::StatusOr<std::shared_ptr<RequestHandle>> Score(ScoreRequest request,
                                                               std::shared_ptr<ScoreSink> sink) = 0;

  // The same calls, but they block until the answer is there. Meanwhile the calling thread may
  // compute steps and deliver results to the sinks of other requests in the same steps. The caller
  // must not hold a lock that a sink takes.
  absl::StatusOr<GenerateResult> GenerateAndWait(GenerateRequest request);
  absl::StatusOr<EncodeResult> EncodeAndWait(EncodeRequest request);
  absl::StatusOr<EncodeResult> ClassifyAndWait(ClassifyRequest request);
  absl::StatusOr<EncodeResult> ClassifyTokensAndWait(ClassifyTokensRequest request);
  absl::StatusOr<EncodeResult> FillMaskAndWait(FillMaskRequest request);
  absl::StatusOr<ScoreResult> ScoreAndWait(ScoreRequest request);

  // `model` is a name (its highest ready version) or "name@2" (that version). NOT_FOUND names the
  // model and the models that exist. A tokenizer stays valid after its model is unloaded.
  virtual absl::StatusOr<std::shared_ptr<const Tokenizer>> FindTokenizer(
      const std::string& model) const = 0;
  // All versions in all states, in the order in which they were loaded.
  virtual std::vector<ModelInfo> Models() const = 0;
  virtual absl::StatusOr<ModelInfo> FindModel(const std::string& model) const = 0;
  // For a name: the sum over its loaded versions, plus the counters of unloaded versions.
  virtual absl::StatusOr<ModelStats> Stats(const std::string& model) const = 0;

  // The jobs of every replica of all loaded models. Each replica answers between two steps and gets
  // `patience` to do so. For debugging a server that hangs; too expensive to call every second.
  virtual std::vector<ReplicaSnapshot> Snapshot(std::chrono::milliseconds patience) const = 0;

  // Makes idle replicas return the memory that larger steps have touched to the operating system.
  // The next large step takes some milliseconds more. Only CPU replicas do this. Returns without
  // waiting for them.
  virtual void ReturnIdleMemory() {}

  // Loads a model, or another version of one, and returns when it is ready. Any thread may call
  // this. Loads run one after the other; requests to other models continue. If the same model with
  // the same options is loaded or being loaded, returns that model or the result of that load.
  // Errors change nothing:
  // - INVALID_ARGUMENT: names the option.
  // - ALREADY_EXISTS: it is loaded, or being loaded, with other options.
  // - FAILED_PRECONDITION: it is being unloaded, or its folder or device cannot be used; names the
  //   file and the fault.
  // - NOT_FOUND: a folder or file does not exist.
  // - RESOURCE_EXHAUSTED: names the bytes that are needed and those that are free.
  // - UNAVAILABLE: the engine drains.
  //
  // A model whose load failed is listed in Models() as kFailed until it is loaded again or
  // unloaded; only the last few are kept.
  virtual absl::StatusOr<ModelInfo> Load(const ModelOptions& options) = 0;
  // Refuses new requests to this version with UNAVAILABLE, waits at most `grace` for its running
  // requests, and cancels the rest. Returns the model's last info when all its resources are free.
  // `version` 0: the only version of this name. NOT_FOUND when there is none; INVALID_ARGUMENT when
  // `version` is 0 and there are several; FAILED_PRECONDITION while it is being loaded. If another
  // call already unloads it, waits for that call to finish.
  virtual absl::StatusOr<ModelInfo> Unload(const std::string& name, int32_t version,
                                           std::chrono::milliseconds grace) = 0;

  // Sends new requests to the other replicas of this version, waits at most `grace` for this
  // replica's requests, reloads it, and returns when it can answer. An unfinished request is
  // restarted at another replica. If a part of its answer was already sent, it ends with
  // UNAVAILABLE instead. `version` is as in Unload. NOT_FOUND when there is no such replica;
  // FAILED_PRECONDITION while it is being restarted, and when it can answer but no other replica
  // can. If the reload fails, the replica is kFailed and the error is that of Load.
  virtual absl::StatusOr<ModelInfo> RestartReplica(const std::string& name, int32_t version,
                                                   int32_t replica,
                                                   std::chrono::milliseconds grace) = 0;

  // Calls `listener` at each change of a model's state: one call at a time, in order, on the thread
  // that makes the change. It must return quickly and may call Models(). Replaces the previous
  // listener, which is not called after this returns.
  using ModelListener = std::function<void(const ModelInfo& model)>;
  virtual void OnModelChange(ModelListener listener) = 0;

  // Calls `listener` when a replica changes its phase, on the thread that detects the change. It
  // must return quickly and may call Models(). Replaces the previous listener.
  using ReplicaListener = std::function<void(const ReplicaChange& change)>;
  virtual void OnReplicaChange(ReplicaListener listener) = 0;

  // Calls `listener` when the last replica of a model fails permanently, before the model's
  // requests get the error. For models that have failed already it is called at once. Runs on
  // engine threads and must return quickly. Replaces the previous listener.
  using FaultListener = std::function<void(const ModelInfo& model, const absl::Status& fault)>;
  virtual void OnFault(FaultListener listener) = 0;

  // Refuses new requests with UNAVAILABLE and waits at most `timeout` for the accepted ones.
  // Returns whether all of them finished. Ends a load in progress with UNAVAILABLE at once; pending
  // Unload calls stop waiting when this returns.
  virtual bool Drain(std::chrono::milliseconds timeout) = 0;
};

}  // namespace beamline
