#include "server/http/openai_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_replace.h"
#include "base/field_error.h"
#include "fmt/format.h"

namespace beamline {
namespace {

struct Renamed {
  std::string_view engine;
  std::string_view openai;
};
// Names that differ from the engine's.
constexpr std::array<Renamed, 6> kRenamed = {{{"min_new_tokens", "min_tokens"},
                                              {"num_sequences", "n"},
                                              {"width", "n"},
                                              {"prompt_logprobs", "logprobs"},
                                              {"include_stop", "include_stop_str_in_output"},
                                              {"inputs", "input"}}};
constexpr std::array<std::string_view, 6> kParts = {"decoding.", "sampling.", "beam.",
                                                    "limits.",   "shaping.",  "output."};

// The same, for the parts of a conversation.
constexpr std::array<Renamed, 4> kRenamedOfChat = {
    {{"tools_json", "tools"},
     {"documents_json", "documents"},
     {"template_options_json", "chat_template_kwargs"},
     {"template", "chat_template"}}};

std::string OpenAiChatName(std::string_view path) {
  if (path.starts_with('.')) path.remove_prefix(1);
  if (path.empty()) return "messages";
  for (const Renamed& one : kRenamedOfChat) {
    if (one.engine == path) return std::string(one.openai);
  }
  return absl::StrReplaceAll(std::string(path), {{".members_json", ""}});
}

std::string OpenAiName(std::string_view path, const OpenAiNames& names, size_t prompt) {
  constexpr std::string_view kChat = "prompt.chat";
  if (names.is_chat && path == "prompt") return "messages";
  if (path.starts_with(kChat)) return OpenAiChatName(path.substr(kChat.size()));
  for (const std::string_view part : kParts) {
    if (path.starts_with(part)) path.remove_prefix(part.size());
  }
  const std::string_view name = path.substr(0, path.find_first_of(".["));
  std::string rest(path.substr(name.size()));
  std::string result(name);
  for (const Renamed& one : kRenamed) {
    if (one.engine == name) result = one.openai;
  }
  if (name == "max_new_tokens") result = names.max_tokens;
  if (name == "logprobs" && names.is_chat) result = "top_logprobs";
  if (name == "prompt" || name == "inputs") {
    // "prompt.ids[3]" becomes "prompt[3]", or "prompt[7][3]" for the eighth of a list.
    rest = absl::StrReplaceAll(rest, {{".ids", ""}, {".text", ""}});
    if (name == "prompt" && names.is_list) result += fmt::format("[{}]", prompt);
    if (name == "inputs" && !names.is_list && rest.starts_with("[0]")) rest.erase(0, 3);
  }
  return result + rest;
}

}  // namespace

absl::Status InOpenAiField(const absl::Status& status, const OpenAiNames& names, size_t prompt) {
  std::optional<FieldFault> fault = GetFieldFault(status);
  if (!fault.has_value()) return status;
  const std::string name = OpenAiName(fault->field, names, prompt);
  if (!fault->field.empty() && fault->text.find(fault->field) != std::string::npos) {
    fault->text = absl::StrReplaceAll(fault->text, {{fault->field, name}});
  } else if (const size_t entry = fault->field.rfind('['); entry != std::string::npos) {
    // "shaping.logit_bias has the id -1", for the field shaping.logit_bias[-1].
    fault->text = absl::StrReplaceAll(
        fault->text, {{fault->field.substr(0, entry), name.substr(0, name.rfind('['))}});
  }
  fault->text = absl::StrReplaceAll(fault->text, {{"limits.max_new_tokens", names.max_tokens}});
  // OpenAI's API has no such field.
  fault->accepted = absl::StrReplaceAll(fault->accepted, {{"; set truncate to cut it", ""}});
  fault->field = name;
  return FieldError(*fault);
}

}  // namespace beamline
