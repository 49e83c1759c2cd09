// Calls that fail and are made again: which, when, and what is not.
#include "client/retry.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "client/client.h"
#include "client/grpc_status.h"
#include "google/rpc/error_details.pb.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

google::rpc::Status Busy(int64_t retry_s, int32_t retry_ns = 0) {
  google::rpc::Status busy;
  busy.set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
  busy.set_message("the queue is full");
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(retry_s);
  retry.mutable_retry_delay()->set_nanos(retry_ns);
  busy.add_details()->PackFrom(retry);
  return busy;
}

grpc::Status OnTheWire(const google::rpc::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message(),
          status.SerializeAsString()};
}

const grpc::Status kAway(grpc::StatusCode::UNAVAILABLE, "the server is stopping");

// Its calls fail as they are told to, one after the other, then are answered.
class FailingServer final : public v1::Inference::Service {
 public:
  FailingServer() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~FailingServer() override { server_->Shutdown(std::chrono::system_clock::now() + seconds(1)); }

  const std::string& address() const { return address_; }
  void FailNext(std::deque<grpc::Status> failures) { failures_ = std::move(failures); }
  // This text of a stream of many is refused so many times.
  void RefuseText(const std::string& text, int times) { refusals_[text] = times; }
  // Streams of many break after so many answers, once each.
  void BreakAfter(std::deque<int> answers) { breaks_ = std::move(answers); }
  // When the calls came.
  const std::vector<std::chrono::steady_clock::time_point>& calls() const { return calls_; }
  // Of all streams of many.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  grpc::Status Begin() {
    calls_.push_back(std::chrono::steady_clock::now());
    if (failures_.empty()) return grpc::Status::OK;
    const grpc::Status failure = failures_.front();
    failures_.pop_front();
    return failure;
  }

  grpc::Status Generate(grpc::ServerContext*, const v1::GenerateRequest* request,
                        v1::GenerateResponse* response) override {
    response->set_model(request->model());
    return Begin();
  }

  grpc::Status GenerateStream(grpc::ServerContext*, const v1::GenerateRequest* request,
                              grpc::ServerWriter<v1::GenerateStreamResponse>* writer) override {
    const grpc::Status failure = Begin();
    if (!failure.ok()) return failure;
    v1::GenerateStreamResponse message;
    message.add_deltas()->set_text("a");
    writer->Write(message);
    if (request->model() == "breaks") return kAway;
    message.mutable_end()->set_model(request->model());
    writer->Write(message);
    return grpc::Status::OK;
  }

  grpc::Status EncodeMany(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::EncodeManyResponse, v1::EncodeRequest>* stream) override {
    const grpc::Status failure = Begin();
    if (!failure.ok()) return failure;
    int num_left = std::numeric_limits<int>::max();
    if (!breaks_.empty()) {
      num_left = breaks_.front();
      breaks_.pop_front();
    }
    v1::EncodeRequest request;
    for (; stream->Read(&request); --num_left) {
      if (num_left == 0) return kAway;
      const std::string text = request.inputs(0).text();
      texts_.push_back(text);
      v1::EncodeManyResponse answer;
      answer.set_request_id(request.request_id());
      if (refusals_[text]-- > 0) {
        *answer.mutable_error() = Busy(0, 1'000'000);
      } else {
        answer.mutable_response()->set_model(text);
      }
      stream->Write(answer);
    }
    return grpc::Status::OK;
  }

  std::deque<grpc::Status> failures_;
  std::map<std::string, int> refusals_;
  std::deque<int> breaks_;
  std::vector<std::chrono::steady_clock::time_point> calls_;
  std::vector<std::string> texts_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

class RetryTest : public testing::Test {
 protected:
  static RetryPolicy Quick() {
    return {.max_attempts = 5, .initial_backoff = milliseconds(2), .max_backoff = milliseconds(8)};
  }
  static v1::EncodeRequest Encode(const std::string& text) {
    v1::EncodeRequest request;
    request.add_inputs()->set_text(text);
    return request;
  }
  // The models of the answers, which are the texts, or the codes of the errors.
  std::vector<std::string> EncodeMany(const std::vector<std::string>& texts,
                                      const CallOptions& options = {}) {
    std::vector<v1::EncodeRequest> requests;
    for (const std::string& text : texts) requests.push_back(Encode(text));
    std::vector<int> heard(texts.size());
    std::vector<std::string> answers;
    for (const auto& answer : client_.EncodeMany(
             requests, options, [&](size_t place, const auto&) { ++heard[place]; })) {
      answers.push_back(answer.ok() ? answer->model()
                                    : absl::StatusCodeToString(answer.status().code()));
    }
    EXPECT_EQ(heard, std::vector<int>(texts.size(), 1)) << "answers that were heard of";
    return answers;
  }

  FailingServer server_;
  Client client_{{.address = server_.address(), .retry = Quick()}};
};

TEST_F(RetryTest, AFailedCallIsMadeAgain) {
  server_.FailNext({kAway, OnTheWire(Busy(0, 60'000'000)), kAway});
  EXPECT_TRUE(client_.Generate({}).ok());
  ASSERT_THAT(server_.calls(), SizeIs(4));
  EXPECT_GE(server_.calls()[1] - server_.calls()[0], milliseconds(2));
  EXPECT_GE(server_.calls()[2] - server_.calls()[1], milliseconds(60));
}

