// OpenAI's API of a real server with the demo models: its answers are those of gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/server/http/http_client.h"

namespace beamline::http_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(30)};

ServerProcess& HttpServer() {
  static ServerProcess server({"--http-listen", "127.0.0.1:0"});
  return server;
}

Client& GrpcClient() {
  static Client client({.address = HttpServer().address()});
  return client;
}

HttpReply Post(const std::string& path, const json& body,
               const std::vector<std::pair<std::string, std::string>>& headers = {}) {
  return HttpClient(HttpServer().http_port()).Post(path, body.dump(), headers);
}

json Complete(const json& body) {
  const HttpReply reply = Post("/v1/completions", body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.json();
}

v1::GenerateRequest Write(const std::string& prompt) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text(prompt);
  request.mutable_greedy();
  request.mutable_limits()->set_max_new_tokens(20);
  return request;
}

json WriteBody(const json& prompt) {
  return {{"model", "write-en"}, {"prompt", prompt}, {"temperature", 0}, {"max_tokens", 20}};
}

v1::GenerateResponse Grpc(const v1::GenerateRequest& request) {
  const auto response = GrpcClient().Generate(request, kSoon);
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? *response : v1::GenerateResponse();
}

TEST(Http, AnswersAsGrpcDoes) {
  const v1::GenerateResponse expected = Grpc(Write("Package: vim\n"));
  const json answer = Complete(WriteBody("Package: vim\n"));
  EXPECT_EQ(answer["choices"][0]["text"], expected.sequences(0).text());
  EXPECT_EQ(answer["usage"]["prompt_tokens"], expected.usage().prompt_tokens());
  EXPECT_EQ(answer["usage"]["completion_tokens"], expected.usage().generated_tokens());
  const bool is_length = expected.sequences(0).finish_reason() == v1::FINISH_REASON_LENGTH;
  EXPECT_EQ(answer["choices"][0]["finish_reason"], is_length ? "length" : "stop");
}

TEST(Http, TheDemoModelConverses) {
  json messages = {{{"role", "user"}, {"content", "What is the capital of France?"}}};
  for (const auto& [follow_up, expected] : std::vector<std::pair<std::string, std::string>>{
           {"And of Spain?", "The capital of France is Paris."},
           {"", "The capital of Spain is Madrid."}}) {
    const HttpReply reply =
        Post("/v1/chat/completions", {{"model", "chat-en"}, {"messages", messages}});
    ASSERT_EQ(reply.status, 200) << reply.body;
    const json choice = reply.json()["choices"][0];
    EXPECT_EQ(choice["message"]["content"], expected);
    EXPECT_EQ(choice["finish_reason"], "stop");
    messages.push_back(choice["message"]);
    messages.push_back({{"role", "user"}, {"content", follow_up}});
  }
}

TEST(Http, SamplesAsGrpcDoes) {
  v1::GenerateRequest request = Write("Package: ");
  request.mutable_sampling()->set_temperature(1.25f);
  request.mutable_sampling()->set_top_k(40);
  request.mutable_sampling()->set_seed(7);
  request.mutable_sampling()->set_num_sequences(3);
  request.mutable_shaping()->set_frequency_penalty(0.5f);
  request.mutable_limits()->add_stop("\n");
  json body = WriteBody("Package: ");
  body.update({{"temperature", 1.25},
               {"top_k", 40},
               {"seed", 7},
               {"n", 3},
               {"frequency_penalty", 0.5},
               {"stop", "\n"}});
  const v1::GenerateResponse expected = Grpc(request);
  const json choices = Complete(body)["choices"];
  ASSERT_EQ(choices.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(choices[static_cast<size_t>(i)]["text"], expected.sequences(i).text()) << i;
  }
}

TEST(Http, ChoicesAreNumberedAlikeInAStream) {
  json body = WriteBody("Package: ");
  body.update({{"temperature", 1.25}, {"seed", 3}, {"n", 6}});
  const json whole = Complete(body)["choices"];
  ASSERT_EQ(whole.size(), 6U);
  body["stream"] = true;
  std::vector<std::string> texts(6);
  const std::vector<std::string> events = EventsOf(Post("/v1/completions", body).body);
  ASSERT_EQ(events.back(), "[DONE]");
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const json event = json::parse(events[i]);
    for (const json& choice : event["choices"]) {
      texts[choice["index"].get<size_t>()] += choice["text"].get<std::string>();
    }
  }
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(whole[i]["index"], i);
    EXPECT_EQ(texts[i], whole[i]["text"]) << i;
  }
}

TEST(Http, SearchesAsGrpcDoes) {
  v1::GenerateRequest request;
  request.set_model("translate-en-de");
  request.mutable_prompt()->set_text("Open the file.");
  request.mutable_beam()->set_width(4);
  request.mutable_beam()->set_num_sequences(4);
  request.mutable_limits()->set_max_new_tokens(30);
  const v1::GenerateResponse expected = Grpc(request);
  const json body = {{"model", "translate-en-de"},
                     {"prompt", "Open the file."},
                     {"n", 4},
                     {"use_beam_search", true},
                     {"max_tokens", 30}};
  const json choices = Complete(body)["choices"];
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(choices[static_cast<size_t>(i)]["text"], expected.sequences(i).text()) << i;
  }
}

