// Conversations by templates like those of the families, against apply_chat_template of
// transformers (tools/make_chat_fixtures.py), and the folders that they come from.
#include "engine/chat/chat_templates.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/field_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/scratch_path.h"

namespace beamline {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path kFixtures = BEAMLINE_SOURCE_DIR "/tests/engine/chat";
std::string rows_file = kFixtures / "conversations.jsonl";

void Write(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

// A folder of its own with these files.
class Folder {
 public:
  Folder() : path_(ScratchPath("chat_templates")) { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }
  void Add(const std::string& name, std::string_view text) const { Write(path_ / name, text); }

 private:
  const fs::path path_;
};

ChatTemplates Load(const Folder& folder) {
  auto templates = ChatTemplates::Load(folder.path());
  EXPECT_TRUE(templates.ok()) << templates.status();
  return *std::move(templates);
}

// A row's conversation, as a request has it.
Chat ToChat(const ordered_json& row) {
  Chat chat;
  for (const ordered_json& message : row["messages"]) {
    ChatMessage& made = chat.messages.emplace_back();
    ordered_json members = ordered_json::object();
    for (const auto& [name, value] : message.items()) {
      if (name == "role") {
        made.role = value.get<std::string>();
      } else if (name == "content" && value.is_string()) {
        made.content = value.get<std::string>();
      } else {
        members[name] = value;
      }
    }
    if (!members.empty()) made.members_json = members.dump();
  }
  ordered_json options = ordered_json::object();
  for (const auto& [name, value] : row["options"].items()) {
    if (name == "tools") {
      chat.tools_json = value.dump();
    } else if (name == "documents") {
      chat.documents_json = value.dump();
    } else if (name == "add_generation_prompt") {
      chat.add_generation_prompt = value.get<bool>();
    } else {
      options[name] = value;
    }
  }
  if (!options.empty()) chat.template_options_json = options.dump();
  return chat;
}

ChatTemplates LoadFamily(const std::string& name) {
  const Folder folder;
  folder.Add("tokenizer_config.json",
             R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "unk_token": "<unk>",
                 "pad_token": "<pad>"})");
  fs::copy_file(kFixtures / "templates" / (name + ".jinja"),
                fs::path(folder.path()) / "chat_template.jinja");
  return Load(folder);
}

TEST(ChatTemplatesTest, ConversationsAreThoseOfTransformers) {
  std::ifstream file(rows_file);
  std::string line;
  std::set<std::string> families;
  std::string family;
  ChatTemplates templates;
  int rendered = 0;
  int raised = 0;
  while (std::getline(file, line)) {
    const auto row = ordered_json::parse(line);
    if (const auto name = row["template"].get<std::string>(); name != family) {
      family = name;
      families.insert(name);
      templates = LoadFamily(name);
    }
    const auto text = templates.Render(ToChat(row), "prompt.chat");
    if (row.contains("text")) {
      ++rendered;
      ASSERT_TRUE(text.ok()) << line << "\n" << text.status();
      EXPECT_EQ(*text, row["text"].get<std::string>()) << line;
    } else if (row.contains("raised")) {
      ++raised;
      EXPECT_EQ(text.status().message(),
                "prompt.chat: the chat template says: " + row["raised"].get<std::string>());
    } else {
      EXPECT_FALSE(text.ok()) << line;
    }
  }
  EXPECT_EQ(families.size(), 25u);
  EXPECT_GE(rendered, 500);
  EXPECT_GE(raised, 40);
}

Chat Ask(std::string content = "Hi") {
  Chat chat;
  chat.messages.push_back({.role = "user", .content = std::move(content)});
  return chat;
}

TEST(ChatTemplatesTest, ComeFromTheTokenizersFile) {
  const Folder folder;
  EXPECT_TRUE(Load(folder).empty());
  folder.Add("tokenizer_config.json", R"({"chat_template": "[{{ messages[0].content }}]"})");
  EXPECT_EQ(*Load(folder).Render(Ask(), "chat"), "[Hi]");
  EXPECT_THAT(Load(folder).names(), ElementsAre("default"));
  folder.Add("tokenizer_config.json",
             R"({"chat_template": [{"name": "default", "template": "d"},
                                   {"name": "tool_use", "template": "t{{ tools|length }}"},
                                   {"name": "rag", "template": "r{{ documents[0].text }}"}]})");
  const ChatTemplates templates = Load(folder);
  EXPECT_THAT(templates.names(), ElementsAre("default", "rag", "tool_use"));
  Chat chat = Ask();
  EXPECT_EQ(*templates.Render(chat, "chat"), "d");
  chat.tools_json = "[{}, {}]";
  EXPECT_EQ(*templates.Render(chat, "chat"), "t2");
  chat.template_name = "rag";
  chat.documents_json = R"([{"text": "x"}])";
  EXPECT_EQ(*templates.Render(chat, "chat"), "rx");
  chat.template_name = "other";
  EXPECT_EQ(templates.Render(chat, "chat").status().message(),
            "chat.template is 'other'; accepted: default, rag, tool_use");
}

