#include "server/http/completion_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/status.h"
#include "server/http/http_call.h"
#include "server/wire/errors.h"

namespace beamline {
namespace {

using nlohmann::ordered_json;

constexpr char kDone[] = "[DONE]";

}  // namespace

// The engine owns it. It holds the call until OnFinish.
class CompletionCall::Sink final : public GenerateSink {
 public:
  Sink(std::shared_ptr<CompletionCall> call, size_t index)
      : call_(std::move(call)), index_(index), wants_deltas_(call_->request_.stream) {}
  bool wants_deltas() const override { return wants_deltas_; }
  void OnDelta(GenerateDelta delta) override { call_->Push(index_, std::move(delta)); }
  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    const auto call = std::move(call_);
    call->Finish(index_, std::move(result));
  }

 private:
  std::shared_ptr<CompletionCall> call_;
  const size_t index_;
  const bool wants_deltas_;
};

CompletionCall::~CompletionCall() {
  for (const auto& item : items_) item->state.Done();
}

void CompletionCall::Start() {
  items_.push_back(std::make_unique<Item>(services_, Rpc::kGenerate));
  items_[0]->state.SetRequestId(exchange_->request().request_id);
  items_[0]->state.SetRequestBytes(exchange_->request().body.size());
  exchange_->OnGone([weak = weak_from_this()] {
    if (const auto call = weak.lock(); call != nullptr) call->Cancel();
  });
  if (const absl::Status status = Begin(); !status.ok()) return Fail(0, status);
  if (exchange_->request().body.size() <= kLargeBodyBytes) return Run();
  services_.text_workers.Post([self = shared_from_this()] { self->Run(); });
}

absl::Status CompletionCall::Begin() {
  BEAMLINE_RETURN_IF_ERROR(items_[0]->state.Admit());
  BEAMLINE_ASSIGN_OR_RETURN(caller_, CallerOf(exchange_->request()));
  items_[0]->state.SetCaller(caller_);
  return absl::OkStatus();
}

void CompletionCall::Run() {
  const absl::Status status = ParseAndSubmit();
  std::unique_lock lock(mutex_);
  submitted_ = true;
  if (status.ok()) return WakeLocked(false);
  busy_ = true;  // keeps other threads out until the error is sent
  const size_t index = num_submitted_;
  items_.resize(index + 1);  // the engine does not know the others
  lock.unlock();
  Fail(index, status);
}

absl::Status CompletionCall::ParseAndSubmit() {
  const std::string& id = exchange_->request().request_id;
  // More prompts could never run at the same time.
  const auto most = static_cast<size_t>(
      std::min(services_.stream_limits.max_outstanding, services_.admission.limit()));
  const std::string& body = exchange_->request().body;
  auto parsed = is_chat_ ? ParseChatCompletion(body) : ParseCompletion(body, most);
  if (!parsed.ok()) return parsed.status();
  request_ = *std::move(parsed);
  request_.request.set_request_id(id);
  head_ = {.id = (is_chat_ ? "chatcmpl-" : "cmpl-") + id,
           .object = !is_chat_         ? "text_completion"
                     : request_.stream ? "chat.completion.chunk"
                                       : "chat.completion",
           .created = NowInSeconds()};
  const size_t num_prompts = request_.prompts.size();
  const Rpc rpc = request_.stream ? Rpc::kGenerateStream : Rpc::kGenerate;
  items_[0]->state.SetRpc(rpc);
  if (num_prompts > 1) {
    caller_.charge = OpenCharge(services_, caller_);
    std::lock_guard lock(mutex_);  // Cancel iterates over items_
    for (size_t i = 1; i < num_prompts; ++i) {
      items_.push_back(std::make_unique<Item>(services_, rpc));
      items_[i]->state.SetCaller(caller_);
    }
    // Admits all prompts or none. The first has its slot already.
    BEAMLINE_RETURN_IF_ERROR(items_[1]->state.Admit(static_cast<int32_t>(num_prompts) - 1));
  }
  for (; num_submitted_ < num_prompts; ++num_submitted_) {
    BEAMLINE_RETURN_IF_ERROR(Submit(num_submitted_, request_.Message(num_submitted_)));
    request_.prompts[num_submitted_].Clear();  // the engine has its own copy
  }
  return absl::OkStatus();
}

