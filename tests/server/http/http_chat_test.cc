// Chat completions: the conversation that a body becomes, and the messages that come back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "tests/server/http/http_fixture.h"

namespace beamline::http_chat_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kPath[] = "/v1/chat/completions";

class HttpChatTest : public HttpTest {
 protected:
  HttpReply Complete(const std::string& body, absl::StatusOr<GenerateResult> result) {
    auto reply = std::async(std::launch::async, [&] { return Post(kPath, body); });
    last_ = engine_->WaitForRequest(num_answered_++);
    engine_->Finish(last_, std::move(result));
    return reply.get();
  }
  const Chat& chat() const { return std::get<Chat>(last_.request.prompt); }

  FakeRequest last_;
  size_t num_answered_ = 0;
};

TEST_F(HttpChatTest, AnswersWithAMessage) {
  ServeHttp();
  GenerateResult result = TextResult("Hello", FinishReason::kStop);
  result.usage = {.prompt_tokens = 3, .cached_tokens = 2, .generated_tokens = 5};
  const HttpReply reply = Complete(
      R"({"model":"writer","messages":[{"role":"user","content":"Hi"}],"temperature":0})", result);
  ASSERT_EQ(reply.status, 200) << reply.body;
  json answer = reply.json();
  EXPECT_THAT(answer["id"].get<std::string>(), testing::StartsWith("chatcmpl-"));
  answer.erase("id");
  answer.erase("created");
  EXPECT_EQ(answer, json::parse(R"({"object":"chat.completion","model":"writer","choices":[
      {"index":0,"message":{"role":"assistant","content":"Hello"},"logprobs":null,
       "finish_reason":"stop"}],
    "usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,
             "prompt_tokens_details":{"cached_tokens":2}}})"));
  // As much as fits, unless the request says otherwise.
  EXPECT_FALSE(last_.request.limits.max_new_tokens.has_value());
  ASSERT_EQ(chat().messages.size(), 1U);
  EXPECT_EQ(chat().messages[0].role, "user");
  EXPECT_EQ(chat().messages[0].content, "Hi");
  EXPECT_EQ(chat().messages[0].members_json, "");
  EXPECT_TRUE(chat().add_generation_prompt);
}

TEST_F(HttpChatTest, KeepsWhatTemplatesRead) {
  ServeHttp();
  const HttpReply reply = Complete(R"({
    "model": "writer", "max_completion_tokens": 7, "tool_choice": "auto",
    "messages": [
      {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"content": null, "role": "assistant", "tool_calls": [ {"id": "x", "type": "function",
        "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": \"\u00e9\"}"}},
        {"function": {"arguments": "no json", "name": "g"}} ]},
      {"role": "tool", "content": "42", "tool_call_id": "x", "name": "f"}],
    "tools": [{"z": 1, "a": {"y": [], "b": "]}"}}],
    "documents": [{"text": "d"}], "chat_template_kwargs": {"enable_thinking": false},
    "add_generation_prompt": false, "chat_template": "rag"})",
                                   TextResult("t"));
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(last_.request.limits.max_new_tokens, 7);
  ASSERT_EQ(chat().messages.size(), 3U);
  EXPECT_EQ(chat().messages[0].content, "a\nb");
  EXPECT_EQ(chat().messages[1].content, std::nullopt);
  EXPECT_EQ(chat().messages[1].members_json,
            R"({"tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":)"
            R"({"z": 1, "a": "é"}}},{"function":{"arguments":"no json","name":"g"}}]})");
  EXPECT_EQ(chat().messages[2].members_json, R"({"tool_call_id":"x","name":"f"})");
  EXPECT_EQ(chat().tools_json, R"([{"z": 1, "a": {"y": [], "b": "]}"}}])");
  EXPECT_EQ(chat().documents_json, R"([{"text": "d"}])");
  EXPECT_EQ(chat().template_options_json, R"({"enable_thinking": false})");
  EXPECT_FALSE(chat().add_generation_prompt);
  EXPECT_EQ(chat().template_name, "rag");
}

