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

// The ranks of a model as processes, one of which answers.
struct ProcessOptions {
  static constexpr size_t kFewestSecretBytes = 16;
  static constexpr size_t kMostSecretBytes = 256;

  // Where rank 0, the front, waits for the others; port 0: ranks are threads.
  std::string host;
  int port = 0;
  int rank = 0;                                 // of this process
  std::string secret;                           // of all of them
  std::chrono::milliseconds time_limit{60000};  // for all to come
};

struct EngineOptions {
  static constexpr int kMostThreads = 4096;
  static constexpr int kMostTokenizerThreads = 256;

  std::vector<ModelOptions> models;
  int num_threads = 0;            // compute threads of the CPU, at most kMostThreads; 0: all
  int num_tokenizer_threads = 2;  // 1 .. kMostTokenizerThreads
  GpuMemoryLimit gpu_memory;      // of each GPU that a model names
  // Of those of `models` that tensor_parallel divides, of which there is one then.
  ProcessOptions processes;
};

// An INTERNAL error with this payload has a message that a client may read.
inline constexpr char kPublicErrorPayload[] = "beamline.public_error";
// An UNAVAILABLE error with this payload is about a model that is being loaded or unloaded.
inline constexpr char kModelNotReadyPayload[] = "beamline.model_not_ready";

// An UNAVAILABLE error with this payload is about a replica that has ended under a request: another
// one, or the same after its restart, may answer it.
inline constexpr char kReplicaEndedPayload[] = "beamline.replica_ended";

