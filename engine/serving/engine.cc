#include "engine/api/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "base/worker_pool.h"
#include "engine/intake/prepare.h"
#include "engine/intake/prepare_score.h"
#include "engine/scheduling/ticket.h"
#include "engine/serving/replica.h"

namespace beamline {
namespace {

class Handle : public RequestHandle {
 public:
  void Cancel() override { cancelled_->store(true, std::memory_order_relaxed); }
  std::shared_ptr<const std::atomic<bool>> cancelled() const { return cancelled_; }

 private:
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// Text up to this size is tokenized on the caller's thread: waking a worker would take longer.
constexpr size_t kInlineTextBytes = 512;

size_t TextBytes(const Prompt& prompt) {
  const auto* text = std::get_if<std::string>(&prompt);
  return text == nullptr ? 0 : text->size();
}

size_t TextBytes(const GenerateRequest& request) {
  return TextBytes(request.prompt) +
         (request.target_prefix.has_value() ? TextBytes(*request.target_prefix) : 0);
}

size_t TextBytes(const EncodeRequest& request) {
  size_t bytes = 0;
  for (const Prompt& input : request.inputs) bytes += TextBytes(input);
  return bytes;
}

size_t TextBytes(const ScoreRequest& request) {
  size_t bytes = TextBytes(request.prompt);
  for (const Prompt& continuation : request.continuations) bytes += TextBytes(continuation);
  return bytes;
}

class EngineImpl : public Engine {
 public:
  explicit EngineImpl(const EngineOptions& options)
      : tokenizers_(std::make_unique<WorkerPool>(options.num_tokenizer_threads)) {}
  ~EngineImpl() override {
    draining_ = true;
    tokenizers_.reset();  // what has been accepted reaches its replica, which ends it
    replicas_.clear();
  }

  absl::Status Load(const EngineOptions& options, EngineObserver* observer);

  absl::StatusOr<std::shared_ptr<RequestHandle>> Generate(
      GenerateRequest request, std::shared_ptr<GenerateSink> sink) override;
  absl::StatusOr<std::shared_ptr<RequestHandle>> Encode(EncodeRequest request,
                                                        std::shared_ptr<EncodeSink> sink) override;

  absl::StatusOr<std::shared_ptr<RequestHandle>> Score(ScoreRequest request,
                                                       std::shared_ptr<ScoreSink> sink) override;

  absl::StatusOr<const Tokenizer*> FindTokenizer(const std::string& model) const override {
    BEAMLINE_ASSIGN_OR_RETURN(const Replica* replica, Find(model));
    return replica->model().tokenizer.get();
  }
  std::vector<ModelInfo> Models() const override {
    std::vector<ModelInfo> models;
    for (const auto& replica : replicas_) models.push_back(replica->model().info);
    return models;
  }
  absl::StatusOr<ModelInfo> FindModel(const std::string& model) const override {
    BEAMLINE_ASSIGN_OR_RETURN(const Replica* replica, Find(model));
    return replica->model().info;
  }
  absl::StatusOr<ModelStats> Stats(const std::string& model) const override {
    BEAMLINE_ASSIGN_OR_RETURN(const Replica* replica, Find(model));
    ModelStats stats = replica->stats().Read();
    stats.can_answer = replica->fault().status().ok();
    if (const Speculation* speculation = replica->model().speculation.get()) {
      stats.speculative_proposed = speculation->proposed();
      stats.speculative_accepted = speculation->accepted();
    }
    stats.memory = replica->model().backend->MemoryUsage();
    stats.unused_device_bytes = replica->model().backend->FreeMemory();
    return stats;
  }
  void OnFault(FaultListener listener) override {
    for (const auto& replica : replicas_) {
      replica->fault().Listen([listener, name = replica->model().options.name](
                                  const absl::Status& fault) { listener(name, fault); });
    }
  }
  bool Drain(std::chrono::milliseconds timeout) override {
    draining_ = true;
    return tickets_.WaitForNone(timeout);
  }

