// The engine: loads checkpoints, answers requests. A library of its own, without gRPC
// (examples/generate.cc); server/ is a thin layer over it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/model.h"
#include "engine/api/observer.h"
#include "engine/api/request.h"
#include "kernels/device_memory.h"

namespace beamline {

class Tokenizer;

struct EngineOptions {
  static constexpr int kMostThreads = 4096;
  static constexpr int kMostTokenizerThreads = 256;

  std::vector<ModelOptions> models;
  int num_threads = 0;            // compute threads of the CPU, at most kMostThreads; 0: all
  int num_tokenizer_threads = 2;  // 1 .. kMostTokenizerThreads
  GpuMemoryLimit gpu_memory;      // of each GPU that a model names
};

// An INTERNAL error with this payload has a message that a client may read.
inline constexpr char kPublicErrorPayload[] = "beamline.public_error";

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