// A RESOURCE_EXHAUSTED error with this payload is about a limit of a request: the name of the
// reason, one of those below.
inline constexpr char kRefusalPayload[] = "beamline.refusal";
inline constexpr std::string_view kRefusedByTokens = "queued_tokens";
inline constexpr std::string_view kRefusedByDeadline = "deadline";
inline constexpr std::string_view kRefusedByQuota = "quota";  // of a TokenCharge
// After how many milliseconds another try may be taken, in decimal.
inline constexpr char kRetryAfterPayload[] = "beamline.retry_after_ms";

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
  // RESOURCE_EXHAUSTED queue full, or the deadline passes before the request could be answered, as
  // the model's steps take, or its charge is refused; UNAVAILABLE draining, or no replica of the
  // model can answer. Errors that only tokenizing can find (prompt too long) are returned where the
  // text is short enough to be tokenized at once; else they come to the sink, as do those of
  // computing: UNAVAILABLE when the device fails and no other replica can begin anew; INTERNAL when
  // the model computed NaN or infinity for this request.
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

  // The same, waiting for the answer. The calling thread may compute until then, and hand answers
  // to the sinks of others whose requests share its steps: a lock that a sink takes it may not
  // hold.
  absl::StatusOr<GenerateResult> GenerateAndWait(GenerateRequest request);
  absl::StatusOr<EncodeResult> EncodeAndWait(EncodeRequest request);
  absl::StatusOr<EncodeResult> ClassifyAndWait(ClassifyRequest request);
  absl::StatusOr<EncodeResult> ClassifyTokensAndWait(ClassifyTokensRequest request);
  absl::StatusOr<EncodeResult> FillMaskAndWait(FillMaskRequest request);
  absl::StatusOr<ScoreResult> ScoreAndWait(ScoreRequest request);

  // A `model` is a name, which means the highest version that is ready, or "name@2", that version.
  // NOT_FOUND naming the model and those that there are. A tokenizer outlives its model's end.
  virtual absl::StatusOr<std::shared_ptr<const Tokenizer>> FindTokenizer(
      const std::string& model) const = 0;
  // Every version in every state, in the order of their loading.
  virtual std::vector<ModelInfo> Models() const = 0;
  virtual absl::StatusOr<ModelInfo> FindModel(const std::string& model) const = 0;
  // Of a name, those of all its versions that are loaded, together with what unloaded ones counted.
  virtual absl::StatusOr<ModelStats> Stats(const std::string& model) const = 0;

  // What every replica has, of all models that are loaded. Each is given `patience` to tell it,
  // which it does between two steps. For people who look for what holds a server up; not for every
  // second.
  virtual std::vector<ReplicaSnapshot> Snapshot(std::chrono::milliseconds patience) const = 0;

  // Has replicas that compute nothing give memory that larger steps have touched back to the
  // system; the next such step takes some milliseconds more. On a CPU; elsewhere nothing happens.
  // Returns before they have.
  virtual void ReturnIdleMemory() {}

  // Loads one more model, or version of one, and waits until it is ready: any thread; loads wait
  // for each other, requests to other models go on. What is there already with the same options is
  // the answer, and so is the end of a load that is under way. Errors change nothing:
  // INVALID_ARGUMENT naming the option; ALREADY_EXISTS when it is there, or is being loaded, with
  // other options; FAILED_PRECONDITION while it is being unloaded, and when its folder or device
  // does not serve, naming the file and the fault; NOT_FOUND, a folder or file that is not there;
  // RESOURCE_EXHAUSTED, naming the bytes that it needs and those that are free; UNAVAILABLE
  // draining. A model that could not be loaded is among Models() as kFailed until its next load or
  // unload; the last few are.
  virtual absl::StatusOr<ModelInfo> Load(const ModelOptions& options) = 0;
  // Refuses new requests to this version with UNAVAILABLE, waits at most `grace` until it has
  // answered those that it has, cancels what still runs, and returns when all that it held is given
  // back, with what it was. `version` 0: the only one of this name. NOT_FOUND when there is none;
  // INVALID_ARGUMENT when `version` is 0 and there are several; FAILED_PRECONDITION while it is
  // being loaded. A call while another one unloads the same waits for its end.
  virtual absl::StatusOr<ModelInfo> Unload(const std::string& name, int32_t version,
                                           std::chrono::milliseconds grace) = 0;

  // Lets the other replicas of this version have what comes, waits at most `grace` until this one
  // has answered what it has, loads it anew, and returns when it answers. What it has not answered
  // by then is begun again at another replica, or ends with UNAVAILABLE where some of its answer
  // has been sent. `version` as Unload takes it. NOT_FOUND without such a replica;
  // FAILED_PRECONDITION when no other replica can answer and this one can, and while it is being
  // restarted. When its load fails it is kFailed, and the error is Load's.
  virtual absl::StatusOr<ModelInfo> RestartReplica(const std::string& name, int32_t version,
                                                   int32_t replica,
                                                   std::chrono::milliseconds grace) = 0;

  // `listener` is told of each change of a model's state from now on, one at a time, in order, by
  // the thread that changes it; it must return quickly, and may ask for Models(). Replaces an
  // earlier listener. Before this returns, the earlier one is told no more.
  using ModelListener = std::function<void(const ModelInfo& model)>;
  virtual void OnModelChange(ModelListener listener) = 0;

  // `listener` is told of each replica that goes from one phase to another from now on, by the
  // thread that finds it out; it must return quickly, and may ask for Models(). Replaces an earlier
  // listener.
  using ReplicaListener = std::function<void(const ReplicaChange& change)>;
  virtual void OnReplicaChange(ReplicaListener listener) = 0;

  // `listener` is told of each model whose last replica fails for good, before that model's
  // requests get the error; of those that have failed already, at once. Called from engine threads;
  // must return quickly. Replaces an earlier listener.
  using FaultListener = std::function<void(const ModelInfo& model, const absl::Status& fault)>;
  virtual void OnFault(FaultListener listener) = 0;

  // Refuses new requests with UNAVAILABLE and waits until those accepted have finished, at most
  // `timeout`. Returns whether all of them did. Ends a load that is under way, with UNAVAILABLE, at
  // once, and the waits of unloads when it returns.
  virtual bool Drain(std::chrono::milliseconds timeout) = 0;
};

}  // namespace beamline