absl::Status CompletionCall::Submit(size_t index, const v1::GenerateRequest& message) {
  Item& item = *items_[index];
  item.state.Describe(message);
  // Fills `answer` before the sink can get the result.
  const auto model = services_.models.Resolve(message.model(), ModelDirectory::Use::kGenerate);
  if (index == 0) {
    head_.model = message.model().empty() && model.ok() ? (*model)->name : message.model();
  }
  if (model.ok() && request_.logprobs.has_value()) {
    item.answer.model = (*model)->versioned_name;
    BEAMLINE_RETURN_IF_ERROR(PrepareLogprobs(item));
  }
  auto handle = GenerateMethod::Submit(
      item.state, message, caller_, std::make_shared<Sink>(shared_from_this(), index), item.answer);
  if (!handle.ok()) return WithUnknownModel(services_, message.model(), handle.status());
  std::lock_guard lock(mutex_);
  item.handle = *std::move(handle);
  if (cancelled_) item.handle->Cancel();
  return absl::OkStatus();
}

absl::Status CompletionCall::PrepareLogprobs(Item& item) {
  BEAMLINE_ASSIGN_OR_RETURN(const auto tokenizer,
                            services_.engine.FindTokenizer(item.answer.model));
  const auto texts = std::make_shared<const TokenTexts>(tokenizer);
  for (int32_t i = 0; i < request_.n; ++i) {
    item.logprobs.push_back(is_chat_ ? MakeChatLogprobs(texts)
                                     : MakeCompletionLogprobs(texts, request_.skip_special_tokens));
  }
  return absl::OkStatus();
}

void CompletionCall::Cancel() {
  std::vector<std::shared_ptr<RequestHandle>> handles;
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    for (const auto& item : items_) {
      item->state.SetUnsent();
      if (item->handle != nullptr) handles.push_back(item->handle);
    }
  }
  for (const auto& handle : handles) handle->Cancel();
}

void CompletionCall::Push(size_t index, GenerateDelta delta) {
  std::lock_guard lock(mutex_);
  if (over_ || cancelled_) return;
  items_[index]->waiting.Add(std::move(delta));
  WakeLocked(false);
}

void CompletionCall::Finish(size_t index, absl::StatusOr<GenerateResult> result) {
  std::lock_guard lock(mutex_);
  if (error_.has_value()) {
    items_[index]->result = std::move(result);
    if (AnyRunsLocked()) return;
    services_.writers.PostBrief([self = shared_from_this()] { self->SendError(); });
    return;
  }
  const bool brief =
      !request_.stream && items_.size() == 1 && (!result.ok() || GenerateMethod::IsBrief(*result));
  items_[index]->result = std::move(result);
  WakeLocked(brief);
}

bool CompletionCall::AnyRunsLocked() const {
  return std::ranges::any_of(items_, [](const std::unique_ptr<Item>& item) {
    return item->handle != nullptr && !item->result.has_value();
  });
}

bool CompletionCall::IsReadyLocked() const {
  bool all_ended = true;
  for (const auto& item : items_) {
    if (!item->waiting.empty()) return true;
    if (item->result.has_value() && !item->result->ok()) return true;
    all_ended = all_ended && item->result.has_value();
  }
  return all_ended;
}

void CompletionCall::WakeLocked(bool brief) {
  if (!submitted_ || busy_ || over_ || !IsReadyLocked()) return;
  busy_ = true;
  auto advance = [self = shared_from_this()] { self->Advance(); };
  if (request_.stream) {
    // A stream's first message goes before the next tokens of other streams: time to first token
    // counts most.
    const auto turn =
        std::exchange(asked_writer_, true) ? WorkerPool::Turn::kLast : WorkerPool::Turn::kFirst;
    return services_.writers.PostSend(advance, turn);
  }
  brief ? services_.writers.PostBrief(advance) : services_.writers.Post(advance);
}

