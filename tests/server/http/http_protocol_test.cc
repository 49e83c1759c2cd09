// HTTP/1.1 itself: bodies, limits, times, connections, and clients that keep no rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/sanitized.h"
#include "tests/server/http/http_fixture.h"
#include "tests/test_seed.h"

namespace beamline::http_protocol_test {
namespace {

using testing::HasSubstr;

constexpr char kEmbed[] = R"({"input":"a"})";
constexpr char kHead[] =
    "POST /v1/embeddings HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n";

class HttpProtocolTest : public HttpTest {
 protected:
  static ServerConfig Hurried() {
    ServerConfig config;
    config.handshake_timeout_ms = 300;
    return config;
  }
};

TEST_F(HttpProtocolTest, KeepsConnectionsAndAnswersInOrder) {
  ServeHttp();
  HttpClient client(port_);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.Post("/v1/embeddings", kEmbed).status, 200);
  std::string many;
  for (int i = 0; i < 20; ++i) {
    many += i % 2 == 0 ? HttpClient::Format("POST", "/v1/embeddings", kEmbed)
                       : "\r\n" + HttpClient::Format("GET", "/nothing");
  }
  client.Send(many);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.Read().status, i % 2 == 0 ? 200 : 404) << i;
  client.Send(HttpClient::Format("GET", "/health", "", {{"Connection", "close"}}));
  const HttpReply last = client.Read();
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.headers.at("connection"), "close");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpProtocolTest, ReadsBodiesInPiecesAndChunks) {
  ServeHttp();
  HttpClient client(port_);
  for (const char c : HttpClient::Format("POST", "/v1/embeddings", kEmbed)) {
    client.Send(std::string(1, c));
  }
  EXPECT_EQ(client.Read().status, 200);
  client.Send(std::string(kHead) +
              "Transfer-Encoding: chunked\r\n\r\n4;a=b\r\n{\"in\r\n9\r\nput\":\"a\"}\r\n"
              "0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(client.Read().status, 200);
  client.Send(std::string(kHead) + "Content-Length: 13\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Read().status, 100);
  client.Send(kEmbed);
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpProtocolTest, AnswersHttp10) {
  ServeHttp();
  HttpClient client(port_);
  client.Send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_TRUE(client.IsClosed());
  HttpClient stream(port_);
  stream.Send("POST /v1/completions HTTP/1.0\r\nContent-Length: " +
              std::to_string(std::string(kStream).size()) + "\r\n\r\n" + kStream);
  const FakeRequest request = engine_->WaitForRequest(0);
  request.sink->OnDelta({.sequence = 0, .text = "t"});
  engine_->Finish(request, TextResult("t"));
  const HttpReply reply = stream.Read();
  EXPECT_FALSE(reply.headers.contains("transfer-encoding"));
  EXPECT_EQ(EventsOf(reply.body).back(), "[DONE]");
}

TEST_F(HttpProtocolTest, RefusesWhatIsTooLarge) {
  ServerConfig config;
  config.max_receive_bytes = 100000;
  ServeHttp(config);
  const std::string large(100001, 'x');
  HttpReply reply = Post("/v1/embeddings", large);
  EXPECT_EQ(reply.status, 413);
  EXPECT_THAT(reply.error("message"), HasSubstr("100000"));
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_EQ(Post("/v1/embeddings", std::string(100000, 'x')).status, 400) << "is read";
  HttpClient chunks(port_);
  chunks.Send(std::string(kHead) + "Transfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 11; ++i) chunks.Send("2710\r\n" + std::string(10000, ' ') + "\r\n");
  EXPECT_EQ(chunks.Read().status, 413);
  // Refused before it is sent.
  HttpClient asking(port_);
  asking.Send(std::string(kHead) + "Content-Length: 100001\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(asking.Read().status, 413);
  EXPECT_EQ(Get("/health", {{"Large", std::string(20000, 'h')}}).status, 431);
  EXPECT_EQ(Get("/" + std::string(20000, 'p')).status, 431);
  HttpClient line(port_);
  line.Send(std::string(kHead) + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(100000, 'e'));
  EXPECT_EQ(line.Read().status, 400);
}

TEST_F(HttpProtocolTest, RefusesWhatIsNotHttp) {
  ServeHttp();
  const std::vector<std::pair<std::string, int>> requests = {
      {"nonsense\r\n\r\n", 400},
      {"GET /health\r\n\r\n", 400},
      {"GET  /health HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /health HTTP/2.0\r\nHost: h\r\n\r\n", 400},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost h\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHo\tst: h\r\n\r\n", 400},
      {"GET /health HTTP/1.1\nHost: h\n\n", 400},
      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
      {std::string(kHead) + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400},
      {std::string(kHead) + "Content-Length: -1\r\n\r\n", 400},
      {"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {std::string(kHead) + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 400},
      {std::string(kHead) + "X-Client-Id: a\r\nx-client-id: b\r\nContent-Length: 2\r\n\r\n{}", 400},
      {std::string(kHead) +
           "Authorization: Bearer a\r\nAuthorization: Bearer b\r\nContent-Length: 2\r\n\r\n{}",
       400},
      {std::string(kHead) + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST /v1/embeddings HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {std::string(kHead) + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {std::string(kHead) + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400},
      {std::string(kHead) + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {std::string(kHead) + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {std::string(kHead) + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {std::string(kHead) + "Content-Length: 2\r\nExpect: wonders\r\n\r\n", 417},
      {"FOO /health HTTP/1.1\r\nHost: h\r\n\r\n", 405},
      {"CONNECT there:80 HTTP/1.1\r\nHost: h\r\n\r\n", 404},
      {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 404},
  };
  for (const auto& [request, status] : requests) {
    HttpClient client(port_);
    client.Send(request);
    const HttpReply reply = client.Read();
    EXPECT_EQ(reply.status, status) << request << "\n" << reply.body;
    EXPECT_NE(reply.error("message"), "no error") << request;
    const bool ends = status == 400 || status == 501 || status == 417;
    EXPECT_TRUE(!ends || client.IsClosed()) << request;
  }
  EXPECT_EQ(Get("/health").status, 200);
}

TEST_F(HttpProtocolTest, SlowRequestsEnd) {
  ServeHttp(Hurried());
  HttpClient silent(port_);
  HttpClient slow(port_);
  slow.Send("GET /health HTTP/1.1\r\n");
  HttpClient drips(port_);
  bool dripping = true;
  for (int i = 0; i < 250 && dripping; ++i) {
    dripping = drips.Send(i == 0 ? "GET /health HTTP/1.1\r\n" : "a: b\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(dripping);
  EXPECT_EQ(slow.Read().status, 408);
  EXPECT_TRUE(slow.IsClosed());
  EXPECT_TRUE(silent.IsClosed());
  // A connection that has been used may rest longer.
  HttpClient used(port_);
  EXPECT_EQ(used.Get("/health").status, 200);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_EQ(used.Get("/health").status, 200);
}

TEST_F(HttpProtocolTest, IdleConnectionsEnd) {
  ServerConfig config;
  config.max_connection_idle_ms = 200;
  ServeHttp(config);
  HttpClient client(port_);
  EXPECT_EQ(client.Get("/health").status, 200);
  EXPECT_TRUE(client.IsClosed(std::chrono::seconds(10)));
}

TEST_F(HttpProtocolTest, OldConnectionsEndWithAnAnswer) {
  ServerConfig config;
  config.max_connection_age_ms = 100;
  ServeHttp(config);
  HttpClient client(port_);
  EXPECT_EQ(client.Get("/health").status, 200);  // a connection begins with its first byte
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  const HttpReply reply = client.Get("/health");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("connection"), "close");
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpProtocolTest, ConnectionsOfOneAddressAreLimited) {
  ServerConfig config;
  config.max_connections_per_peer = 3;
  ServeHttp(config);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (size_t i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port_));
    clients.back()->Send(HttpClient::Format("POST", "/v1/completions", kPrompt));
    engine_->WaitForRequest(i);
  }
  EXPECT_TRUE(HttpClient(port_).IsClosed());
  EXPECT_EQ(metrics_->http().connections.refused[static_cast<size_t>(Refusal::kPeerLimit)], 1U);
  for (size_t i = 0; i < 3; ++i) {
    engine_->Finish(engine_->WaitForRequest(i), TextResult("t"));
    EXPECT_EQ(clients[i]->Read().status, 200);
  }
  // They owe nothing any more: the one that came first makes room.
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_TRUE(clients[0]->IsClosed());
  EXPECT_EQ(metrics_->http().connections.refused[static_cast<size_t>(Refusal::kDisplaced)], 1U);
  clients.clear();
  EXPECT_TRUE(ConnectionsBecome(0));
  EXPECT_EQ(Get("/health").status, 200);
}

TEST_F(HttpProtocolTest, PipelinedRequestsAreBounded) {
  ServeHttp();
  HttpClient client(port_);
  client.Send(HttpClient::Format("POST", "/v1/completions", kPrompt));
  const FakeRequest request = engine_->WaitForRequest(0);
  const std::string next = HttpClient::Format("GET", "/health");
  // What a connection keeps is far less than this.
  constexpr int kMany = 20000;
  std::thread sender([&] {
    for (int i = 0; i < kMany; ++i) client.Send(next);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  engine_->Finish(request, TextResult("t"));
  int answered = 0;
  while (answered <= kMany && client.Read().status == 200) ++answered;
  sender.join();
  EXPECT_EQ(answered, kMany + 1);
}

TEST_F(HttpProtocolTest, HeadersCannotBeFeigned) {
  ServeHttp();
  const std::vector<std::string> unusable = {"a b", "\xc3\xbc", std::string(300, 'a'), ""};
  for (const std::string& id : unusable) {
    const HttpReply reply = Get("/health", {{"x-request-id", id}});
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.headers.at("x-request-id").size(), 32U) << id;
  }
}

class HttpMutator {
 public:
  size_t Below(size_t end) { return static_cast<size_t>(random_() % end); }
  std::string Mutate(std::string bytes, const std::vector<std::string>& seeds) {
    for (size_t edits = Below(6); edits > 0; --edits) Edit(bytes, seeds);
    return bytes.empty() ? " " : bytes;
  }

 private:
  void Edit(std::string& bytes, const std::vector<std::string>& seeds) {
    const size_t at = Below(bytes.size() + 1);
    switch (Below(5)) {
      case 0:
        bytes.insert(at, words_[Below(words_.size())]);
        break;
      case 1:
        bytes.erase(at, Below(10));
        break;
      case 2:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random_());
        break;
      case 3:
        bytes.insert(at, bytes.substr(Below(bytes.size() + 1), Below(60)));
        break;
      default:
        bytes += seeds[Below(seeds.size())];
    }
  }

  std::mt19937_64 random_{TestSeed()};
  const std::vector<std::string> words_ = {"\r\n",
                                           "\r\n\r\n",
                                           std::string(1, '\0'),
                                           ":",
                                           " ",
                                           "0\r\n",
                                           "{",
                                           "[",
                                           "chunked",
                                           "HTTP/1.1",
                                           "\xff",
                                           "Content-Length: 5\r\n",
                                           "Transfer-Encoding: chunked\r\n",
                                           "99999999",
                                           "%",
                                           "\t"};
};

// Requests that are torn, repeated, mixed and filled with random bytes: each gets an answer or an
// end, nothing of them stays, and others are answered as ever.
TEST_F(HttpProtocolTest, SurvivesMutatedRequests) {
  ServerConfig config;
  config.handshake_timeout_ms = 2000;
  config.max_receive_bytes = 4096;
  ServeHttp(config);
  engine_->Refuse(absl::UnavailableError("nobody generates"));
  const std::string reference = Post("/v1/embeddings", kEmbed).body;
  const std::vector<std::string> seeds = {
      HttpClient::Format("POST", "/v1/embeddings", kEmbed),
      HttpClient::Format("GET", "/v1/models"),
      std::string(kHead) +
          "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"inp\r\n8\r\nut\":\"a\"}\r\n"
          "0\r\n\r\n",
      std::string(kHead) + "Content-Length: 13\r\nExpect: 100-continue\r\n\r\n" + kEmbed,
      HttpClient::Format("POST", "/v1/completions",
                         R"({"prompt":["a",[1]],"model":"nobody","logit_bias":{"1":2}})"),
      "HEAD /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
  };
  HttpMutator mutator;
  constexpr int kRounds = kSanitized ? 200 : 3000;
  for (int round = 0; round < kRounds; ++round) {
    const std::string bytes = mutator.Mutate(seeds[mutator.Below(seeds.size())], seeds);
    HttpClient client(port_);
    ASSERT_TRUE(client.connected());
    client.Send(bytes);
    if (mutator.Below(3) == 0) {
      client.Reset();
    } else {
      client.HalfClose();
      ASSERT_TRUE(client.IsClosed()) << "round " << round << ": " << bytes;
    }
  }
  EXPECT_EQ(Post("/v1/embeddings", kEmbed).body, reference);
  EXPECT_TRUE(ConnectionsBecome(0));
}

}  // namespace
}  // namespace beamline::http_protocol_test
