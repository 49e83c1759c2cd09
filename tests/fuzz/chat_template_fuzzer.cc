// A chat template of any bytes, rendered with the conversation behind its first NUL.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"
#include "engine/jinja/template.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

// Smaller than those of requests, so that many inputs are tried.
constexpr jinja::RenderLimits kLimits = {
    .steps = 100'000, .memory_bytes = 4U << 20, .output_bytes = 1U << 20};

constexpr char kConversation[] =
    R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi \n"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdef123", "function":
         {"name": "f", "arguments": {"a": [1, 2.5, null], "b": "\u00e9"}}}]},
        {"role": "tool", "content": "42"}])";

// Refusals say where, in one line; what the template raises is its own.
void CheckFault(const absl::Status& status) {
  BEAMLINE_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  if (status.GetPayload(jinja::kRaisedPayload).has_value()) return;
  BEAMLINE_CHECK(message.starts_with("line ") && IsPlainText(message));
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  const std::string_view input = AsText(data, size);
  const size_t end = std::min(input.find('\0'), input.size());
  const auto made = jinja::Template::Parse(input.substr(0, end));
  if (!made.ok()) {
    CheckFault(made.status());
    return 0;
  }
  auto messages = jinja::ParseJsonValue(end < input.size() ? input.substr(end + 1) : kConversation);
  if (!messages.ok()) messages = jinja::ParseJsonValue(kConversation);
  const auto tools = jinja::ParseJsonValue(R"([{"function": {"name": "f", "parameters": {}}}])");
  const auto text = made->Render({{"messages", *messages},
                                  {"tools", *tools},
                                  {"bos_token", jinja::MakeString("<s>")},
                                  {"add_generation_prompt", jinja::Value::Bool(true)}},
                                 kLimits, /*now=*/1700000000);
  if (!text.ok()) {
    CheckFault(text.status());
    return 0;
  }
  BEAMLINE_CHECK(text->size() <= kLimits.output_bytes && IsValidUtf8(*text));
  return 0;
}
