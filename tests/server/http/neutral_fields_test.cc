// Fields that clients of OpenAI's API send and that change nothing here: which values are accepted,
// and what those are told that ask for more.
#include "server/http/neutral_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "server/http/openai_request.h"

namespace beamline::neutral_fields_test {
namespace {

std::string Chat(const std::string& fields) {
  return R"({"messages":[{"role":"user","content":"Hi"}],)" + fields + "}";
}

TEST(NeutralFields, AreAccepted) {
  const std::vector<std::string> of_all = {
      R"("store":false)",
      R"("store":null)",
      R"("metadata":{})",
      R"("metadata":{"team":"a"})",
      R"("service_tier":"auto")",
      R"("service_tier":"default")",
      R"("user":"u","safety_identifier":"s")",
      R"("prompt_cache_key":"k","prompt_cache_retention":"24h")",
  };
  const std::vector<std::string> of_chats = {
      R"("modalities":["text"])",
      R"("verbosity":"medium")",
      R"("prediction":{"type":"content","content":"c"})",
      R"("parallel_tool_calls":false)",
      R"("parallel_tool_calls":false,"tools":[])",
      R"("logprobs":false,"top_logprobs":0)",
      R"("max_tokens":5,"max_completion_tokens":5)",
      R"("stream":true,"stream_options":{"include_obfuscation":false})",
  };
  for (const std::string& fields : of_all) {
    EXPECT_EQ(ParseCompletion(R"({"prompt":"p",)" + fields + "}", 1).status().message(), "");
    EXPECT_EQ(ParseChatCompletion(Chat(fields)).status().message(), "");
  }
  for (const std::string& fields : of_chats) {
    EXPECT_EQ(ParseChatCompletion(Chat(fields)).status().message(), "") << fields;
  }
  EXPECT_TRUE(ParseEmbedding(R"({"input":"a","user":"u","safety_identifier":"s"})").ok());
}

TEST(NeutralFields, AreRefusedWhereTheyAskForMore) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {R"("store":true)", "store is true; accepted: false; this server keeps no answers"},
      {R"("metadata":"m")", "metadata is 'm'; accepted: an object of texts"},
      {R"("metadata":{"a":1})", "metadata['a'] is 1; accepted: a text"},
      {R"("service_tier":"priority")", "service_tier is 'priority'; accepted: auto, default"},
      {R"("safety_identifier":1)", "safety_identifier is 1; accepted: a text"},
      {R"("prompt_cache_retention":"1h")",
       "prompt_cache_retention is '1h'; accepted: in_memory, in-memory, 24h"},
      {R"("modalities":["text","audio"])", "modalities[1] is 'audio'; accepted: text"},
      {R"("modalities":"audio")", R"(modalities is 'audio'; accepted: ["text"])"},
      {R"("verbosity":"low")", "verbosity is 'low'; accepted: medium"},
      {R"("prediction":"p")", "prediction is 'p'; accepted: an object"},
      {R"("reasoning_effort":"extreme")",
       "reasoning_effort is 'extreme'; accepted: none, minimal, low, medium, high, xhigh"},
      {R"("reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"})",
       "reasoning_effort is 'low'; accepted: 'high', as in chat_template_kwargs"},
      {R"("parallel_tool_calls":false,"tools":[{}])",
       "parallel_tool_calls is false; accepted: true with tools"},
      {R"("top_logprobs":2)", "top_logprobs is 2; accepted: 0 unless logprobs is true"},
      {R"("max_tokens":5,"max_completion_tokens":7)",
       "max_completion_tokens is 7; accepted: 5, as max_tokens"},
      {R"("stream":true,"stream_options":{"include_obfuscation":true})",
       "stream_options.include_obfuscation is true; accepted: false"},
  };
  for (const auto& [fields, message] : faults) {
    const auto parsed = ParseChatCompletion(Chat(fields));
    EXPECT_EQ(parsed.status().message(), message);
    EXPECT_TRUE(GetFieldFault(parsed.status()).has_value()) << fields;
  }
}

// Templates that know of it read it; to others it is one option more that they do not read.
TEST(NeutralFields, GiveTheEffortToTheTemplate) {
  const auto options = [](const std::string& fields) {
    const auto parsed = ParseChatCompletion(Chat(fields));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? parsed->prompts[0].chat().template_options_json() : "";
  };
  EXPECT_EQ(options(R"("n":1)"), "");
  EXPECT_EQ(options(R"("reasoning_effort":"low")"), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(options(R"("reasoning_effort":"low","chat_template_kwargs":{})"),
            R"({"reasoning_effort":"low"})");
  EXPECT_EQ(options(R"("reasoning_effort":"low","chat_template_kwargs": {"a": [1]})"),
            R"({"reasoning_effort":"low","a": [1]})");
  EXPECT_EQ(
      options(R"("reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"low"})"),
      R"({"reasoning_effort":"low"})");
}

TEST(ChatLogprobs, BecomeOutputOfTheContract) {
  const auto output = [](const std::string& fields) {
    const auto parsed = ParseChatCompletion(Chat(fields));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? parsed->request.output() : v1::Output();
  };
  EXPECT_FALSE(output(R"("n":1)").has_logprobs());
  EXPECT_FALSE(output(R"("n":1)").return_token_ids());
  EXPECT_EQ(output(R"("logprobs":true)").logprobs(), 0);
  EXPECT_TRUE(output(R"("logprobs":true)").has_logprobs());
  EXPECT_EQ(output(R"("logprobs":true,"top_logprobs":5)").logprobs(), 5);
  const auto beyond =
      InOpenAiField(FieldError("output.logprobs", "21", "0 to 20"), {.is_chat = true});
  EXPECT_EQ(beyond.message(), "top_logprobs is 21; accepted: 0 to 20");
}

}  // namespace
}  // namespace beamline::neutral_fields_test