 private:
  absl::StatusOr<Replica*> Find(const std::string& name) const;
  // Counts the request in, or refuses it.
  absl::StatusOr<std::shared_ptr<Ticket>> Accept(Replica& replica);
  // Runs now or on a tokenizer thread, by size.
  template <typename Work>
  void RunTokenizing(size_t bytes, Work work);
  // prepare() makes the group or the job; it then goes to the replica, and an error to the sink.
  template <typename Sink, typename Prepare>
  static void Hand(Replica& replica, std::shared_ptr<Ticket> ticket, std::shared_ptr<Sink> sink,
                   std::shared_ptr<const std::atomic<bool>> cancelled, Clock::time_point arrival,
                   const Prepare& prepare);

  TicketCounter tickets_;
  std::atomic<bool> draining_ = false;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::unique_ptr<WorkerPool> tokenizers_;
};

absl::Status EngineImpl::Load(const EngineOptions& options, EngineObserver* observer) {
  for (size_t i = 0; i < options.models.size(); ++i) {
    const ModelOptions& model = options.models[i];
    if (model.name.empty() || Find(model.name).ok()) {
      return absl::InvalidArgumentError(
          fmt::format("model name '{}' is empty or given twice", model.name));
    }
    LoadContext context = {.num_threads = options.num_threads,
                           .gpu_memory = options.gpu_memory,
                           .later_models = std::span(options.models).subspan(i + 1)};
    if (observer != nullptr) {
      context.log = [observer, name = model.name](const std::string& line) {
        observer->OnChoice(name, line);
      };
    }
    BEAMLINE_ASSIGN_OR_RETURN(auto loaded, LoadedModel::Load(model, context));
    replicas_.push_back(std::make_unique<Replica>(std::move(loaded), observer));
  }
  return absl::OkStatus();
}

absl::StatusOr<Replica*> EngineImpl::Find(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& replica : replicas_) {
    if (replica->model().options.name == name) return replica.get();
    names.push_back(replica->model().options.name);
  }
  return absl::NotFoundError(
      fmt::format("model is '{}'; this server has: {}", Shorten(name), fmt::join(names, ", ")));
}

absl::StatusOr<std::shared_ptr<Ticket>> EngineImpl::Accept(Replica& replica) {
  // The ticket is taken before the look at draining_, so that Drain misses nobody.
  auto ticket = std::make_shared<Ticket>(tickets_);
  if (draining_) return absl::UnavailableError("the server is draining");
  BEAMLINE_RETURN_IF_ERROR(replica.fault().status());
  const int32_t limit = replica.model().options.max_queued_requests;
  if (replica.stats().waiting_requests.fetch_add(1) >= limit) {
    --replica.stats().waiting_requests;
    return absl::ResourceExhaustedError(
        fmt::format("{} requests wait for model '{}' already; accepted: at most {}", limit,
                    replica.model().options.name, limit));
  }
  return ticket;
}

template <typename Work>
void EngineImpl::RunTokenizing(size_t bytes, Work work) {
  if (bytes <= kInlineTextBytes) {
    work();
  } else {
    tokenizers_->Post(std::move(work));
  }
}

template <typename Sink, typename Prepare>
void EngineImpl::Hand(Replica& replica, std::shared_ptr<Ticket> ticket, std::shared_ptr<Sink> sink,
                      std::shared_ptr<const std::atomic<bool>> cancelled, Clock::time_point arrival,
                      const Prepare& prepare) {
  auto prepared = prepare();
  if (!prepared.ok()) {
    --replica.stats().waiting_requests;
    sink->OnFinish(prepared.status());
    return;
  }
  (*prepared)->ticket = std::move(ticket);
  (*prepared)->sink = std::move(sink);
  (*prepared)->cancelled = std::move(cancelled);
  (*prepared)->arrival = arrival;
  replica.Submit(*std::move(prepared));
}

absl::StatusOr<std::shared_ptr<RequestHandle>> EngineImpl::Generate(
    GenerateRequest request, std::shared_ptr<GenerateSink> sink) {
  const Clock::time_point arrival = Clock::now();
  BEAMLINE_ASSIGN_OR_RETURN(Replica * replica, Find(request.model));
  BEAMLINE_ASSIGN_OR_RETURN(ResolvedDecoding decoding, CheckGenerate(request, replica->model()));
  BEAMLINE_ASSIGN_OR_RETURN(std::shared_ptr<Ticket> ticket, Accept(*replica));
  auto handle = std::make_shared<Handle>();
  const size_t bytes = TextBytes(request);
  RunTokenizing(bytes, [=, request = std::move(request), sink = std::move(sink),
                        decoding = std::move(decoding), ticket = std::move(ticket),
                        cancelled = handle->cancelled()]() mutable {
    const bool wants_deltas = sink->wants_deltas();
    Hand(*replica, std::move(ticket), std::move(sink), std::move(cancelled), arrival, [&] {
      return PrepareGroup(request, std::move(decoding), wants_deltas, replica->model());
    });
  });
  return handle;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> EngineImpl::Encode(
    EncodeRequest request, std::shared_ptr<EncodeSink> sink) {
  const Clock::time_point arrival = Clock::now();
  BEAMLINE_ASSIGN_OR_RETURN(Replica * replica, Find(request.model));
  BEAMLINE_RETURN_IF_ERROR(CheckEncode(request, replica->model()));
  BEAMLINE_ASSIGN_OR_RETURN(std::shared_ptr<Ticket> ticket, Accept(*replica));
  auto handle = std::make_shared<Handle>();
  const size_t bytes = TextBytes(request);
  RunTokenizing(bytes, [=, request = std::move(request), sink = std::move(sink),
                        ticket = std::move(ticket), cancelled = handle->cancelled()]() mutable {
    Hand(*replica, std::move(ticket), std::move(sink), std::move(cancelled), arrival,
         [&] { return PrepareEncodeJob(request, replica->model()); });
  });
  return handle;
}

absl::StatusOr<std::shared_ptr<RequestHandle>> EngineImpl::Score(ScoreRequest request,
                                                                 std::shared_ptr<ScoreSink> sink) {
  const Clock::time_point arrival = Clock::now();
  BEAMLINE_ASSIGN_OR_RETURN(Replica * replica, Find(request.model));
  BEAMLINE_RETURN_IF_ERROR(CheckScore(request, replica->model()));
  BEAMLINE_ASSIGN_OR_RETURN(std::shared_ptr<Ticket> ticket, Accept(*replica));
  auto handle = std::make_shared<Handle>();
  const size_t bytes = TextBytes(request);
  auto results = MakeScoreResultSink(std::move(sink), request.per_token);
  RunTokenizing(bytes, [=, request = std::move(request), sink = std::move(results),
                        ticket = std::move(ticket), cancelled = handle->cancelled()]() mutable {
    Hand(*replica, std::move(ticket), std::move(sink), std::move(cancelled), arrival,
         [&] { return PrepareScoreGroup(request, replica->model()); });
  });
  return handle;
}

// Waits for one answer.
template <typename Sink, typename Result>
class WaitingSink : public Sink {
 public:
  void OnFinish(absl::StatusOr<Result> result) override { promise_.set_value(std::move(result)); }
  absl::StatusOr<Result> Wait() { return promise_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<Result>> promise_;
};

}  // namespace

absl::StatusOr<GenerateResult> Engine::GenerateAndWait(GenerateRequest request) {
  auto sink = std::make_shared<WaitingSink<GenerateSink, GenerateResult>>();
  BEAMLINE_RETURN_IF_ERROR(Generate(std::move(request), sink).status());
  return sink->Wait();
}

absl::StatusOr<EncodeResult> Engine::EncodeAndWait(EncodeRequest request) {
  auto sink = std::make_shared<WaitingSink<EncodeSink, EncodeResult>>();
  BEAMLINE_RETURN_IF_ERROR(Encode(std::move(request), sink).status());
  return sink->Wait();
}

absl::StatusOr<ScoreResult> Engine::ScoreAndWait(ScoreRequest request) {
  auto sink = std::make_shared<WaitingSink<ScoreSink, ScoreResult>>();
  BEAMLINE_RETURN_IF_ERROR(Score(std::move(request), sink).status());
  return sink->Wait();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                                       EngineObserver* observer) {
  if (options.models.empty()) return absl::InvalidArgumentError("no model to serve");
  if (options.num_tokenizer_threads < 1 || options.num_tokenizer_threads > 256) {
    return absl::InvalidArgumentError(fmt::format("num_tokenizer_threads is {}; accepted: 1 to 256",
                                                  options.num_tokenizer_threads));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckGpuMemoryLimit(options.gpu_memory));
  auto engine = std::make_unique<EngineImpl>(options);
  BEAMLINE_RETURN_IF_ERROR(engine->Load(options, observer));
  return engine;
}

}  // namespace beamline