TEST(ChatTemplatesTest, FilesComeFirst) {
  const Folder folder;
  folder.Add("tokenizer_config.json", R"({"chat_template": "config"})");
  folder.Add("additional_chat_templates/tool_use.jinja", "tools");
  // As in transformers: without a default one there is none.
  EXPECT_EQ(Load(folder).Render(Ask(), "chat").status().message(),
            "chat.template is not given; accepted: tool_use");
  folder.Add("chat_template.jinja", "file");
  EXPECT_EQ(*Load(folder).Render(Ask(), "chat"), "file");
  EXPECT_THAT(Load(folder).names(), ElementsAre("default", "tool_use"));
}

TEST(ChatTemplatesTest, BrokenOnesStopNobodyElse) {
  const Folder folder;
  folder.Add("chat_template.jinja", "ok");
  folder.Add("additional_chat_templates/odd.jinja", "\n{{ x|odd_filter }}");
  const ChatTemplates templates = Load(folder);
  EXPECT_THAT(templates.names(), ElementsAre("default"));
  EXPECT_EQ(*templates.Render(Ask(), "chat"), "ok");
  Chat chat = Ask();
  chat.template_name = "odd";
  const absl::Status status = templates.Render(chat, "chat").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "the chat template 'odd' (additional_chat_templates/odd.jinja) is not served: line 2: "
            "there is no filter 'odd_filter'");
}

TEST(ChatTemplatesTest, FilesOfOtherShapesAreRefused) {
  const Folder folder;
  const auto fault = [&] {
    const auto templates = ChatTemplates::Load(folder.path());
    return templates.ok() ? "loaded" : std::string(templates.status().message());
  };
  folder.Add("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THAT(fault(), HasSubstr("\"chat_template\" is of type number"));
  folder.Add("tokenizer_config.json", R"({"chat_template": [{"name": "x"}]})");
  EXPECT_THAT(fault(), HasSubstr("objects with \"name\" and \"template\""));
  folder.Add("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_EQ(fault(), "loaded");
  fs::create_directories(fs::path(folder.path()) / "chat_template.jinja");
  EXPECT_THAT(fault(), HasSubstr("chat_template.jinja"));
}

