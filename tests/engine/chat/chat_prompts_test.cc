// Conversations as prompts of a whole engine: the ids are those of apply_chat_template of
// transformers (tools/make_chat_fixtures.py), and the answers those to these ids.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/api/engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/scratch_path.h"

namespace beamline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

const fs::path kRoot = BEAMLINE_SOURCE_DIR;
std::string rows_file = kRoot / "tests/engine/chat/prompt_ids.jsonl";

// Takes all the steps that there are.
constexpr char kEndless[] =
    "{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}";

// The demo model with a template, and as it is.
Engine& SharedEngine() {
  static const std::unique_ptr<Engine> engine = [] {
    const fs::path folder = ScratchPath("write-en");
    fs::create_directories(folder / "additional_chat_templates");
    for (const auto& file : fs::directory_iterator(kRoot / "models/write-en")) {
      fs::create_symlink(file.path(), folder / file.path().filename());
    }
    fs::copy_file(kRoot / "tests/engine/chat/templates/zephyr.jinja",
                  folder / "chat_template.jinja");
    std::ofstream(folder / "additional_chat_templates/strict.jinja")
        << "{% if messages|length > 1 %}{{ raise_exception('One message, please') }}{% endif %}"
           "{{ messages[0].content }}";
    std::ofstream(folder / "additional_chat_templates/broken.jinja") << "{% what %}";
    std::ofstream(folder / "additional_chat_templates/endless.jinja") << kEndless;
    EngineOptions options;
    options.num_threads = 2;
    for (const auto& [name, path] : {std::pair("chat", folder.string()),
                                     std::pair("plain", (kRoot / "models/write-en").string())}) {
      ModelOptions& model = options.models.emplace_back();
      model.name = name;
      model.folder = path;
      model.device = "cpu";
      model.cache_bytes = 16 << 20;
    }
    auto made = Engine::Create(options);
    if (!made.ok()) ADD_FAILURE() << made.status();
    return *std::move(made);
  }();
  return *engine;
}

GenerateRequest Ask(Prompt prompt, const std::string& model = "chat") {
  GenerateRequest request;
  request.model = model;
  request.prompt = std::move(prompt);
  request.decoding = GreedyOptions{};
  request.limits.max_new_tokens = 4;
  return request;
}

Chat ToChat(const json& row) {
  Chat chat;
  for (const json& message : row["messages"]) {
    chat.messages.push_back({.role = message["role"], .content = message["content"]});
  }
  chat.add_generation_prompt = row["options"]["add_generation_prompt"];
  return chat;
}

TEST(ChatPromptsTest, IdsAreThoseOfTransformers) {
  std::ifstream file(rows_file);
  std::string line;
  int rows = 0;
  while (std::getline(file, line)) {
    const json row = json::parse(line);
    const auto ids = row["ids"].get<TokenIds>();
    GenerateRequest request = Ask(ToChat(row));
    request.output.echo = true;
    const auto chat = SharedEngine().GenerateAndWait(request);
    ASSERT_TRUE(chat.ok()) << chat.status();
    const TokenIds& answer = chat->sequences[0].ids;
    ASSERT_GT(answer.size(), ids.size()) << line;
    EXPECT_EQ(TokenIds(answer.begin(), answer.begin() + static_cast<ptrdiff_t>(ids.size())), ids);
    EXPECT_EQ(chat->usage.prompt_tokens, static_cast<int32_t>(ids.size()));
    const auto by_ids = SharedEngine().GenerateAndWait(Ask(ids));
    ASSERT_TRUE(by_ids.ok()) << by_ids.status();
    EXPECT_EQ(by_ids->sequences[0].ids,
              TokenIds(answer.begin() + static_cast<ptrdiff_t>(ids.size()), answer.end()));
    ++rows;
  }
  EXPECT_EQ(rows, 20);
}

TEST(ChatPromptsTest, ScoresStandBehindAConversation) {
  std::ifstream file(rows_file);
  std::string line;
  std::getline(file, line);
  const json row = json::parse(line);
  ScoreRequest request;
  request.model = "chat";
  request.continuations = {Prompt(std::string(" text"))};
  request.prompt = ToChat(row);
  const auto chat = SharedEngine().ScoreAndWait(request);
  request.prompt = row["ids"].get<TokenIds>();
  const auto by_ids = SharedEngine().ScoreAndWait(request);
  ASSERT_TRUE(chat.ok() && by_ids.ok()) << chat.status() << by_ids.status();
  EXPECT_EQ(chat->scores[0].logprob, by_ids->scores[0].logprob);
}

