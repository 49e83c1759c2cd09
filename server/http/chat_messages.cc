#include "server/http/chat_messages.h"

#include <string>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "base/json.h"
#include "base/json_slices.h"
#include "base/status.h"
#include "engine/api/request_limits.h"
#include "fmt/format.h"

namespace beamline {
namespace {

using nlohmann::json;

void AddMember(std::string_view name, std::string_view value, std::string& object) {
  object += object.empty() ? "{" : ",";
  object += JsonString(name);
  object += ":";
  object += value;
}

std::string Close(std::string object) { return object.empty() ? "{}" : object + "}"; }

// A call's arguments are a JSON string in OpenAI's API, and an object in chat templates. A string
// that is no object stays a string.
std::string FunctionJson(std::string_view text, const json& function) {
  std::string made;
  for (const JsonMember& member : ObjectMembers(text)) {
    const json& value = function[member.name];
    const bool is_object =
        member.name == "arguments" && value.is_string() &&
        ParseJsonObject(value.get_ref<const std::string&>(), "arguments", kMostRequestParts).ok();
    AddMember(member.name,
              is_object ? std::string_view(value.get_ref<const std::string&>()) : member.value,
              made);
  }
  return Close(std::move(made));
}

std::string ToolCallsJson(std::string_view text, const json& calls) {
  std::string made;
  const std::vector<std::string_view> items = ListItems(text);
  for (size_t i = 0; i < items.size(); ++i) {
    made += made.empty() ? "[" : ",";
    if (!calls[i].is_object()) {
      made += items[i];
      continue;
    }
    std::string call;
    for (const JsonMember& member : ObjectMembers(items[i])) {
      const json& value = calls[i][member.name];
      if (member.name == "function" && value.is_object()) {
        AddMember(member.name, FunctionJson(member.value, value), call);
      } else {
        AddMember(member.name, member.value, call);
      }
    }
    made += Close(std::move(call));
  }
  return made.empty() ? "[]" : made + "]";
}

// A string, or a list of text parts, joined with newlines.
absl::Status ReadContent(const json& value, const std::string& field, v1::ChatMessage& message) {
  if (value.is_null()) return absl::OkStatus();
  if (value.is_string()) {
    message.set_content(value.get_ref<const std::string&>());
    return absl::OkStatus();
  }
  if (!value.is_array()) return FieldError(field, ShowJson(value), "a text, a list of parts, null");
  std::string content;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string path = fmt::format("{}[{}]", field, i);
    const json& part = value[i];
    if (!part.is_object()) return FieldError(path, ShowJson(part), "an object");
    const json type = part.value("type", json());
    if (type != "text") return FieldError(path + ".type", ShowJson(type), "text");
    const json text = part.value("text", json());
    if (!text.is_string()) return FieldError(path + ".text", ShowJson(text), "a text");
    if (i > 0) content += "\n";
    content += text.get_ref<const std::string&>();
  }
  message.set_content(std::move(content));
  return absl::OkStatus();
}

absl::Status ReadMessage(const json& value, std::string_view text, const std::string& field,
                         v1::ChatMessage& message) {
  if (!value.is_object()) return FieldError(field, ShowJson(value), "an object");
  std::string members;
  for (const JsonMember& member : ObjectMembers(text)) {
    const json& one = value[member.name];
    const std::string path = fmt::format("{}.{}", field, member.name);
    if (member.name == "role") {
      if (!one.is_string()) return FieldError(path, ShowJson(one), "a text");
      message.set_role(one.get_ref<const std::string&>());
    } else if (member.name == "content") {
      BEAMLINE_RETURN_IF_ERROR(ReadContent(one, path, message));
    } else if (member.name == "tool_calls" && !one.is_null()) {
      if (!one.is_array()) return FieldError(path, ShowJson(one), "a list");
      AddMember(member.name, ToolCallsJson(member.value, one), members);
    } else {
      AddMember(member.name, member.value, members);
    }
  }
  if (message.role().empty()) return FieldError(field + ".role", "not given", "a text");
  if (!members.empty()) message.set_members_json(Close(std::move(members)));
  return absl::OkStatus();
}

// The JSON text of the body's member `name`; empty if there is none.
std::string_view TextOf(const std::vector<JsonMember>& body, std::string_view name) {
  for (const JsonMember& member : body) {
    if (member.name == name) return member.value;
  }
  return {};
}

absl::Status ReadMessages(JsonFields& fields, const std::vector<JsonMember>& body, v1::Chat& chat) {
  constexpr std::string_view kAccepted = "a list of messages";
  const json* messages = fields.Find("messages");
  if (messages == nullptr) return FieldError("messages", "not given", kAccepted);
  if (!messages->is_array()) return FieldError("messages", ShowJson(*messages), kAccepted);
  if (messages->empty()) return FieldError("messages", "an empty list", kAccepted);
  BEAMLINE_RETURN_IF_ERROR(
      CheckCount("messages", messages->size(), LimitOf("prompt.chat.messages").size->max));
  const std::vector<std::string_view> texts = ListItems(TextOf(body, "messages"));
  for (size_t i = 0; i < texts.size(); ++i) {
    BEAMLINE_RETURN_IF_ERROR(ReadMessage((*messages)[i], texts[i], fmt::format("messages[{}]", i),
                                         *chat.add_messages()));
  }
  return absl::OkStatus();
}

}  // namespace

void ReadChat(JsonFields& fields, std::string_view body, v1::Chat& chat) {
  const std::vector<JsonMember> members = ObjectMembers(body);
  fields.Fail(ReadMessages(fields, members, chat));
  const auto list = [&](std::string_view name) {
    const json* value = fields.Find(name);
    if (value == nullptr) return std::string();
    if (!value->is_array()) fields.Refuse(name, *value, "a list");
    return std::string(TextOf(members, name));
  };
  std::string tools = list("tools");
  chat.set_documents_json(list("documents"));
  if (const json* choice = fields.Find("tool_choice")) {
    // The model chooses the tool to call.
    if (*choice != "auto" && *choice != "none") fields.Refuse("tool_choice", *choice, "auto, none");
    if (*choice == "none") tools.clear();
  }
  chat.set_tools_json(std::move(tools));
  if (const json* options = fields.Find("chat_template_kwargs")) {
    if (!options->is_object()) fields.Refuse("chat_template_kwargs", *options, "an object");
    chat.set_template_options_json(std::string(TextOf(members, "chat_template_kwargs")));
  }
  fields.Bool("add_generation_prompt", [&](bool value) { chat.set_add_generation_prompt(value); });
  fields.Text("chat_template", [&](const std::string& value) { chat.set_template_(value); });
}

}  // namespace beamline
