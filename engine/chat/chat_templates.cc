#include "engine/chat/chat_templates.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "base/utf8.h"
#include "engine/checkpoint/checkpoint_file.h"
#include "engine/text/tokenizer_config.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

using jinja::Kind;
using jinja::Value;
using jinja::Variables;

constexpr size_t kMostTemplates = 64;
constexpr size_t kMostFiles = 10000;  // listed in additional_chat_templates
constexpr const char* kDefaultName = "default";
constexpr const char* kToolName = "tool_use";

absl::Status NotJson(std::string_view field, std::string_view accepted, std::string_view fault) {
  return FieldError({.field = std::string(field),
                     .accepted = std::string(accepted),
                     .text = fmt::format("{}: {}", field, fault)});
}

// Parses a JSON value of this kind; None if the text is empty.
absl::StatusOr<Value> ReadJsonField(const std::string& field, const std::string& text, Kind kind) {
  if (text.empty()) return Value::None();
  const std::string_view accepted = kind == Kind::kDict ? "a JSON object" : "a JSON list";
  auto value = jinja::ParseJsonValue(text);
  if (!value.ok()) return NotJson(field, accepted, std::string(value.status().message()));
  if (!value->is(kind)) {
    return NotJson(field, accepted,
                   fmt::format("found a JSON value of type {}", jinja::TypeName(*value)));
  }
  return value;
}

// The same for a list of objects.
absl::StatusOr<Value> ReadObjects(const std::string& field, const std::string& text) {
  BEAMLINE_ASSIGN_OR_RETURN(Value list, ReadJsonField(field, text, Kind::kList));
  if (list.is(Kind::kNone)) return list;
  for (const Value& item : jinja::Items(list)) {
    if (!item.is(Kind::kDict))
      return NotJson(field, "a JSON list of objects", "not all are objects");
  }
  return list;
}

absl::Status CheckText(const std::string& field, std::string_view text) {
  const auto place = FindInvalidUtf8(text);
  if (!place.has_value()) return absl::OkStatus();
  return FieldError({.field = field,
                     .accepted = "UTF-8",
                     .text = fmt::format("{} is not valid UTF-8 at byte {}", field, *place)});
}

// A message as the template gets it. As in transformers, members that are null are left out, and
// the reasoning is available under every name that templates use for it.
absl::StatusOr<Value> MessageValue(const ChatMessage& message, const std::string& field) {
  Variables members;
  const auto add = [&](std::string name, Value value) -> absl::Status {
    const auto same = [&](const auto& one) { return one.first == name; };
    if (std::ranges::any_of(members, same)) {
      return NotJson(field + ".members_json", "names other than those of the message's fields",
                     fmt::format("the message has '{}' already", name));
    }
    members.emplace_back(std::move(name), std::move(value));
    return absl::OkStatus();
  };
  BEAMLINE_RETURN_IF_ERROR(CheckText(field + ".role", message.role));
  if (message.role.empty()) return FieldError(field + ".role", "empty", "at least 1 character");
  members.emplace_back("role", jinja::MakeString(message.role));
  if (message.content.has_value()) {
    BEAMLINE_RETURN_IF_ERROR(CheckText(field + ".content", *message.content));
    members.emplace_back("content", jinja::MakeString(*message.content));
  }
  BEAMLINE_ASSIGN_OR_RETURN(
      const auto more, ReadJsonField(field + ".members_json", message.members_json, Kind::kDict));
  if (!more.is(Kind::kNone)) {
    // Members are searched linearly, so their number is limited.
    constexpr size_t kMostMembers = 64;
    const auto& entries = more.as<jinja::DictObject>().entries;
    BEAMLINE_RETURN_IF_ERROR(CheckCount(field + ".members_json", entries.size(), kMostMembers));
    for (const auto& [name, value] : entries) {
      if (value.is(Kind::kNone)) continue;
      BEAMLINE_RETURN_IF_ERROR(add(jinja::Text(name), value));
    }
  }
  const auto find = [&](std::string_view name) {
    return std::ranges::find_if(members, [&](const auto& one) { return one.first == name; });
  };
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = find(name);
    if (found == members.end()) continue;
    const Value reasoning = found->second;
    if (find("thinking") == members.end()) members.emplace(members.begin(), "thinking", reasoning);
    const auto content = find("reasoning_content");
    if (content == members.end()) {
      members.emplace_back("reasoning_content", reasoning);
    } else {
      content->second = reasoning;
    }
    break;
  }
  return jinja::MakeDict(std::move(members));
}

