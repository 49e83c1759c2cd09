#include "server/http/openai_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/field_error.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"

namespace beamline::openai_request_test {
namespace {

using google::protobuf::util::MessageDifferencer;

v1::GenerateRequest Message(const std::string& text) {
  v1::GenerateRequest message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

CompletionRequest Parsed(const std::string& body) {
  auto parsed = ParseCompletion(body, 8);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *std::move(parsed) : CompletionRequest();
}

void ExpectMessage(const std::string& fields, const std::string& expected) {
  const CompletionRequest parsed = Parsed(R"({"prompt":"p")" + fields + "}");
  ASSERT_EQ(parsed.prompts.size(), 1U);
  v1::GenerateRequest message = Message(expected);
  message.mutable_prompt()->set_text("p");
  if (!message.limits().has_max_new_tokens()) message.mutable_limits()->set_max_new_tokens(16);
  message.mutable_output()->set_echo(message.output().echo());
  if (!message.output().has_return_token_ids()) {
    message.mutable_output()->set_return_token_ids(false);
  }
  EXPECT_TRUE(MessageDifferencer::Equals(parsed.Message(0), message))
      << fields << "\nis " << parsed.Message(0).ShortDebugString() << "\nexpected "
      << message.ShortDebugString();
}

TEST(ParseCompletion, LeavesToTheModelWhatIsNotSaid) {
  ExpectMessage("", "");
  ExpectMessage(R"(,"n":1,"best_of":1,"suffix":null,"user":"u","stream":false)", "");
  ExpectMessage(R"(,"temperature":null,"logit_bias":null,"stop":null)", "");
}

TEST(ParseCompletion, SamplesWhereAFieldOfSamplingIsGiven) {
  ExpectMessage(R"(,"temperature":0.5)", "sampling { temperature: 0.5 }");
  ExpectMessage(R"(,"top_p":0.5,"top_k":7)", "sampling { top_p: 0.5 top_k: 7 }");
  ExpectMessage(R"(,"top_k":-1)", "sampling { top_k: 0 }");
  ExpectMessage(R"(,"min_p":0.25,"typical_p":0.5)", "sampling { min_p: 0.25 typical_p: 0.5 }");
  ExpectMessage(R"(,"seed":18446744073709551615)", "sampling { seed: 18446744073709551615 }");
  ExpectMessage(R"(,"n":3)", "sampling { num_sequences: 3 }");
}

TEST(ParseCompletion, IsGreedyAtTemperatureZero) {
  ExpectMessage(R"(,"temperature":0)", "greedy {}");
  ExpectMessage(R"(,"temperature":0.0,"top_p":1)", "greedy {}");
  const auto refused = ParseCompletion(R"({"prompt":"p","temperature":0,"n":2})", 8);
  EXPECT_EQ(refused.status().message(),
            "n is 2; accepted: 1 with temperature 0, of which all answers would be the same");
}

// What a request says of how to choose is checked, and is not passed over in silence.
TEST(ParseCompletion, RefusesWhatItWouldNotUse) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("temperature":0,"top_p":1.5)", "top_p is 1.5; accepted: above 0, at most 1"},
      {R"("temperature":0,"top_k":-7)", "top_k is -7; accepted: 0 to 2147483647"},
      {R"("temperature":0,"min_p":9)", "min_p is 9; accepted: 0 to 1"},
      {R"("temperature":-1,"use_beam_search":true)", "temperature is -1; accepted: 0 to 2"},
      {R"("temperature":1e39)", "temperature is 1e+39; accepted: a number of float32"},
      {R"("logit_bias":{"5":-1e39})", "logit_bias[5] is -1e+39; accepted: a number of float32"},
      {R"("length_penalty":50)", "length_penalty is 50; accepted: -10 to 10"},
      {R"("length_penalty":2)", "length_penalty is 2; accepted: 1 without use_beam_search"},
      {R"("use_beam_search":true,"temperature":0.5)",
       "temperature is 0.5; accepted: 0 or 1 with use_beam_search"},
      {R"("use_beam_search":true,"top_p":0.5)", "top_p is 0.5; accepted: 1 with use_beam_search"},
      {R"("use_beam_search":true,"top_k":7)", "top_k is 7; accepted: -1 or 0 with use_beam_search"},
  };
  for (const auto& [fields, message] : cases) {
    const auto refused = ParseCompletion(R"({"prompt":"p",)" + fields + "}", 8);
    EXPECT_EQ(refused.status().message(), message) << fields;
    EXPECT_TRUE(GetFieldFault(refused.status()).has_value()) << fields;
  }
  ExpectMessage(R"(,"temperature":0,"top_p":0.5,"length_penalty":1)", "greedy {}");
  ExpectMessage(R"(,"use_beam_search":true,"temperature":0,"top_p":1,"top_k":-1,"seed":3)",
                "beam { width: 1 num_sequences: 1 }");
}

TEST(ParseCompletion, SearchesWithBeamsOnRequest) {
  ExpectMessage(R"(,"use_beam_search":true,"n":4,"length_penalty":2)",
                "beam { width: 4 num_sequences: 4 length_penalty: 2 }");
}

TEST(ParseCompletion, ReadsLimitsShapingAndOutput) {
  ExpectMessage(R"(,"max_tokens":5,"min_tokens":2,"stop":"a","ignore_eos":true)",
                "limits { max_new_tokens: 5 min_new_tokens: 2 stop: 'a' ignore_eos: true }");
  ExpectMessage(R"(,"stop":["a","b"],"stop_token_ids":[1,2],"include_stop_str_in_output":true)",
                "limits { stop: 'a' stop: 'b' stop_token_ids: [1, 2] include_stop: true }");
  ExpectMessage(R"(,"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":2)",
                "shaping { presence_penalty: 1 frequency_penalty: -1 repetition_penalty: 2 }");
  ExpectMessage(R"(,"logit_bias":{"5":-100},"bad_words":["x"])",
                "shaping { logit_bias { key: 5 value: -100 } bad_words { text: 'x' } }");
  ExpectMessage(R"(,"logprobs":3)", "output { logprobs: 3 return_token_ids: true }");
  ExpectMessage(R"(,"logprobs":0,"echo":true)",
                "output { logprobs: 0 prompt_logprobs: 0 echo: true return_token_ids: true }");
  ExpectMessage(R"(,"skip_special_tokens":false,"cache_salt":"s","model":"m")",
                "model: 'm' cache_salt: 's' output { skip_special_tokens: false }");
  ExpectMessage(R"(,"source_language":"en_XX","target_language":"de_DE")",
                "source_language: 'en_XX' target_language: 'de_DE'");
}

TEST(ParseCompletion, ReadsStreamOptions) {
  EXPECT_TRUE(Parsed(R"({"prompt":"p","stream":true,"stream_options":{"include_usage":true}})")
                  .include_usage);
  EXPECT_FALSE(Parsed(R"({"prompt":"p","stream":true,"stream_options":{}})").include_usage);
}

TEST(ParseCompletion, TakesTextsAndIdsAndListsOfThem) {
  EXPECT_FALSE(Parsed(R"({"prompt":[1,2]})").names.is_list);
  EXPECT_EQ(Parsed(R"({"prompt":[1,2]})").prompts[0].ids().ids(1), 2);
  const CompletionRequest texts = Parsed(R"({"prompt":["a","b"],"max_tokens":3})");
  ASSERT_EQ(texts.prompts.size(), 2U);
  EXPECT_TRUE(texts.names.is_list);
  EXPECT_EQ(texts.prompts[1].text(), "b");
  EXPECT_EQ(texts.Message(1).limits().max_new_tokens(), 3);
  const CompletionRequest lists = Parsed(R"({"prompt":[[1],[2,3]]})");
  EXPECT_EQ(lists.prompts[1].ids().ids(1), 3);
}

struct Fault {
  std::string body;
  std::string field;
  std::string message;
};

TEST(ParseCompletion, NamesTheFault) {
  const std::vector<Fault> faults = {
      {"", "", "the body: not valid JSON at byte 1"},
      {"[]", "", "the body: a JSON object is expected, found array"},
      {R"({"prompt":"a","prompt":"b"})", "",
       "the body: the name \"prompt\" appears twice in one object"},
      {"{\"prompt\":\"\xff\"}", "", "the body: not valid JSON at byte 12"},
      {R"({})", "prompt",
       "prompt is not given; accepted: a text, a list of texts, a list of token ids, a list of "
       "lists of token ids"},
      {R"({"prompt":[]})", "prompt",
       "prompt is an empty list; accepted: a text, a list of texts, a list of token ids, a list of "
       "lists of token ids"},
      {R"({"prompt":["a",{}]})", "prompt[1]",
       "prompt[1] is an object; accepted: a text, a list of token ids"},
      {R"({"prompt":["a",["b"]]})", "prompt[1][0]", "prompt[1][0] is 'b'; accepted: a token id"},
      {R"({"prompt":[1.5]})", "prompt[0]", "prompt[0] is 1.5; accepted: a token id"},
      {R"({"prompt":[1,"b"]})", "prompt[1]", "prompt[1] is 'b'; accepted: a token id"},
      {R"({"prompt":[-1]})", "prompt[0]", "prompt[0] is -1; accepted: a token id"},
      {R"({"prompt":["a","a","a","a","a","a","a","a","a"]})", "prompt",
       "prompt has 9 entries; accepted: at most 8"},
      {R"({"prompt":"p","temperature":"hot"})", "temperature",
       "temperature is 'hot'; accepted: a number"},
      {R"({"prompt":"p","max_tokens":1.5})", "max_tokens",
       "max_tokens is 1.5; accepted: a whole number of at most 31 bits"},
      {R"({"prompt":"p","max_tokens":3000000000})", "max_tokens",
       "max_tokens is 3000000000; accepted: a whole number of at most 31 bits"},
      {R"({"prompt":"p","n":0})", "n", "n is 0; accepted: 1 to 64"},
      {R"({"prompt":"p","n":65})", "n", "n is 65; accepted: 1 to 64"},
      {R"({"prompt":"p","seed":-1})", "seed",
       "seed is -1; accepted: a whole number from 0 to 18446744073709551615"},
      {R"({"prompt":"p","stream":1})", "stream", "stream is 1; accepted: true, false"},
      {R"({"prompt":"p","stop":[1]})", "stop[0]", "stop[0] is 1; accepted: a text"},
      {R"({"prompt":"p","stop":{}})", "stop",
       "stop is an object; accepted: a text, a list of texts"},
      {R"({"prompt":"p","logit_bias":{"a":1}})", "logit_bias",
       "logit_bias has the name 'a'; accepted: token ids as names"},
      {R"({"prompt":"p","logit_bias":{"1":"b"}})", "logit_bias[1]",
       "logit_bias[1] is 'b'; accepted: a number"},
      {R"({"prompt":"p","best_of":2})", "best_of", "best_of is 2; accepted: 1, as n"},
      {R"({"prompt":"p","suffix":"s"})", "suffix", "suffix is 's'; accepted: null"},
      {R"({"prompt":"p","stream_options":{}})", "stream_options",
       "stream_options is an object; accepted: null unless stream is true"},
      {R"({"prompt":"p","stream":true,"stream_options":{"x":1}})", "stream_options.x",
       "stream_options.x is no field that this server knows"},
      {R"({"prompt":"p","stream":true,"echo":true,"logprobs":1})", "echo",
       "echo is true; accepted: false in a stream with logprobs"},
      {R"({"prompt":"p","guided_json":{}})", "guided_json",
       "guided_json is no field that this server knows"},
  };
  for (const Fault& fault : faults) {
    const auto parsed = ParseCompletion(fault.body, 8);
    ASSERT_FALSE(parsed.ok()) << fault.body;
    EXPECT_EQ(parsed.status().message(), fault.message);
    const auto known = GetFieldFault(parsed.status());
    ASSERT_TRUE(known.has_value()) << fault.body;
    EXPECT_EQ(known->field, fault.field);
  }
}

TEST(ParseCompletion, IsBoundedInDepth) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_EQ(ParseCompletion(R"({"prompt":)" + deep + "}", 8).status().message(),
            "the body: nested deeper than 64 levels");
}

