#include "server/calls/token_calls.h"

#include <memory>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "base/status.h"
#include "engine/text/tokenizer.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr size_t kLargeTextBytes = 4096;
constexpr int kLargeIdCount = 4096;

// The tokenizer that the request means; sets `model` to its model, as the answer tells it.
absl::StatusOr<std::shared_ptr<const Tokenizer>> ResolveTokenizer(CallState& call,
                                                                  const std::string& name,
                                                                  std::string& model) {
  BEAMLINE_ASSIGN_OR_RETURN(const auto info, call.CountRefusal(call.services().models.Resolve(
                                                 name, ModelDirectory::Use::kAny)));
  model = name.empty() ? info->name : name;
  call.SetModel(info->name);
  return call.CountRefusal(call.services().engine.FindTokenizer(info->versioned_name));
}

}  // namespace

void TokenizeCall::Start(const grpc::ByteBuffer& buffer) {
  const absl::Status status = Prepare(buffer);
  if (!status.ok()) return Fail(status);
  if (message_.text().size() <= kLargeTextBytes) return Run();
  services().text_workers.Post([this] { Run(); });
}

absl::Status TokenizeCall::Prepare(const grpc::ByteBuffer& buffer) {
  BEAMLINE_RETURN_IF_ERROR(state().Admit());
  BEAMLINE_RETURN_IF_ERROR(state().Parse(buffer, message_));
  BEAMLINE_ASSIGN_OR_RETURN(tokenizer_, ResolveTokenizer(state(), message_.model(), model_));
  return absl::OkStatus();
}

absl::StatusOr<v1::TokenizeResponse> TokenizeCall::Tokenize() {
  EncodeTextOptions options;
  if (message_.has_add_special_tokens()) {
    options.add_special_tokens = message_.add_special_tokens();
  }
  const auto tokens = tokenizer_->Encode(message_.text(), options);
  if (!tokens.ok()) return InField("text", "", tokens.status());
  v1::TokenizeResponse response;
  response.set_model(model_);
  const int64_t limit = services().stream_limits.max_send_bytes;
  auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  for (const Token& token : *tokens) {
    v1::Token& out = *response.add_tokens();
    out.set_id(token.id);
    out.set_piece(tokenizer_->TokenText(token.id));
    out.set_begin(token.begin);
    out.set_end(token.end);
    out.set_special(token.special);
    bytes += static_cast<int64_t>(out.ByteSizeLong());
    if (bytes > limit) return AnswerTooLarge(bytes, limit);  // of the tokens so far
  }
  return response;
}

void TokenizeCall::Run() {
  const auto response = Tokenize();
  if (!response.ok()) return Fail(response.status());
  Reply(*response);
}

void DetokenizeCall::Start(const grpc::ByteBuffer& buffer) {
  const absl::Status status = Prepare(buffer);
  if (!status.ok()) return Fail(status);
  if (message_.ids_size() <= kLargeIdCount) return Run();
  services().text_workers.Post([this] { Run(); });
}

absl::Status DetokenizeCall::Prepare(const grpc::ByteBuffer& buffer) {
  BEAMLINE_RETURN_IF_ERROR(state().Admit());
  BEAMLINE_RETURN_IF_ERROR(state().Parse(buffer, message_));
  BEAMLINE_ASSIGN_OR_RETURN(tokenizer_, ResolveTokenizer(state(), message_.model(), model_));
  const int32_t vocab_size = tokenizer_->vocab_size();
  for (int i = 0; i < message_.ids_size(); ++i) {
    const int32_t id = message_.ids(i);
    if (id >= 0 && id < vocab_size) continue;
    return CheckInt(fmt::format("ids[{}]", i), id, 0, vocab_size - 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::DetokenizeResponse> DetokenizeCall::Detokenize() const {
  const bool skip_special = !message_.has_skip_special_tokens() || message_.skip_special_tokens();
  const std::vector<int32_t> ids(message_.ids().begin(), message_.ids().end());
  v1::DetokenizeResponse response;
  BEAMLINE_ASSIGN_OR_RETURN(*response.mutable_text(), tokenizer_->Decode(ids, skip_special));
  response.set_model(model_);
  return response;
}

void DetokenizeCall::Run() {
  const auto response = Detokenize();
  if (!response.ok()) return Fail(response.status());
  Reply(*response);
}

}  // namespace beamline