absl::StatusOr<std::string> ReadTemplate(const CheckpointPath& path) {
  return ReadWholeFile(path, static_cast<int64_t>(jinja::Template::kMostBytes));
}

// Whether the text contains this word, not as part of a longer name.
bool HasName(std::string_view text, std::string_view name) {
  const auto is_of_name = [&](size_t at) {
    return at < text.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
  };
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    if ((at == 0 || !is_of_name(at - 1)) && !is_of_name(at + name.size())) return true;
  }
  return false;
}

}  // namespace

size_t ChatBytes(const Chat& chat) {
  size_t bytes =
      chat.tools_json.size() + chat.documents_json.size() + chat.template_options_json.size();
  for (const ChatMessage& message : chat.messages) {
    bytes += message.role.size() + message.members_json.size() + 16;
    if (message.content.has_value()) bytes += message.content->size();
  }
  return bytes;
}

void ChatTemplates::Add(const std::string& name, std::string source, std::string_view text) {
  templates_.insert_or_assign(
      name, Named{std::move(source), HasName(text, "tools"), HasName(text, "documents"),
                  jinja::Template::Parse(text)});
}

absl::StatusOr<ChatTemplates> ChatTemplates::Load(const CheckpointPath& folder) {
  ChatTemplates made;
  BEAMLINE_ASSIGN_OR_RETURN(const text::TokenizerConfig config, text::ReadTokenizerConfig(folder));
  for (const char* role : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token",
                           "cls_token", "mask_token"}) {
    std::string token = config.Role(role, "");
    if (!token.empty()) made.special_tokens_.emplace_back(role, std::move(token));
  }
  const auto file = ReadTemplate(folder / "chat_template.jinja");
  if (file.ok()) {
    made.Add(kDefaultName, "chat_template.jinja", *file);
  } else if (!absl::IsNotFound(file.status())) {
    return file.status();
  }
  std::vector<std::string> names;
  for (const std::string& file : (folder / "additional_chat_templates").List(kMostFiles)) {
    const std::filesystem::path name(file);
    if (name.extension() == ".jinja") names.push_back(name.stem().string());
    if (names.size() > kMostTemplates) {
      return absl::InvalidArgumentError(
          fmt::format("{}/additional_chat_templates: more than {} templates; accepted: at most {}",
                      folder.string(), kMostTemplates, kMostTemplates));
    }
  }
  for (const std::string& name : names) {
    const std::string path = fmt::format("additional_chat_templates/{}.jinja", name);
    BEAMLINE_ASSIGN_OR_RETURN(const std::string text, ReadTemplate(folder / path));
    made.Add(name, path, text);
  }
  if (!made.templates_.empty() || !config.json.contains("chat_template")) return made;
  const auto& value = config.json["chat_template"];
  const std::string source = "tokenizer_config.json";
  if (value.is_string()) {
    made.Add(kDefaultName, source, value.get_ref<const std::string&>());
  } else if (value.is_array()) {
    for (const auto& one : value) {
      const bool is_template = one.is_object() && one.contains("name") && one["name"].is_string() &&
                               one.contains("template") && one["template"].is_string();
      if (!is_template || made.templates_.size() == kMostTemplates) {
        return absl::InvalidArgumentError(fmt::format(
            "{}/{}: \"chat_template\" is a list that holds other than at most {} objects with "
            "\"name\" and \"template\"",
            folder.string(), source, kMostTemplates));
      }
      made.Add(one["name"].get<std::string>(), source,
               one["template"].get_ref<const std::string&>());
    }
  } else if (!value.is_null()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}/{}: \"chat_template\" is of type {}; a text or a list of templates is expected",
        folder.string(), source, value.type_name()));
  }
  return made;
}

std::vector<std::string> ChatTemplates::names() const {
  std::vector<std::string> names;
  for (const auto& [name, named] : templates_) {
    if (named.parsed.ok()) names.push_back(name);
  }
  return names;
}