// An empty text of three bytes takes dozens in memory; ids take no more than the body.
TEST(ParseCompletion, IsBoundedInParts) {
  const auto list = [](size_t count, const std::string& one) {
    std::string text = "[" + one;
    for (size_t i = 1; i < count; ++i) text += "," + one;
    return text + "]";
  };
  constexpr char kMore[] = "the body: more than 65536 texts, lists, objects and names";
  for (const char* one : {R"("")", "[]", "{}"}) {
    const auto parsed = ParseCompletion(R"({"prompt":"p","stop":)" + list(70000, one) + "}", 8);
    EXPECT_EQ(parsed.status().message(), kMore);
  }
  std::string names = "{";
  for (int i = 0; i < 70000; ++i) names += "\"" + std::to_string(i) + "\":0,";
  names.back() = '}';
  EXPECT_EQ(ParseCompletion(names, 8).status().message(), kMore);
  EXPECT_TRUE(ParseCompletion(R"({"prompt":)" + list(70000, "1") + "}", 8).ok());
}

TEST(ParseEmbedding, ReadsInputsAndFormat) {
  const auto one = ParseEmbedding(R"({"model":"m","input":"a","encoding_format":"base64"})");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(one->base64);
  EXPECT_FALSE(one->names.is_list);
  EXPECT_EQ(one->request.model(), "m");
  const auto many = ParseEmbedding(R"({"input":[[1,2],[3]],"dimensions":4,"user":"u"})");
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(many->request.inputs_size(), 2);
  EXPECT_EQ(many->request.dimensions(), 4);
  EXPECT_EQ(ParseEmbedding(R"({"input":"a","encoding_format":"hex"})").status().message(),
            "encoding_format is 'hex'; accepted: float, base64");
  EXPECT_NE(one->request.truncate(), v1::TRUNCATION_RIGHT);
  const auto cut = ParseEmbedding(R"({"input":"a","truncate_prompt_tokens":-1})");
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->request.truncate(), v1::TRUNCATION_RIGHT);
  EXPECT_EQ(ParseEmbedding(R"({"input":"a","truncate_prompt_tokens":9})").status().message(),
            "truncate_prompt_tokens is 9; accepted: -1, which cuts to what fits");
  EXPECT_EQ(ParseEmbedding(R"({"inputs":"a"})").status().message(),
            "input is not given; accepted: a text, a list of texts, a list of token ids, a list "
            "of lists of token ids");
}

