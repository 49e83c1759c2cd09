// POST /v1/completions and /v1/chat/completions: a request to the engine for each of its prompts,
// their answers together, or as events while they are written.
//
// Threads: the connection's (the request, the client's end, a piece is sent), the text workers
// (large bodies), the engine's (deltas and results) and the writers (convert and send). At most one
// of writer and piece under way works for the call at a time, `busy_`. Whoever still needs the call
// holds it; with the last of them it ends, and is counted.
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
  // `is_chat`: the request is one of chat completions.
  CompletionCall(ServiceContext& services, std::shared_ptr<Exchange> exchange, bool is_chat)
      : services_(services), exchange_(std::move(exchange)), is_chat_(is_chat) {}
  ~CompletionCall();

  // To be called once, within the handler's Handle.
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
    std::set<int64_t> begun;  // the answers of which something has been sent
  };

  absl::Status Begin();
  void Run();
  absl::Status ParseAndSubmit();
  absl::Status Submit(size_t index, const v1::GenerateRequest& message);
  absl::Status PrepareLogprobs(Item& item);
  void Cancel();
  // From the engine.
  void Push(size_t index, GenerateDelta delta);
  void Finish(size_t index, absl::StatusOr<GenerateResult> result);
  // All REQUIRE mutex_.
  bool AnyRunsLocked() const;
  bool IsReadyLocked() const;
  void WakeLocked(bool brief);

  // REQUIRES: busy_ is this caller's, as in all below.
  void Advance();
  void AnswerWhole();
  void SendEvents(std::vector<std::vector<GenerateDelta>> deltas, bool is_last);
  // The answers' ends and what comes behind them; an error instead where one of them has none.
  // `failed`: which one.
  absl::StatusOr<std::string> LastEvents(size_t& failed);
  std::string DeltaEvent(size_t index, GenerateDelta delta);
  std::string ChoiceEvent(nlohmann::ordered_json choice) const;
  // The next part of an answer to prompt `index`, or its end.
  nlohmann::ordered_json PartJson(size_t index, int64_t sequence, const std::string& text,
                                  nlohmann::ordered_json logprobs,
                                  nlohmann::ordered_json finish_reason);
  // All of them, as the last piece of the answer is about to be sent.
  void GivePlacesBefore(int64_t answer_bytes);
  void OnSent(bool sent, bool is_last);
  // The whole ends with this error of this prompt, behind `events` where it is a stream, once the
  // engine has given up the others: who has read the error finds their places free.
  void Fail(size_t index, const absl::Status& status, std::string events = "");
  void SendError();
  int64_t ChoiceIndex(size_t item, int64_t sequence) const;
  // What an event before the last says of usage.
  nlohmann::ordered_json UsageYet() const;

  ServiceContext& services_;
  const std::shared_ptr<Exchange> exchange_;
  const bool is_chat_;
  Caller caller_;
  CompletionRequest request_;
  CompletionHead head_;
  std::vector<std::unique_ptr<Item>> items_;  // at least one from Start on; all once submitted_
  std::vector<v1::Usage> usages_;             // of those that have ended
  bool has_begun_ = false;                    // a piece of the stream has been sent
  int64_t num_generated_ = 0;                 // tokens that the stream's events have told
  size_t num_submitted_ = 0;                  // prompts that the engine has

  std::mutex mutex_;        // guards all below, and items' handle, waiting and result
  bool submitted_ = false;  // all prompts are with the engine, or the call has failed
  bool busy_ = false;
  bool asked_writer_ = false;  // for a stream's first piece
  bool over_ = false;          // the end is on its way
  bool cancelled_ = false;
  std::optional<google::rpc::Status> error_;  // what all ends with
  std::string error_events_;                  // before it
};

}  // namespace beamline