TEST_F(HttpChatTest, StreamsChunks) {
  ServeHttp();
  HttpClient client(port_);
  client.Send(HttpClient::Format("POST", kPath, R"({"model":"writer","stream":true,
    "stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Hi"}]})"));
  const FakeRequest request = engine_->WaitForRequest(0);
  request.sink->OnDelta({.sequence = 0, .text = "Hel"});
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  ASSERT_EQ(client.ReadHead(soon).status, 200);
  const json first = json::parse(EventsOf(*client.ReadChunk(soon))[0]);
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"], json::parse(R"({"role":"assistant","content":"Hel"})"));
  EXPECT_EQ(first["choices"][0]["finish_reason"], nullptr);
  request.sink->OnDelta({.sequence = 0, .text = "lo"});
  engine_->Finish(request, TextResult("Hello", FinishReason::kLength));
  std::vector<std::string> events;
  while (events.empty() || events.back() != "[DONE]") {
    for (const std::string& event : EventsOf(*client.ReadChunk(soon))) events.push_back(event);
  }
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(json::parse(events[0])["choices"][0]["delta"], json::parse(R"({"content":"lo"})"));
  const json last = json::parse(events[1])["choices"][0];
  EXPECT_EQ(last["delta"], json::object());
  EXPECT_EQ(last["finish_reason"], "length");
  EXPECT_EQ(json::parse(events[2])["usage"]["completion_tokens"], 1);
}

TEST_F(HttpChatTest, RefusesWhatItCannotDo) {
  ServeHttp();
  const auto refuse = [&](const std::string& member, const std::string& param) {
    const std::string messages = member.find("\"messages\"") == std::string::npos
                                     ? R"(,"messages":[{"role":"user","content":"Hi"}])"
                                     : "";
    const HttpReply reply = Post(kPath, R"({"model":"writer",)" + member + messages + "}");
    EXPECT_EQ(reply.status, 400) << member;
    EXPECT_EQ(reply.error("param"), param) << reply.body;
    return reply.error("message");
  };
  EXPECT_EQ(refuse(R"("messages":[])", "messages"),
            "messages is an empty list; accepted: a list of messages");
  EXPECT_EQ(refuse(R"("messages":null)", "messages"),
            "messages is not given; accepted: a list of messages");
  EXPECT_EQ(refuse(R"("messages":["Hi"])", "messages[0]"),
            "messages[0] is 'Hi'; accepted: an object");
  refuse(R"("messages":[{"content":"Hi"}])", "messages[0].role");
  refuse(R"("messages":[{"role":"user","content":5}])", "messages[0].content");
  EXPECT_EQ(refuse(R"("messages":[{"role":"user","content":[{"type":"image_url"}]}])",
                   "messages[0].content[0].type"),
            "messages[0].content[0].type is 'image_url'; accepted: text");
  refuse(R"("messages":[{"role":"user","tool_calls":5}])", "messages[0].tool_calls");
  refuse(R"("tools":{})", "tools");
  refuse(R"("tool_choice":"required")", "tool_choice");
  refuse(R"("response_format":{"type":"json_object"})", "response_format");
  refuse(R"("parallel_tool_calls":false,"tools":[{}])", "parallel_tool_calls");
  refuse(R"("logprobs":2)", "logprobs");
  refuse(R"("store":true)", "store");
  refuse(R"("prompt":"p")", "prompt");
  refuse(R"("best_of":2)", "best_of");
  refuse(R"("functions":[])", "functions");
}

TEST_F(HttpChatTest, ErrorsNameItsFields) {
  ServeHttp();
  const std::string body = R"({"model":"writer","messages":[{"role":"user","content":"Hi"}]})";
  const auto param = [&](const std::string& field) {
    const HttpReply reply = Complete(body, FieldError(field, "odd", "even"));
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(reply.error("message"), reply.error("param") + " is odd; accepted: even");
    return reply.error("param");
  };
  EXPECT_EQ(param("prompt"), "messages");
  EXPECT_EQ(param("prompt.chat"), "messages");
  EXPECT_EQ(param("prompt.chat.messages[2].content"), "messages[2].content");
  EXPECT_EQ(param("prompt.chat.messages[2].members_json"), "messages[2]");
  EXPECT_EQ(param("prompt.chat.tools_json"), "tools");
  EXPECT_EQ(param("prompt.chat.template_options_json"), "chat_template_kwargs");
  EXPECT_EQ(param("prompt.chat.template"), "chat_template");
  EXPECT_EQ(param("limits.max_new_tokens"), "max_tokens");
}

}  // namespace
}  // namespace beamline::http_chat_test
