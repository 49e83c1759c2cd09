#include "client/cli/chat_file.h"

#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/json_slices.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace beamline::cli {
namespace {

using nlohmann::json;

constexpr size_t kMostFileBytes = size_t{64} << 20;

absl::Status Fault(const std::string& path, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("--chat '{}': {}", Shorten(path), what));
}

absl::Status ReadMessage(const std::string& path, size_t number, std::string_view text,
                         const json& value, v1::ChatMessage& message) {
  if (!value.is_object() || !value.contains("role") || !value["role"].is_string()) {
    return Fault(path, fmt::format("message {} is no object with a \"role\"", number));
  }
  std::string members;
  for (const JsonMember& member : ObjectMembers(text)) {
    const json& one = value[member.name];
    if (member.name == "role") {
      message.set_role(one.get<std::string>());
    } else if (member.name == "content" && one.is_string()) {
      message.set_content(one.get<std::string>());
    } else {
      members += (members.empty() ? "{" : ",") + JsonString(member.name) + ":";
      members += member.value;
    }
  }
  if (!members.empty()) message.set_members_json(members + "}");
  return absl::OkStatus();
}

absl::Status ReadMessages(const std::string& path, std::string_view text, const json& value,
                          v1::Chat& chat) {
  if (!value.is_array()) return Fault(path, "a list of messages is expected");
  const std::vector<std::string_view> items = ListItems(text);
  for (size_t i = 0; i < items.size(); ++i) {
    BEAMLINE_RETURN_IF_ERROR(ReadMessage(path, i + 1, items[i], value[i], *chat.add_messages()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::Chat> ReadChatFile(const std::string& path) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text, ReadFile("--chat", path, kMostFileBytes));
  const auto value = ParseJson(text, "JSON");
  if (!value.ok()) return Fault(path, std::string(value.status().message()));
  v1::Chat chat;
  if (value->is_array()) {
    BEAMLINE_RETURN_IF_ERROR(ReadMessages(path, text, *value, chat));
    return chat;
  }
  if (!value->is_object() || !value->contains("messages")) {
    return Fault(path, "a list of messages, or an object with \"messages\", is expected");
  }
  for (const JsonMember& member : ObjectMembers(text)) {
    const json& one = (*value)[member.name];
    const std::string raw(member.value);
    if (member.name == "messages") {
      BEAMLINE_RETURN_IF_ERROR(ReadMessages(path, member.value, one, chat));
    } else if (member.name == "tools") {
      chat.set_tools_json(raw);
    } else if (member.name == "documents") {
      chat.set_documents_json(raw);
    } else if (member.name == "template_options") {
      chat.set_template_options_json(raw);
    } else if (member.name == "add_generation_prompt" && one.is_boolean()) {
      chat.set_add_generation_prompt(one.get<bool>());
    } else if (member.name == "template" && one.is_string()) {
      chat.set_template_(one.get<std::string>());
    } else {
      return Fault(path, fmt::format("\"{}\" is not one of \"messages\", \"tools\", \"documents\", "
                                     "\"template_options\", \"add_generation_prompt\" (true or "
                                     "false) and \"template\" (a text)",
                                     Shorten(member.name)));
    }
  }
  return chat;
}

}  // namespace beamline::cli