TEST_F(RetryTest, NotByDefaultAndNotForEver) {
  server_.FailNext(std::deque<grpc::Status>(9, kAway));
  EXPECT_TRUE(absl::IsUnavailable(client_.Generate({}).status()));
  EXPECT_THAT(server_.calls(), SizeIs(5));
  EXPECT_TRUE(absl::IsUnavailable(Client({.address = server_.address()}).Generate({}).status()));
  EXPECT_THAT(server_.calls(), SizeIs(6));
}

TEST_F(RetryTest, OtherErrorsAreFinal) {
  const std::vector<grpc::Status> errors = {
      {grpc::StatusCode::INVALID_ARGUMENT, "no"},
      {grpc::StatusCode::INTERNAL, "no"},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, "larger than max (9 vs. 4)"}};
  for (const grpc::Status& error : errors) {
    const size_t before = server_.calls().size();
    server_.FailNext({error});
    EXPECT_EQ(client_.Generate({}).status().message(), error.error_message());
    EXPECT_EQ(server_.calls().size(), before + 1);
  }
}

TEST_F(RetryTest, AWaitBeyondTheTimeoutIsNotBegun) {
  server_.FailNext({OnTheWire(Busy(20))});
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = client_.Generate({}, {.timeout = seconds(10)});
  EXPECT_TRUE(absl::IsResourceExhausted(answer.status())) << answer.status();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(8));
}

TEST_F(RetryTest, AStreamIsMadeAgainOnlyBeforeItBegins) {
  std::string text;
  const auto read = [&](const v1::GenerateStreamResponse& message) {
    for (const auto& delta : message.deltas()) text += delta.text();
    return true;
  };
  server_.FailNext({kAway, kAway});
  EXPECT_TRUE(client_.GenerateStream({}, read).ok());
  EXPECT_EQ(text, "aa");
  EXPECT_THAT(server_.calls(), SizeIs(3));
  v1::GenerateRequest breaks;
  breaks.set_model("breaks");
  EXPECT_TRUE(absl::IsUnavailable(client_.GenerateStream(breaks, read).status()));
  EXPECT_EQ(text, "aaa");
  EXPECT_THAT(server_.calls(), SizeIs(4));
}

TEST_F(RetryTest, OfManyThoseAreMadeAgainThatFailed) {
  server_.RefuseText("b", 2);
  EXPECT_THAT(EncodeMany({"a", "b", "c"}), ElementsAre("a", "b", "c"));
  EXPECT_THAT(server_.texts(), ElementsAre("a", "b", "c", "b", "b"));
  server_.RefuseText("d", 100);
  EXPECT_THAT(EncodeMany({"d", "e"}), ElementsAre("RESOURCE_EXHAUSTED", "e"));
  EXPECT_THAT(EncodeMany({}), IsEmpty());
}

TEST_F(RetryTest, ABrokenStreamGoesOnWithWhatIsUnanswered) {
  server_.FailNext({kAway});
  server_.BreakAfter({2, 0});
  EXPECT_THAT(EncodeMany({"a", "b", "c", "d"}), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(server_.texts(), ElementsAre("a", "b", "c", "d"));
  server_.FailNext(std::deque<grpc::Status>(9, kAway));
  EXPECT_THAT(EncodeMany({"a", "b"}), ElementsAre("UNAVAILABLE", "UNAVAILABLE"));
}

TEST(RetryDelay, GrowsAndHasItsLimits) {
  const RetryPolicy policy = {.max_attempts = 8,
                              .initial_backoff = milliseconds(100),
                              .multiplier = 3,
                              .max_backoff = milliseconds(1000),
                              .jitter = 0.5};
  const absl::Status away = absl::UnavailableError("");
  EXPECT_EQ(RetryDelay(policy, away, 1, 0), milliseconds(100));
  EXPECT_EQ(RetryDelay(policy, away, 2, 0), milliseconds(300));
  EXPECT_EQ(RetryDelay(policy, away, 4, 0), milliseconds(1000));
  EXPECT_EQ(RetryDelay(policy, away, 2, 0.5), milliseconds(375));
  EXPECT_EQ(RetryDelay(policy, away, 8, 0), std::nullopt);
  EXPECT_EQ(RetryDelay(policy, ToStatus(Busy(2)), 1, 0), milliseconds(2000));
  EXPECT_EQ(RetryDelay(policy, ToStatus(Busy(61)), 1, 0), std::nullopt);
  EXPECT_EQ(RetryDelay(policy, ToStatus(Busy(-5)), 1, 0), milliseconds(100));
  EXPECT_EQ(RetryDelay(policy, ToStatus(Busy(std::numeric_limits<int64_t>::max())), 1, 0),
            std::nullopt);
  EXPECT_EQ(RetryDelay(policy, absl::ResourceExhaustedError("too large"), 1, 0), std::nullopt);
}

}  // namespace
}  // namespace beamline