TEST(ChatPromptsTest, RefusalsNameTheField) {
  const auto fault = [](GenerateRequest request) {
    const auto result = SharedEngine().GenerateAndWait(std::move(request));
    return result.ok() ? "generated" : std::string(result.status().message());
  };
  Chat chat;
  EXPECT_EQ(fault(Ask(chat)), "prompt.chat.messages is empty; accepted: 1 to 4096 messages");
  chat.messages.resize(4097);
  EXPECT_EQ(fault(Ask(chat)), "prompt.chat.messages has 4097 entries; accepted: at most 4096");
  chat.messages.resize(4096, {.role = "user"});
  EXPECT_THAT(fault(Ask(chat)), HasSubstr("prompt.chat.messages[0].role is empty"));
  chat.messages = {{.role = "user", .content = "Hi"}};
  EXPECT_EQ(fault(Ask(chat)), "generated");
  EXPECT_EQ(
      fault(Ask(chat, "plain")),
      "prompt.chat is set; accepted for models with a chat template, which 'plain' is without");
  chat.template_name = "strict";
  EXPECT_EQ(fault(Ask(chat)), "generated");
  chat.messages.push_back({.role = "user", .content = "Hi"});
  EXPECT_EQ(fault(Ask(chat)), "prompt.chat: the chat template says: One message, please");
  chat.messages.pop_back();
  chat.messages[0].content = std::string(200000, 'x');
  EXPECT_THAT(fault(Ask(chat)), HasSubstr("prompt has more than "));
  chat.template_name = "broken";
  EXPECT_THAT(fault(Ask(chat)), HasSubstr("the chat template 'broken' (additional_chat_templates/"
                                          "broken.jinja) is not served: line 1: unknown tag"));
  chat.template_name = "";
  chat.messages = {{.role = "user", .content = "Hi"}};
  GenerateRequest request = Ask(std::string("x"));
  request.shaping.bad_words = {Prompt(chat)};
  EXPECT_EQ(fault(std::move(request)),
            "shaping.bad_words[0].chat is set; accepted: text or ids here");
  ScoreRequest score;
  score.model = "chat";
  score.prompt = std::string("a");
  score.continuations = {Prompt(chat)};
  EXPECT_EQ(SharedEngine().ScoreAndWait(score).status().message(),
            "continuations[0].chat is set; accepted: text or ids here");
}

Chat Endless() {
  return {.messages = {{.role = "user", .content = "Hi"}}, .template_name = "endless"};
}

// Tells of its answer.
class StatusSink : public GenerateSink {
 public:
  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    promise_.set_value(result.status());
  }
  absl::Status Wait() { return promise_.get_future().get(); }

 private:
  std::promise<absl::Status> promise_;
};

// Left to itself the template fails when it has taken all steps; here none gets there.
TEST(ChatPromptsTest, DeadlinesAndCancellationEndARendering) {
  EXPECT_THAT(SharedEngine().GenerateAndWait(Ask(Endless())).status().ToString(),
              HasSubstr("prompt.chat: the chat template, line 1: the template takes more than"));
  GenerateRequest request = Ask(Endless());
  request.deadline = Clock::now() + std::chrono::milliseconds(20);
  EXPECT_EQ(SharedEngine().GenerateAndWait(request).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  const auto sink = std::make_shared<StatusSink>();
  const auto handle = SharedEngine().Generate(Ask(Endless()), sink);
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  (*handle)->Cancel();
  EXPECT_EQ(sink->Wait(), absl::CancelledError("cancelled by the client"));
}

// An engine with one thread for texts, and fifty conversations that each take all steps.
struct BusyEngine {
  BusyEngine() {
    const fs::path folder = ScratchPath("endless");
    fs::remove_all(folder);
    fs::copy(kRoot / "models/write-en", folder);
    std::ofstream(folder / "chat_template.jinja") << kEndless;
    EngineOptions options;
    options.num_threads = 1;
    options.num_tokenizer_threads = 1;
    options.models.push_back(
        {.name = "chat", .folder = folder.string(), .device = "cpu", .cache_bytes = 16 << 20});
    auto made = Engine::Create(options);
    EXPECT_TRUE(made.ok()) << made.status();
    engine = *std::move(made);
    Chat chat = Endless();
    chat.template_name.clear();
    for (int i = 0; i < 50; ++i) {
      sinks.push_back(std::make_shared<StatusSink>());
      EXPECT_TRUE(engine->Generate(Ask(chat), sinks.back()).ok());
    }
  }
  // A slow machine may have rendered some.
  void ExpectStopped(const absl::Status& why) const {
    int num_stopped = 0;
    for (const auto& sink : sinks) num_stopped += sink->Wait() == why ? 1 : 0;
    EXPECT_GE(num_stopped, 40);
  }

  std::unique_ptr<Engine> engine;
  std::vector<std::shared_ptr<StatusSink>> sinks;
};

TEST(ChatPromptsTest, TheEndOfTheEngineEndsRenderings) {
  BusyEngine busy;
  EXPECT_FALSE(busy.engine->Drain(std::chrono::milliseconds(1)));
  busy.engine.reset();
  busy.ExpectStopped(absl::CancelledError("the server is shutting down"));
}

TEST(ChatPromptsTest, TheEndOfTheModelEndsRenderings) {
  BusyEngine busy;
  EXPECT_TRUE(busy.engine->Unload("chat", 1, std::chrono::milliseconds(1)).ok());
  busy.ExpectStopped(
      absl::UnavailableError("model 'chat' was unloaded before the answer was complete"));
}

TEST(ChatPromptsTest, ModelsTellTheirTemplates) {
  EXPECT_THAT(SharedEngine().FindModel("chat")->chat_templates,
              testing::ElementsAre("default", "endless", "strict"));
  EXPECT_THAT(SharedEngine().FindModel("plain")->chat_templates, testing::IsEmpty());
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) beamline::rows_file = argv[1];
  return RUN_ALL_TESTS();
}