absl::StatusOr<const ChatTemplates::Named*> ChatTemplates::Choose(const Chat& chat,
                                                                  std::string_view field) const {
  std::string name = chat.template_name;
  if (name.empty()) {
    name = !chat.tools_json.empty() && templates_.contains(kToolName) ? kToolName : kDefaultName;
  }
  const auto found = templates_.find(name);
  if (found == templates_.end()) {
    std::vector<std::string> known;
    for (const auto& [one, named] : templates_) known.push_back(one);
    const std::string value =
        chat.template_name.empty() ? "not given" : fmt::format("'{}'", Shorten(name));
    return FieldError(fmt::format("{}.template", field), value,
                      Shorten(fmt::format("{}", fmt::join(known, ", ")), 200));
  }
  if (!found->second.parsed.ok()) {
    return absl::FailedPreconditionError(fmt::format(
        "the chat template '{}' ({}) is not served: {}", Shorten(name),
        Shorten(found->second.source), std::string(found->second.parsed.status().message())));
  }
  return &found->second;
}

absl::Status ChatTemplates::CheckRead(const Chat& chat, std::string_view field) const {
  BEAMLINE_ASSIGN_OR_RETURN(const Named* named, Choose(chat, field));
  const auto check = [&](bool is_read, const std::string& json,
                         std::string_view name) -> absl::Status {
    if (is_read || json.empty()) return absl::OkStatus();
    const std::string path = fmt::format("{}.{}_json", field, name);
    BEAMLINE_ASSIGN_OR_RETURN(const Value list, ReadObjects(path, json));
    if (jinja::Items(list).empty()) return absl::OkStatus();
    return FieldError(
        path, fmt::format("a list of {}", jinja::Items(list).size()),
        fmt::format("none: the chat template ({}) does not read {}", Shorten(named->source), name));
  };
  BEAMLINE_RETURN_IF_ERROR(check(named->has_tools, chat.tools_json, "tools"));
  return check(named->has_documents, chat.documents_json, "documents");
}

absl::StatusOr<std::string> ChatTemplates::Render(const Chat& chat, std::string_view field) const {
  BEAMLINE_ASSIGN_OR_RETURN(const Named* named, Choose(chat, field));
  const auto path = [&](std::string_view member) { return fmt::format("{}.{}", field, member); };
  Variables variables;
  const auto set = [&](std::string name, Value value) {
    const auto found =
        std::ranges::find_if(variables, [&](const auto& one) { return one.first == name; });
    if (found != variables.end()) {
      found->second = std::move(value);
    } else {
      variables.emplace_back(std::move(name), std::move(value));
    }
  };
  for (const auto& [role, token] : special_tokens_) set(role, jinja::MakeString(token));
  std::vector<Value> messages;
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(messages.emplace_back(),
                              MessageValue(chat.messages[i], path(fmt::format("messages[{}]", i))));
  }
  BEAMLINE_ASSIGN_OR_RETURN(Value tools, ReadObjects(path("tools_json"), chat.tools_json));
  BEAMLINE_ASSIGN_OR_RETURN(Value documents,
                            ReadObjects(path("documents_json"), chat.documents_json));
  const std::string options_field = path("template_options_json");
  BEAMLINE_ASSIGN_OR_RETURN(const auto options,
                            ReadJsonField(options_field, chat.template_options_json, Kind::kDict));
  if (!options.is(Kind::kNone)) {
    constexpr size_t kMostOptions = 64;
    constexpr std::string_view kFields[] = {"messages", "tools", "documents",
                                            "add_generation_prompt"};
    const auto& entries = options.as<jinja::DictObject>().entries;
    BEAMLINE_RETURN_IF_ERROR(CheckCount(options_field, entries.size(), kMostOptions));
    for (const auto& [name, value] : entries) {
      if (std::ranges::find(kFields, jinja::Text(name)) != std::end(kFields)) {
        return NotJson(options_field, "names other than those of the chat's fields",
                       fmt::format("'{}' is a field of its own", jinja::Text(name)));
      }
      set(jinja::Text(name), value);
    }
  }
  set("messages", jinja::MakeList(std::move(messages)));
  set("tools", std::move(tools));
  set("documents", std::move(documents));
  set("add_generation_prompt", Value::Bool(chat.add_generation_prompt));
  auto text = named->parsed->Render(variables);
  // If rendering was stopped from outside, the template is not at fault.
  if (text.ok() || !absl::IsInvalidArgument(text.status())) return text;
  const std::string fault(text.status().message());
  const bool raised = text.status().GetPayload(jinja::kRaisedPayload).has_value();
  return FieldError({.field = std::string(field),
                     .text = raised ? fmt::format("{}: the chat template says: {}", field, fault)
                                    : fmt::format("{}: the chat template, {}", field, fault)});
}

}  // namespace beamline
