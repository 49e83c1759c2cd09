#include "loadtest/traffic/call.h"

#include <algorithm>
#include <variant>

#include "loadtest/traffic/many_call.h"
#include "loadtest/traffic/stream_call.h"
#include "loadtest/traffic/unary_call.h"

namespace beamline::loadtest {

Call::Call(Request request, const RunClock& clock, CallObserver& observer)
    : request_(std::move(request)), clock_(clock), observer_(observer) {
  record_.index = request_.index;
  record_.class_index = request_.class_index;
  if (const auto* const one = std::get_if<v1::GenerateRequest>(&request_.body)) {
    record_.asked_prompt_tokens = one->prompt().ids().ids_size();
    const v1::Limits& limits = one->limits();
    record_.asked_output_tokens = limits.ignore_eos() ? limits.max_new_tokens() : 0;
  }
}

void Call::Start(std::chrono::nanoseconds intended, std::chrono::milliseconds timeout,
                 v1::Inference::Stub& stub, grpc::CompletionQueue& queue) {
  record_.intended = intended;
  record_.sent = clock_.Now();
  // gRPC deadlines are system clock times; latencies never use that clock.
  context_.set_deadline(std::chrono::system_clock::now() + request_.deadline.value_or(timeout));
  Launch(stub, queue);
}

void Call::SetClient(const std::string& client) {
  context_.AddMetadata("x-client-id", client);
  record_.client = client;
}

void Call::Cancel() {
  was_cancelled_ = true;
  context_.TryCancel();
}

void Call::NoteTokens() {
  size_t num_tokens = 0;
  size_t longest = 0;
  for (const Answer::Sequence& sequence : answer_.sequences) {
    num_tokens += sequence.ids.size();
    longest = std::max(longest, sequence.ids.size());
  }
  if (num_tokens == num_tokens_) return;
  record_.message_tokens.push_back(static_cast<int>(num_tokens - num_tokens_));
  num_tokens_ = num_tokens;
  record_.longest_sequence = static_cast<int>(longest);
  record_.token_times.push_back(clock_.Now());
}

void Call::Done() {
  record_.end = clock_.Now();
  record_.num_items = answer_.num_items;
  record_.prompt_tokens = answer_.usage.prompt_tokens();
  record_.cached_tokens = answer_.usage.cached_tokens();
  // A cut-off stream has no usage, but its tokens have arrived.
  record_.generated_tokens =
      std::max(answer_.usage.generated_tokens(), static_cast<int>(num_tokens_));
  for (const Answer::Sequence& sequence : answer_.sequences) {
    record_.longest_sequence =
        std::max(record_.longest_sequence, static_cast<int>(sequence.ids.size()));
  }
  observer_.OnDone(this);
}

std::unique_ptr<Call> MakeCall(Request request, const RunClock& clock, CallObserver& observer) {
  switch (request.kind) {
    case Kind::kGenerate:
      return std::make_unique<GenerateCall>(std::move(request), clock, observer);
    case Kind::kGenerateStream:
      return std::make_unique<StreamCall>(std::move(request), clock, observer);
    case Kind::kGenerateMany:
      return std::make_unique<GenerateManyCall>(std::move(request), clock, observer);
    case Kind::kEncode:
      return std::make_unique<EncodeCall>(std::move(request), clock, observer);
    case Kind::kEncodeMany:
      return std::make_unique<EncodeManyCall>(std::move(request), clock, observer);
    case Kind::kScore:
      return std::make_unique<ScoreCall>(std::move(request), clock, observer);
    case Kind::kClassify:
      return std::make_unique<ClassifyCall>(std::move(request), clock, observer);
    case Kind::kClassifyTokens:
      return std::make_unique<ClassifyTokensCall>(std::move(request), clock, observer);
    case Kind::kFillMask:
      return std::make_unique<FillMaskCall>(std::move(request), clock, observer);
    case Kind::kRerank:
      return std::make_unique<RerankCall>(std::move(request), clock, observer);
    case Kind::kTokenize:
      break;
  }
  return std::make_unique<TokenizeCall>(std::move(request), clock, observer);
}

}  // namespace beamline::loadtest