TEST(InOpenAiField, SaysTheNameThatTheConversationHas) {
  constexpr char kStart[] = R"({"messages":[{"role":"user","content":"c"}],)";
  for (const std::string name : {"max_tokens", "max_completion_tokens"}) {
    const auto parsed = ParseChatCompletion(kStart + ("\"" + name + "\":0}"));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const auto status =
        InOpenAiField(FieldError("limits.max_new_tokens", "0", "1 to 8"), parsed->names);
    EXPECT_EQ(status.message(), name + " is 0; accepted: 1 to 8");
  }
}

TEST(InOpenAiField, SaysTheFieldOfTheRequest) {
  const auto name = [](const std::string& field, bool is_list, size_t prompt) {
    const auto status =
        InOpenAiField(FieldError(field, "0", "1 to 2"), {.is_list = is_list}, prompt);
    return std::string(status.message());
  };
  EXPECT_EQ(name("limits.max_new_tokens", false, 0), "max_tokens is 0; accepted: 1 to 2");
  EXPECT_EQ(name("decoding.sampling.num_sequences", false, 0), "n is 0; accepted: 1 to 2");
  EXPECT_EQ(name("decoding.sampling.top_p", false, 0), "top_p is 0; accepted: 1 to 2");
  EXPECT_EQ(name("limits.stop[2]", false, 0), "stop[2] is 0; accepted: 1 to 2");
  EXPECT_EQ(name("prompt.ids[5]", false, 0), "prompt[5] is 0; accepted: 1 to 2");
  EXPECT_EQ(name("prompt.ids[5]", true, 7), "prompt[7][5] is 0; accepted: 1 to 2");
  EXPECT_EQ(name("prompt", true, 7), "prompt[7] is 0; accepted: 1 to 2");
  EXPECT_EQ(name("inputs[3].ids[1]", true, 0), "input[3][1] is 0; accepted: 1 to 2");
  EXPECT_EQ(name("inputs[0]", false, 0), "input is 0; accepted: 1 to 2");
  const auto text = InOpenAiField(
      FieldError({.field = "limits.stop", .value = "17", .text = "limits.stop has 17 entries"}),
      {});
  EXPECT_EQ(text.message(), "stop has 17 entries");
  const auto entry = InOpenAiField(FieldError({.field = "shaping.logit_bias[-1]",
                                               .value = "-1",
                                               .accepted = "0 to 9",
                                               .text = "shaping.logit_bias has the id -1"}),
                                   {});
  EXPECT_EQ(entry.message(), "logit_bias has the id -1; accepted: 0 to 9");
  const auto long_input = InOpenAiField(FieldError({.field = "inputs[0]",
                                                    .value = "9",
                                                    .accepted = "at most 8; set truncate to cut it",
                                                    .text = "inputs[0] has 9 tokens"}),
                                        {});
  EXPECT_EQ(long_input.message(), "input has 9 tokens; accepted: at most 8");
  EXPECT_EQ(InOpenAiField(absl::UnavailableError("u"), {.is_list = true}).message(), "u");
}

}  // namespace
}  // namespace beamline::openai_request_test
