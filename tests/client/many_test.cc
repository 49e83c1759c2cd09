// Streams of requests against a server in this process.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "client/client.h"

namespace beamline::many_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr int kMaxReceiveBytes = 1000;

// Answers each request with its first text, as the model, but not "silent"; ends after
// `num_answers`.
class EchoServer final : public v1::Inference::Service {
 public:
  explicit EchoServer(int num_answers = 1 << 30) : num_answers_(num_answers) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~EchoServer() override { server_->Shutdown(std::chrono::system_clock::now() + seconds(1)); }

  const std::string& address() const { return address_; }
  int num_streams() const { return num_streams_; }

 private:
  grpc::Status EncodeMany(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::EncodeManyResponse, v1::EncodeRequest>* stream) override {
    ++num_streams_;
    v1::EncodeRequest request;
    for (int i = 0; i < num_answers_ && stream->Read(&request); ++i) {
      if (request.inputs(0).text() == "silent") continue;
      v1::EncodeManyResponse answer;
      answer.set_request_id(request.request_id());
      answer.mutable_response()->set_model(request.inputs(0).text());
      stream->Write(answer);
    }
    return grpc::Status::OK;
  }

  const int num_answers_;
  std::atomic<int> num_streams_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

v1::EncodeRequest Request(const std::string& text) {
  v1::EncodeRequest request;
  request.set_request_id("mine");
  request.add_inputs()->set_text(text);
  return request;
}

struct Outcome {
  absl::Status end;
  std::map<size_t, absl::StatusOr<v1::EncodeResponse>> answers;
};

// "!" stands for an error of the source.
Outcome Encode(const EchoServer& server, const std::vector<std::string>& texts,
               milliseconds timeout = seconds(30), bool endless = false) {
  Client client({.address = server.address()});
  Outcome outcome;
  size_t next = 0;
  const Client::Source<v1::EncodeRequest> source = [&](absl::StatusOr<v1::EncodeRequest>& request) {
    if (next == texts.size()) {
      std::this_thread::sleep_for(milliseconds(1));
      return endless ? Client::Next::kNotYet : Client::Next::kEnd;
    }
    const std::string& text = texts[next++];
    request = text == "!" ? absl::StatusOr<v1::EncodeRequest>(absl::NotFoundError("source"))
                          : Request(text);
    return Client::Next::kRequest;
  };
  outcome.end =
      client.EncodeMany(source,
                        [&](size_t place, const absl::StatusOr<v1::EncodeResponse>& answer) {
                          EXPECT_TRUE(outcome.answers.emplace(place, answer).second) << place;
                        },
                        {.timeout = timeout});
  return outcome;
}

TEST(ManyRequests, AreAnsweredInTheirPlaces) {
  const EchoServer server;
  const Outcome outcome = Encode(server, {"a", "!", "c"});
  EXPECT_TRUE(outcome.end.ok()) << outcome.end;
  ASSERT_EQ(outcome.answers.size(), 3u);
  EXPECT_EQ(outcome.answers.at(0)->model(), "a");
  EXPECT_EQ(outcome.answers.at(0)->request_id(), "mine");
  EXPECT_EQ(outcome.answers.at(1).status(), absl::NotFoundError("source"));
  EXPECT_EQ(outcome.answers.at(2)->model(), "c");
}

TEST(ManyRequests, OneThatIsTooLargeFailsAlone) {
  const EchoServer server;
  std::vector<std::string> texts;
  for (int i = 0; i < 30; ++i) {
    texts.push_back(std::to_string(i) + std::string(i % 10 == 4 ? 2000 : 0, 'x'));
  }
  const Outcome outcome = Encode(server, texts);
  EXPECT_TRUE(outcome.end.ok()) << outcome.end;
  ASSERT_EQ(outcome.answers.size(), 30u);
  for (const auto& [place, answer] : outcome.answers) {
    if (place % 10 == 4) {
      EXPECT_TRUE(absl::IsResourceExhausted(answer.status())) << answer.status();
      EXPECT_THAT(std::string(answer.status().message()),
                  HasSubstr("bytes; the server accepts at most 1000"));
    } else {
      ASSERT_TRUE(answer.ok()) << place << answer.status();
      EXPECT_EQ(answer->model(), texts[place]);
    }
  }
  EXPECT_EQ(server.num_streams(), 2);  // the limit is learned once
}

TEST(ManyRequests, AnEndOfTheStreamIsSeenWhileNothingComes) {
  const EchoServer server(/*num_answers=*/2);
  const Outcome outcome = Encode(server, {"a", "b"}, seconds(30), /*endless=*/true);
  EXPECT_EQ(outcome.end, absl::UnavailableError("the server closed the stream"));
  EXPECT_TRUE(outcome.answers.at(1).ok());
}

TEST(ManyRequests, TheTimeoutIsForTheNextAnswer) {
  const EchoServer server;
  const Outcome outcome = Encode(server, {"a", "silent", "c"}, milliseconds(300), true);
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome.end)) << outcome.end;
  EXPECT_TRUE(outcome.answers.at(0).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcome.answers.at(1).status()));
  EXPECT_TRUE(outcome.answers.at(2).ok());
}

TEST(ManyRequests, AllHaveAnAnswerWhenTheServerIsGone) {
  Client client({.address = "127.0.0.1:1"});
  const std::vector<v1::EncodeRequest> requests(3, Request("a"));
  const auto answers = client.EncodeMany(requests);
  ASSERT_EQ(answers.size(), 3u);
  for (const auto& answer : answers) {
    EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  }
}

}  // namespace
}  // namespace beamline::many_test
