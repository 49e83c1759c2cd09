#include "server/http/openai_answer.h"

#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "fmt/format.h"

namespace beamline {
namespace {

using nlohmann::ordered_json;

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

ordered_json FinishText(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_EOS:
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    default:
      return nullptr;
  }
}

ordered_json UsageJson(const std::vector<v1::Usage>& usages) {
  int64_t prompt = 0;
  int64_t cached = 0;
  int64_t generated = 0;
  for (const v1::Usage& usage : usages) {
    prompt += usage.prompt_tokens();
    cached += usage.cached_tokens();
    generated += usage.generated_tokens();
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", generated},
          {"total_tokens", prompt + generated},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

ordered_json UsageSoFarJson(int64_t generated_tokens) {
  return {{"prompt_tokens", nullptr},
          {"completion_tokens", generated_tokens},
          {"total_tokens", nullptr}};
}

ordered_json ChoiceJson(int64_t index, const std::string& text, ordered_json logprobs,
                        ordered_json finish_reason) {
  ordered_json choice = {{"index", index}, {"text", text}};
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish_reason);
  return choice;
}

ordered_json MessageJson(int64_t index, const std::string& text, ordered_json logprobs,
                         ordered_json finish_reason) {
  ordered_json choice = {{"index", index}, {"message", {{"role", "assistant"}, {"content", text}}}};
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish_reason);
  return choice;
}

ordered_json MessageDeltaJson(int64_t index, const std::string& text, bool is_first,
                              ordered_json logprobs, ordered_json finish_reason) {
  ordered_json delta = ordered_json::object();
  if (is_first) delta["role"] = "assistant";
  if (is_first || !text.empty()) delta["content"] = text;
  ordered_json choice = {{"index", index}, {"delta", std::move(delta)}};
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = std::move(finish_reason);
  return choice;
}

std::string CompletionJson(const CompletionHead& head, ordered_json choices, ordered_json usage) {
  ordered_json answer = {
      {"id", head.id}, {"object", head.object}, {"created", head.created}, {"model", head.model}};
  answer["choices"] = std::move(choices);
  if (!usage.is_discarded()) answer["usage"] = std::move(usage);
  return Dump(answer);
}

std::string Event(const std::string& data) { return fmt::format("data: {}\n\n", data); }

std::string EmbeddingJson(const v1::EncodeResponse& response, bool base64) {
  static_assert(std::endian::native == std::endian::little, "base64 is of little-endian numbers");
  std::string json = R"({"object":"list","data":[)";
  auto out = std::back_inserter(json);
  for (int i = 0; i < response.embeddings_size(); ++i) {
    const auto& values = response.embeddings(i).values();
    fmt::format_to(out, R"({}{{"object":"embedding","index":{},"embedding":)", i == 0 ? "" : ",",
                   i);
    if (base64) {
      std::string bytes(sizeof(float) * static_cast<size_t>(values.size()), '\0');
      if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
      fmt::format_to(out, "\"{}\"}}", absl::Base64Escape(bytes));
      continue;
    }
    for (int v = 0; v < values.size(); ++v) {
      fmt::format_to(out, "{}{}", v == 0 ? '[' : ',', values[v]);
    }
    json += values.empty() ? "[]}" : "]}";
  }
  const int32_t tokens = response.usage().prompt_tokens();
  fmt::format_to(out, R"(],"model":{},"usage":{{"prompt_tokens":{},"total_tokens":{}}}}})",
                 Dump(response.model()), tokens, tokens);
  return json;
}

}  // namespace beamline