TEST(Http, PromptsOfAListAreAnsweredAsAlone) {
  const json list = Complete(WriteBody({"Package: vim\n", "Package: hello\n"}))["choices"];
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["text"], Grpc(Write("Package: vim\n")).sequences(0).text());
  EXPECT_EQ(list[1]["text"], Grpc(Write("Package: hello\n")).sequences(0).text());
  const auto tokens = GrpcClient().Tokenize(
      [] {
        v1::TokenizeRequest request;
        request.set_model("write-en");
        request.set_text("Package: vim\n");
        return request;
      }(),
      kSoon);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  json ids = json::array();
  for (const v1::Token& token : tokens->tokens()) ids.push_back(token.id());
  EXPECT_EQ(Complete(WriteBody(ids))["choices"][0]["text"], list[0]["text"]);
}

TEST(Http, StreamsWhatItAnswers) {
  json body = WriteBody("Package: vim\n");
  const json whole = Complete(body);
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const HttpReply reply = Post("/v1/completions", body);
  std::string text;
  json usage;
  json reason;
  const std::vector<std::string> events = EventsOf(reply.body);
  ASSERT_EQ(events.back(), "[DONE]");
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const json event = json::parse(events[i]);
    if (!event["usage"].is_null()) usage = event["usage"];
    for (const json& choice : event["choices"]) {
      text += choice["text"].get<std::string>();
      if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
    }
  }
  EXPECT_EQ(text, whole["choices"][0]["text"]);
  EXPECT_EQ(reason, whole["choices"][0]["finish_reason"]);
  EXPECT_EQ(usage["completion_tokens"], whole["usage"]["completion_tokens"]);
}

TEST(Http, LogprobsAreThoseOfGrpc) {
  v1::GenerateRequest request = Write("Package: vim\n");
  request.mutable_output()->set_logprobs(2);
  request.mutable_output()->set_prompt_logprobs(2);
  request.mutable_output()->set_echo(true);
  const v1::GenerateResponse expected = Grpc(request);
  json body = WriteBody("Package: vim\n");
  body.update({{"logprobs", 2}, {"echo", true}});
  const json choice = Complete(body)["choices"][0];
  const json logprobs = choice["logprobs"];
  const auto& sequence = expected.sequences(0);
  EXPECT_EQ(choice["text"], sequence.text());
  const size_t count = static_cast<size_t>(sequence.ids_size());
  ASSERT_EQ(logprobs["tokens"].size(), count);
  ASSERT_EQ(logprobs["token_logprobs"].size(), count);
  ASSERT_EQ(logprobs["top_logprobs"].size(), count);
  ASSERT_EQ(logprobs["text_offset"].size(), count);
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  std::vector<v1::PositionLogprobs> positions(expected.prompt_logprobs().begin(),
                                              expected.prompt_logprobs().end());
  positions.insert(positions.end(), sequence.logprobs().begin(), sequence.logprobs().end());
  ASSERT_EQ(positions.size() + 1, count);
  std::string text = logprobs["tokens"][0];
  for (size_t i = 1; i < count; ++i) {
    EXPECT_EQ(logprobs["token_logprobs"][i].get<float>(), positions[i - 1].chosen().logprob());
    EXPECT_GE(logprobs["top_logprobs"][i].size(), 1U);
    EXPECT_LE(logprobs["top_logprobs"][i].size(), 3U);
    EXPECT_EQ(logprobs["text_offset"][i], text.size());
    text += logprobs["tokens"][i];
  }
  // The end token stands among the tokens, and not in the text.
  EXPECT_EQ(text.substr(0, sequence.text().size()), sequence.text());
}

TEST(Http, EmbeddingsAreThoseOfGrpc) {
  v1::EncodeRequest request;
  request.set_model("embed-en");
  request.add_inputs()->set_text("a mail server");
  request.add_inputs()->set_text("an editor");
  request.set_dimensions(16);
  const auto expected = GrpcClient().Encode(request, kSoon);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const HttpReply reply =
      Post("/v1/embeddings",
           {{"model", "embed-en"}, {"input", {"a mail server", "an editor"}}, {"dimensions", 16}});
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json answer = reply.json();
  for (int i = 0; i < 2; ++i) {
    const auto vector =
        answer["data"][static_cast<size_t>(i)]["embedding"].get<std::vector<float>>();
    EXPECT_EQ(vector, std::vector<float>(expected->embeddings(i).values().begin(),
                                         expected->embeddings(i).values().end()));
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], expected->usage().prompt_tokens());
}