TEST(ChatTemplatesTest, ToldOfToolsThatTheyDoNotRead) {
  const Folder folder;
  folder.Add("chat_template.jinja", "{% if builtin_tools %}{{ my_tools }}{% endif %}");
  folder.Add("additional_chat_templates/rag.jinja", "{% for d in documents %}{{ d }}{% endfor %}");
  folder.Add("additional_chat_templates/both.jinja", "{{ tools }}{{documents}}");
  const ChatTemplates templates = Load(folder);
  Chat chat = Ask();
  EXPECT_TRUE(templates.CheckRead(chat, "c").ok());
  chat.tools_json = chat.documents_json = "[]";
  EXPECT_TRUE(templates.CheckRead(chat, "c").ok());
  chat.tools_json = "[{}, {}]";
  const absl::Status status = templates.CheckRead(chat, "c");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "c.tools_json is a list of 2; accepted: none: the chat template (chat_template.jinja) "
            "does not read tools");
  chat.template_name = "rag";
  EXPECT_FALSE(templates.CheckRead(chat, "c").ok());
  chat.tools_json = "";
  chat.documents_json = "[{}]";
  EXPECT_TRUE(templates.CheckRead(chat, "c").ok());
  chat.template_name = "default";
  EXPECT_EQ(templates.CheckRead(chat, "c").message(),
            "c.documents_json is a list of 1; accepted: none: the chat template "
            "(chat_template.jinja) does not read documents");
  chat.tools_json = "[{}]";
  chat.template_name = "both";
  EXPECT_TRUE(templates.CheckRead(chat, "c").ok());
  chat.tools_json = "[1]";
  EXPECT_TRUE(templates.CheckRead(chat, "c").ok());  // for Render to tell
  chat.template_name = "default";
  EXPECT_FALSE(templates.CheckRead(chat, "c").ok());
}

TEST(ChatTemplatesTest, FieldsAreNamed) {
  const Folder folder;
  folder.Add("chat_template.jinja", "{{ messages[0].content }}{{ messages[0].k }}{{ v }}");
  const ChatTemplates templates = Load(folder);
  const auto fault = [&](const auto& change) {
    Chat chat = Ask();
    change(chat);
    const auto text = templates.Render(chat, "c");
    return text.ok() ? "rendered " + *text : std::string(text.status().message());
  };
  EXPECT_EQ(fault([](Chat&) {}), "rendered Hi");
  EXPECT_EQ(fault([](Chat& chat) { chat.messages[0].members_json = R"({"k": [1, null]})"; }),
            "rendered Hi[1, None]");
  EXPECT_EQ(fault([](Chat& chat) { chat.template_options_json = R"({"v": true})"; }),
            "rendered HiTrue");
  EXPECT_EQ(fault([](Chat& chat) { chat.messages[0].members_json = "[]"; }),
            "c.messages[0].members_json: found a JSON value of type list; accepted: a JSON object");
  EXPECT_EQ(fault([](Chat& chat) { chat.messages[0].members_json = R"({"role": "x"})"; }),
            "c.messages[0].members_json: the message has 'role' already; accepted: names other "
            "than those of the message's fields");
  EXPECT_EQ(fault([](Chat& chat) { chat.messages[0].members_json = "{"; }),
            "c.messages[0].members_json: not valid JSON at byte 2; accepted: a JSON object");
  EXPECT_EQ(fault([](Chat& chat) { chat.messages[0].role = ""; }),
            "c.messages[0].role is empty; accepted: at least 1 character");
  EXPECT_EQ(fault([](Chat& chat) { chat.messages[0].content = "a\xff"; }),
            "c.messages[0].content is not valid UTF-8 at byte 1; accepted: UTF-8");
  EXPECT_EQ(fault([](Chat& chat) { chat.tools_json = "{}"; }),
            "c.tools_json: found a JSON value of type dict; accepted: a JSON list");
  EXPECT_EQ(fault([](Chat& chat) { chat.tools_json = "[1]"; }),
            "c.tools_json: not all are objects; accepted: a JSON list of objects");
  EXPECT_EQ(fault([](Chat& chat) { chat.documents_json = "x"; }),
            "c.documents_json: not valid JSON at byte 1; accepted: a JSON list");
  EXPECT_EQ(fault([](Chat& chat) { chat.template_options_json = R"({"messages": 1})"; }),
            "c.template_options_json: 'messages' is a field of its own; accepted: names other than "
            "those of the chat's fields");
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) beamline::rows_file = argv[1];
  return RUN_ALL_TESTS();
}
