// POST /v1/completions and /v1/chat/completions: makes one request to the engine for each prompt.
// Sends the answers together, or as server-sent events while they are generated.
//
// Threads: the connection's (the request, the client has gone, a piece is sent), the text workers
// (large bodies), the engine's (deltas and results) and the writers (convert and send). `busy_` is
// set while a writer or a piece in flight works for the call. All users of the call hold a
// shared_ptr to it. The last one destroys it, and the destructor records it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/calls/call_state.h"
#include "server/calls/caller.h"
#include "server/calls/delta_buffer.h"
#include "server/calls/methods.h"
#include "server/http/exchange.h"
#include "server/http/logprobs_writer.h"
#include "server/http/openai_answer.h"
#include "server/http/openai_request.h"

namespace beamline {

class CompletionCall final : public std::enable_shared_from_this<CompletionCall> {
 public:
  // `is_chat`: a request of chat completions.
  CompletionCall(ServiceContext& services, std::shared_ptr<Exchange> exchange, bool is_chat)
      : services_(services), exchange_(std::move(exchange)), is_chat_(is_chat) {}
  ~CompletionCall();

  // Call once, within the handler's Handle.
  void Start();

 private:
  class Sink;

  // One prompt.
  struct Item {
    Item(ServiceContext& services, Rpc rpc)
        : state(services, rpc),
          waiting(static_cast<size_t>(services.stream_limits.max_send_bytes)) {}

    CallState state;
    AnswerOptions answer;
    std::shared_ptr<RequestHandle> handle;
    DeltaBuffer waiting;
    std::optional<absl::StatusOr<GenerateResult>> result;
    std::vector<std::unique_ptr<LogprobsWriter>> logprobs;  // one for each of its answers
    std::set<int64_t> begun;  // sequences of which a part has been sent
  };

  absl::Status Begin();
  void Run();
  absl::Status ParseAndSubmit();
  absl::Status Submit(size_t index, const v1::GenerateRequest& message);
  absl::Status PrepareLogprobs(Item& item);
  void Cancel();
  // Called by the engine.
  void Push(size_t index, GenerateDelta delta);
  void Finish(size_t index, absl::StatusOr<GenerateResult> result);
  // All REQUIRE mutex_.
  bool AnyRunsLocked() const;
  bool IsReadyLocked() const;
  void WakeLocked(bool brief);

  // All below REQUIRE that the caller has set busy_.
  void Advance();
  void AnswerWhole();
  void SendEvents(std::vector<std::vector<GenerateDelta>> deltas, bool is_last);
  // The last events: the ends of all answers, usage and [DONE]. An error if an answer cannot be
  // made; `failed` is its index then.
  absl::StatusOr<std::string> LastEvents(size_t& failed);
  std::string DeltaEvent(size_t index, GenerateDelta delta);
  std::string ChoiceEvent(nlohmann::ordered_json choice) const;
  // The next part of an answer to prompt `index`, or its end.
  nlohmann::ordered_json PartJson(size_t index, int64_t sequence, const std::string& text,
                                  nlohmann::ordered_json logprobs,
                                  nlohmann::ordered_json finish_reason);
  // Frees the slots of all items, before the last piece of the answer is sent.
  void GivePlacesBefore(int64_t answer_bytes);
  void OnSent(bool sent, bool is_last);
  // Ends the call with the error of prompt `index`; in a stream after `events`. Waits until the
  // engine has ended the other prompts, so that their slots are free when the client reads the
  // error.
  void Fail(size_t index, const absl::Status& status, std::string events = "");
  void SendError();
  int64_t ChoiceIndex(size_t item, int64_t sequence) const;
  // The usage member of an event before the last.
  nlohmann::ordered_json UsageYet() const;

  ServiceContext& services_;
  const std::shared_ptr<Exchange> exchange_;
  const bool is_chat_;
  Caller caller_;
  CompletionRequest request_;
  CompletionHead head_;
  std::vector<std::unique_ptr<Item>> items_;  // at least one after Start; all once submitted_
  std::vector<v1::Usage> usages_;             // of finished prompts
  bool has_begun_ = false;                    // a piece of the stream was sent
  int64_t num_generated_ = 0;                 // tokens in the stream's events so far
  size_t num_submitted_ = 0;                  // prompts submitted to the engine

  std::mutex mutex_;        // guards all below, and the items' handle, waiting and result
  bool submitted_ = false;  // all prompts are submitted, or the call has failed
  bool busy_ = false;
  bool asked_writer_ = false;  // the stream's first writer task was posted
  bool over_ = false;          // the end is being sent
  bool cancelled_ = false;
  std::optional<google::rpc::Status> error_;  // the call ends with it
  std::string error_events_;                  // events to send before it
};

}  // namespace beamline