TEST(Http, ErrorsNameTheFieldsOfTheRequest) {
  const auto fault = [](json body, const std::string& field, const std::string& message) {
    const HttpReply reply = Post("/v1/completions", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(reply.error("param"), field) << reply.body;
    EXPECT_THAT(reply.error("message"), testing::HasSubstr(message)) << body;
  };
  const auto with = [](const json& more) {
    json body = WriteBody("p");
    body.update(more);
    return body;
  };
  fault(with({{"max_tokens", 0}}), "max_tokens", "max_tokens is 0; accepted: 1 to");
  fault(with({{"temperature", 2.5}}), "temperature", "temperature is 2.5; accepted: 0 to 2");
  fault(with({{"temperature", 1}, {"top_p", 0}}), "top_p", "top_p is 0");
  fault(with({{"logprobs", 21}}), "logprobs", "logprobs is 21; accepted: 0 to 20");
  fault(with({{"presence_penalty", 3}}), "presence_penalty", "presence_penalty is 3");
  fault(with({{"stop", json::array({"a", ""})}}), "stop[1]", "stop[1]");
  fault(with({{"prompt", {1, 999999}}}), "prompt[1]", "prompt[1] is 999999");
  fault(with({{"prompt", {"a", {999999}}}}), "prompt[1][0]", "prompt[1][0] is 999999");
  fault(with({{"prompt", std::string(60000, 'x')}}), "prompt", "tokens; accepted: at most");
  fault(with({{"logit_bias", {{"999999", 1}}}}), "logit_bias[999999]", "999999");
  fault({{"model", "translate-en-de"}, {"prompt", "p"}, {"echo", true}}, "echo", "echo");
}

TEST(Http, DeadlinesEndRequests) {
  json body = WriteBody("Package: ");
  body.update({{"max_tokens", 400}, {"ignore_eos", true}});
  const HttpReply reply = Post("/v1/completions", body, {{"x-request-timeout-ms", "5"}});
  EXPECT_TRUE(reply.status == 504 || reply.status == 429) << reply.body;
  EXPECT_EQ(Post("/v1/completions", WriteBody("p"), {{"x-request-timeout-ms", "30000"}}).status,
            200);
}

// Takes the port that http_listen has by itself; where another program has it already, it is taken.
class DefaultPort {
 public:
  DefaultPort() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    static_cast<void>(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)));
    static_cast<void>(listen(fd_, 1));
  }
  ~DefaultPort() { close(fd_); }
  DefaultPort(const DefaultPort&) = delete;
  DefaultPort& operator=(const DefaultPort&) = delete;

 private:
  static constexpr uint16_t kPort = 8000;
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

TEST(Http, ADefaultPortThatIsTakenIsAWarning) {
  const DefaultPort taken;
  ServerProcess server({"--http-listen", "auto"});
  EXPECT_EQ(server.http_address(), "") << server.start_line();
  Client client({.address = server.address()});
  EXPECT_TRUE(client.Generate(Write("p"), kSoon).ok());
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(
      server.process().err(),
      HasSubstr("HTTP is not answered: cannot listen on 127.0.0.1:8000: the address is in use; "
                "set http_listen to another address, or to off"));
}

TEST(Http, ASetPortThatIsTakenIsAnError) {
  const DefaultPort taken;
  ChildProcess process(
      BEAMLINE_SERVER_BINARY,
      {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "127.0.0.1:8000",
       "--device", "cpu", "--model", "e=" BEAMLINE_SOURCE_DIR "/models/embed-en"});
  EXPECT_EQ(process.Wait(), 1);
  EXPECT_EQ(process.out(), "");
  EXPECT_THAT(process.err(), HasSubstr("cannot listen on 127.0.0.1:8000: the address is in use"));
}

// Whether the port is free is not the test's to choose.
TEST(Http, IsAnsweredAtTheDefaultPortUnlessItIsTaken) {
  ServerProcess server({"--http-listen", "auto"});
  if (server.http_address().empty()) {
    server.process().Signal(SIGTERM);
    EXPECT_EQ(server.process().Wait(), 0);
    EXPECT_THAT(server.process().err(), HasSubstr("HTTP is not answered: "));
    return;
  }
  EXPECT_EQ(server.http_address(), "127.0.0.1:8000");
  EXPECT_EQ(HttpClient(server.http_port()).Get("/health").status, 200);
}

TEST(Http, DrainsAtItsEnd) {
  ServerProcess server({"--http-listen", "127.0.0.1:0"});
  HttpClient client(server.http_port());
  json body = WriteBody("Package: ");
  body.update({{"max_tokens", 400}, {"ignore_eos", true}, {"stream", true}});
  client.Send(HttpClient::Format("POST", "/v1/completions", body.dump()));
  const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  ASSERT_EQ(client.ReadHead(soon).status, 200);
  server.process().Signal(SIGTERM);
  std::string events;
  while (const auto chunk = client.ReadChunk(soon)) {
    if (chunk->empty()) break;
    events += *chunk;
  }
  EXPECT_EQ(EventsOf(events).back(), "[DONE]");
  EXPECT_EQ(server.process().Wait(), 0);
}

}  // namespace
}  // namespace beamline::http_test
