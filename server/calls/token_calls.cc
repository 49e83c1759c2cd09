#include "server/calls/token_calls.h"

#include <functional>
#include <vector>

#include "base/field_error.h"
#include "engine/text/tokenizer.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr int kTokensOfPart = 4096;

}  // namespace

absl::StatusOr<ChosenTokenizer> ChooseTokenizer(CallState& call, const std::string& name,
                                                ModelDirectory::Use use) {
  BEAMLINE_ASSIGN_OR_RETURN(const auto info,
                            call.CountRefusal(call.services().models.Resolve(name, use)));
  ChosenTokenizer chosen;
  chosen.model = name.empty() ? info->name : name;
  call.SetModel(info->name);
  BEAMLINE_ASSIGN_OR_RETURN(
      chosen.tokenizer,
      call.CountRefusal(call.services().engine.FindTokenizer(info->versioned_name)));
  return chosen;
}

absl::StatusOr<ChosenTokenizer> TokenizeMethod::Prepare(CallState& call, const Request& message) {
  return ChooseTokenizer(call, message.model(), ModelDirectory::Use::kAny);
}

absl::Status TokenizeMethod::Visit(const Prepared& prepared, const Request& message,
                                   const std::function<absl::Status(const v1::Token&)>& visit) {
  EncodeTextOptions options;
  if (message.has_add_special_tokens()) options.add_special_tokens = message.add_special_tokens();
  const auto tokens = prepared.tokenizer->Encode(message.text(), options);
  if (!tokens.ok()) return InField("text", "", tokens.status());
  v1::Token out;
  for (const Token& token : *tokens) {
    out.set_id(token.id);
    out.set_piece(prepared.tokenizer->TokenText(token.id));
    out.set_begin(token.begin);
    out.set_end(token.end);
    out.set_special(token.special);
    BEAMLINE_RETURN_IF_ERROR(visit(out));
  }
  return absl::OkStatus();
}

absl::StatusOr<grpc::ByteBuffer> TokenizeMethod::Answer(const Prepared& prepared,
                                                        const Request& message, int64_t max_bytes) {
  // In protobuf, concatenated messages are one message with the fields of all.
  v1::TokenizeResponse part;
  part.set_model(prepared.model);
  std::vector<grpc::Slice> parts;
  int64_t bytes = 0;
  const auto finish_part = [&] {
    parts.emplace_back(part.SerializeAsString());
    bytes += static_cast<int64_t>(parts.back().size());
    part.Clear();
  };
  BEAMLINE_RETURN_IF_ERROR(Visit(prepared, message, [&](const v1::Token& token) {
    *part.add_tokens() = token;
    if (part.tokens_size() == kTokensOfPart) finish_part();
    // Counts the finished parts only.
    return bytes > max_bytes ? AnswerTooLarge(bytes, max_bytes) : absl::OkStatus();
  }));
  finish_part();
  return grpc::ByteBuffer(parts.data(), parts.size());
}

absl::StatusOr<ChosenTokenizer> DetokenizeMethod::Prepare(CallState& call, const Request& message) {
  BEAMLINE_ASSIGN_OR_RETURN(ChosenTokenizer chosen,
                            ChooseTokenizer(call, message.model(), ModelDirectory::Use::kAny));
  const int32_t vocab_size = chosen.tokenizer->vocab_size();
  for (int i = 0; i < message.ids_size(); ++i) {
    const int32_t id = message.ids(i);
    if (id >= 0 && id < vocab_size) continue;
    return CheckInt(fmt::format("ids[{}]", i), id, 0, vocab_size - 1);
  }
  return chosen;
}

absl::StatusOr<v1::DetokenizeResponse> DetokenizeMethod::Answer(const Prepared& prepared,
                                                                const Request& message, int64_t) {
  const bool skip_special = !message.has_skip_special_tokens() || message.skip_special_tokens();
  const std::vector<int32_t> ids(message.ids().begin(), message.ids().end());
  v1::DetokenizeResponse response;
  BEAMLINE_ASSIGN_OR_RETURN(*response.mutable_text(),
                            prepared.tokenizer->Decode(ids, skip_special));
  response.set_model(prepared.model);
  return response;
}

}  // namespace beamline
