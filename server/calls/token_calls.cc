#include "server/calls/token_calls.h"

#include <vector>

#include "base/field_error.h"
#include "engine/text/tokenizer.h"
#include "fmt/format.h"

namespace beamline {

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

absl::StatusOr<v1::TokenizeResponse> TokenizeMethod::Answer(const Prepared& prepared,
                                                            const Request& message,
                                                            int64_t max_bytes) {
  EncodeTextOptions options;
  if (message.has_add_special_tokens()) options.add_special_tokens = message.add_special_tokens();
  const auto tokens = prepared.tokenizer->Encode(message.text(), options);
  if (!tokens.ok()) return InField("text", "", tokens.status());
  v1::TokenizeResponse response;
  response.set_model(prepared.model);
  auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  for (const Token& token : *tokens) {
    v1::Token& out = *response.add_tokens();
    out.set_id(token.id);
    out.set_piece(prepared.tokenizer->TokenText(token.id));
    out.set_begin(token.begin);
    out.set_end(token.end);
    out.set_special(token.special);
    bytes += static_cast<int64_t>(out.ByteSizeLong());
    if (bytes > max_bytes) return AnswerTooLarge(bytes, max_bytes);  // of the tokens so far
  }
  return response;
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