void CompletionCall::Advance() {
  std::vector<std::vector<GenerateDelta>> deltas;
  bool any = false;
  bool all_ended = true;
  std::optional<size_t> failed;
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < items_.size(); ++i) {
      Item& item = *items_[i];
      if (request_.stream) {
        deltas.push_back(item.waiting.Take());
        any = any || !deltas.back().empty();
      }
      const bool has_result = item.result.has_value();
      if (has_result && !item.result->ok() && !failed.has_value()) failed = i;
      all_ended = all_ended && has_result && item.waiting.empty();
    }
    if (!any && !all_ended && !failed.has_value()) {
      busy_ = false;
      return;
    }
  }
  // In a stream, deltas before the error are sent first.
  if (failed.has_value() && !any) return Fail(*failed, items_[*failed]->result->status());
  if (request_.stream) return SendEvents(std::move(deltas), all_ended && !failed.has_value());
  AnswerWhole();
}

int64_t CompletionCall::ChoiceIndex(size_t item, int64_t sequence) const {
  return static_cast<int64_t>(item) * request_.n + sequence;
}

ordered_json CompletionCall::UsageYet() const {
  if (request_.continuous_usage) return UsageSoFarJson(num_generated_);
  return request_.include_usage ? ordered_json(nullptr)
                                : ordered_json(ordered_json::value_t::discarded);
}

void CompletionCall::AnswerWhole() {
  ordered_json choices = ordered_json::array();
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = *items_[i];
    const auto response = GenerateMethod::Answer(item.state, **item.result, item.answer);
    if (!response.ok()) return Fail(i, response.status());
    usages_.push_back(response->usage());
    for (int s = 0; s < response->sequences_size(); ++s) {
      const v1::Sequence& sequence = response->sequences(s);
      ordered_json logprobs;
      if (request_.logprobs.has_value()) {
        LogprobsWriter& writer = *item.logprobs[static_cast<size_t>(s)];
        if (request_.echo && sequence.ids_size() > 0) writer.AddFirst(sequence.ids(0));
        if (request_.echo) {
          for (const auto& position : response->prompt_logprobs()) writer.Add(position);
        }
        for (const auto& position : sequence.logprobs()) writer.Add(position);
        logprobs = writer.Take();
      }
      const int64_t choice = ChoiceIndex(i, s);
      ordered_json finish = FinishText(sequence.finish_reason());
      choices.push_back((is_chat_ ? MessageJson : ChoiceJson)(
          choice, sequence.text(), std::move(logprobs), std::move(finish)));
    }
  }
  HttpAnswer answer{.body = CompletionJson(head_, std::move(choices), UsageJson(usages_))};
  const auto bytes = static_cast<int64_t>(answer.body.size());
  const int64_t most = services_.stream_limits.max_send_bytes;
  if (bytes > most) return Fail(0, AnswerTooLarge(bytes, most));
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  items_[0]->state.AddAnswerBytes(bytes);
  GivePlacesBefore(bytes);
  exchange_->Answer(std::move(answer),
                    [self = shared_from_this()](bool sent) { self->OnSent(sent, true); });
}

void CompletionCall::GivePlacesBefore(int64_t answer_bytes) {
  if (!items_[0]->state.GivePlacesBefore(answer_bytes)) return;
  // The second item holds the slots of all further items.
  for (const auto& item : items_) item->state.GivePlaces();
}

std::string CompletionCall::DeltaEvent(size_t index, GenerateDelta delta) {
  Item& item = *items_[index];
  const int32_t sequence = delta.sequence;
  num_generated_ += static_cast<int64_t>(delta.ids.size());
  const v1::SequenceDelta message = ToMessage(std::move(delta), item.answer);
  ordered_json logprobs;
  if (request_.logprobs.has_value()) {
    LogprobsWriter& writer = *item.logprobs[static_cast<size_t>(sequence)];
    for (const auto& position : message.logprobs()) writer.Add(position);
    logprobs = writer.Take();
  }
  return ChoiceEvent(PartJson(index, sequence, message.text(), std::move(logprobs), nullptr));
}

ordered_json CompletionCall::PartJson(size_t index, int64_t sequence, const std::string& text,
                                      ordered_json logprobs, ordered_json finish_reason) {
  const int64_t choice = ChoiceIndex(index, sequence);
  if (!is_chat_) return ChoiceJson(choice, text, std::move(logprobs), std::move(finish_reason));
  const bool is_first = items_[index]->begun.insert(sequence).second;
  return MessageDeltaJson(choice, text, is_first, std::move(logprobs), std::move(finish_reason));
}

std::string CompletionCall::ChoiceEvent(ordered_json choice) const {
  ordered_json choices = ordered_json::array();
  choices.push_back(std::move(choice));
  return Event(CompletionJson(head_, std::move(choices), UsageYet()));
}

absl::StatusOr<std::string> CompletionCall::LastEvents(size_t& failed) {
  std::string events;
  for (size_t i = 0; i < items_.size(); ++i) {
    Item& item = *items_[i];
    failed = i;  // until its answer is made
    BEAMLINE_ASSIGN_OR_RETURN(const v1::GenerateResponse response,
                              GenerateMethod::Answer(item.state, **item.result, item.answer));
    usages_.push_back(response.usage());
    for (int s = 0; s < response.sequences_size(); ++s) {
      events += ChoiceEvent(
          PartJson(i, s, "", nullptr, FinishText(response.sequences(s).finish_reason())));
    }
  }
  if (request_.include_usage) {
    events += Event(CompletionJson(head_, ordered_json::array(), UsageJson(usages_)));
  }
  return events + Event(kDone);
}

void CompletionCall::SendEvents(std::vector<std::vector<GenerateDelta>> deltas, bool is_last) {
  std::string events;
  for (size_t i = 0; i < deltas.size(); ++i) {
    for (GenerateDelta& delta : deltas[i]) events += DeltaEvent(i, std::move(delta));
  }
  if (is_last) {
    size_t failed = 0;
    const auto last = LastEvents(failed);
    if (!last.ok()) {
      has_begun_ = has_begun_ || !events.empty();  // they are sent before the error
      return Fail(failed, last.status(), std::move(events));
    }
    events += *last;
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  has_begun_ = true;
  const auto bytes = static_cast<int64_t>(events.size());
  items_[0]->state.AddAnswerBytes(bytes);
  if (is_last) GivePlacesBefore(bytes);
  exchange_->Write(std::move(events), is_last, [self = shared_from_this(), is_last](bool sent) {
    self->OnSent(sent, is_last);
  });
}

void CompletionCall::OnSent(bool sent, bool is_last) {
  if (!sent) Cancel();
  if (is_last) return;
  std::lock_guard lock(mutex_);
  busy_ = false;
  WakeLocked(false);  // this is the connection's thread, which must not compute
}

void CompletionCall::Fail(size_t index, const absl::Status& status, std::string events) {
  std::vector<std::shared_ptr<RequestHandle>> handles;
  google::rpc::Status error =
      items_[index]->state.Fail(InOpenAiField(status, request_.names, index));
  bool any_runs = false;
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (i != index) items_[i]->state.SetUnsent();  // the error replaces its answer
      if (items_[i]->handle != nullptr) handles.push_back(items_[i]->handle);
    }
    error_events_ = std::move(events);
    error_ = std::move(error);
    any_runs = AnyRunsLocked();
  }
  for (const auto& handle : handles) handle->Cancel();
  if (!any_runs) SendError();
}

void CompletionCall::SendError() {
  for (const auto& item : items_) item->state.GivePlaces();
  const auto on_sent = [self = shared_from_this()](bool sent) { self->OnSent(sent, true); };
  if (!has_begun_) return exchange_->Answer(ErrorAnswer(*error_), on_sent);
  exchange_->Write(std::move(error_events_) + Event(ErrorJson(*error_)) + Event(kDone), true,
                   on_sent);
}

}  // namespace beamline
