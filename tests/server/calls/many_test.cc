// GenerateMany and EncodeMany: order, errors of single requests, the end of a stream, cancellation,
// back-pressure. Long because all of them drive one kind of stream.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <map>
#include <thread>

#include "base/field_error.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/grpcpp.h"
#include "prometheus/metric_family.h"
#include "tests/server/service_fixture.h"

namespace beamline::many_test {
namespace {

using testing::HasSubstr;

// One open stream, driven step by step.
class Stream {
 public:
  explicit Stream(const std::string& address,
                  std::chrono::milliseconds timeout = std::chrono::seconds(20))
      : stub_(v1::Inference::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
    context_.set_deadline(std::chrono::system_clock::now() + timeout);
    stream_ = stub_->GenerateMany(&context_);
  }

  bool Send(const std::string& id, const std::string& prompt = "p") {
    v1::GenerateRequest request;
    request.set_request_id(id);
    request.mutable_prompt()->set_text(prompt);
    return stream_->Write(request);
  }
  void Close() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // The next answer; one without an id when the stream has ended.
  v1::GenerateManyResponse Read() {
    v1::GenerateManyResponse response;
    if (!stream_->Read(&response)) response.Clear();
    return response;
  }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  std::unique_ptr<v1::Inference::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::GenerateRequest, v1::GenerateManyResponse>> stream_;
};

// beamline_requests_total by "rpc=... model=... code=... ".
std::map<std::string, double> CallCounts(const Metrics& metrics) {
  std::map<std::string, double> counts;
  for (const auto& family : metrics.Collect()) {
    if (family.name != "beamline_requests_total") continue;
    for (const auto& metric : family.metric) {
      std::string key;
      for (const auto& label : metric.label) key += label.name + "=" + label.value + " ";
      counts[key] = metric.counter.value;
    }
  }
  return counts;
}

TEST_F(ServiceTest, ManyAnswersAsTheyFinish) {
  Serve();
  Stream stream(server_->address());
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(stream.Send(id, id));
  const FakeRequest last = engine_->WaitForRequest(2);
  EXPECT_EQ(std::get<std::string>(last.request.prompt), "c");
  EXPECT_EQ(last.request.model, "writer");
  ASSERT_TRUE(last.request.deadline.has_value());  // the call's
  for (const size_t index : {2, 0}) {
    const FakeRequest request = engine_->WaitForRequest(index);
    engine_->Finish(request, TextResult("answer to " + request.request.request_id));
    const v1::GenerateManyResponse answer = stream.Read();
    EXPECT_EQ(answer.request_id(), request.request.request_id);
    EXPECT_EQ(answer.response().request_id(), answer.request_id());
    EXPECT_EQ(answer.response().sequences(0).text(), "answer to " + answer.request_id());
  }
  // The stream goes on after answers; the last request is answered after the client has closed.
  ASSERT_TRUE(stream.Send("a"));  // free again
  const FakeRequest again = engine_->WaitForRequest(3);
  stream.Close();
  engine_->Finish(engine_->WaitForRequest(1), TextResult("b"));
  EXPECT_EQ(stream.Read().request_id(), "b");
  engine_->Finish(again, TextResult("a"));
  EXPECT_EQ(stream.Read().request_id(), "a");
  EXPECT_EQ(stream.Read().request_id(), "");
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(ServiceTest, ManyErrorsAnswerOneRequest) {
  Serve();
  Stream stream(server_->address());
  ASSERT_TRUE(stream.Send("held"));
  const FakeRequest held = engine_->WaitForRequest(0);

  ASSERT_TRUE(stream.Send("held"));
  v1::GenerateManyResponse answer = stream.Read();
  EXPECT_EQ(answer.request_id(), "held");
  EXPECT_EQ(answer.error().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.error().message(), HasSubstr("request_id"));
  google::rpc::BadRequest details;
  ASSERT_EQ(answer.error().details_size(), 1);
  ASSERT_TRUE(answer.error().details(0).UnpackTo(&details));
  EXPECT_EQ(details.field_violations(0).field(), "request_id");

  ASSERT_TRUE(stream.Send(""));
  answer = stream.Read();
  EXPECT_EQ(answer.request_id(), "");
  EXPECT_EQ(answer.error().code(), grpc::StatusCode::INVALID_ARGUMENT);

  engine_->Refuse(absl::ResourceExhaustedError("full"));
  ASSERT_TRUE(stream.Send("full"));
  answer = stream.Read();
  EXPECT_EQ(answer.request_id(), "full");
  EXPECT_EQ(answer.error().code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(answer.error().details_size(), 1);  // RetryInfo
  engine_->Refuse(absl::OkStatus());

  ASSERT_TRUE(stream.Send("long"));
  engine_->Finish(engine_->WaitForRequest(1),
                  FieldError("prompt", "900 tokens long", "at most 512"));
  answer = stream.Read();
  EXPECT_EQ(answer.request_id(), "long");
  ASSERT_EQ(answer.error().details_size(), 1);
  ASSERT_TRUE(answer.error().details(0).UnpackTo(&details));
  EXPECT_EQ(details.field_violations(0).field(), "prompt");

  engine_->Finish(held, TextResult("the first one"));
  EXPECT_EQ(stream.Read().response().sequences(0).text(), "the first one");
  stream.Close();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(ServiceTest, ManyAnswersWhatDoesNotParseUnderItsOwnId) {
  Serve();
  Stream stream(server_->address());
  ASSERT_TRUE(stream.Send("held"));
  const FakeRequest held = engine_->WaitForRequest(0);
  ASSERT_TRUE(stream.Send("bad", "b\xFF"));  // protobuf complains on standard error, and sends it
  v1::GenerateManyResponse answer = stream.Read();
  EXPECT_EQ(answer.request_id(), "bad");
  EXPECT_EQ(answer.error().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(answer.error().message(), "prompt.text is not UTF-8 at byte 1; accepted: UTF-8");
  ASSERT_TRUE(stream.Send("\xC3 id"));
  answer = stream.Read();
  EXPECT_EQ(answer.request_id(), "");
  EXPECT_THAT(answer.error().message(), HasSubstr("request_id is not UTF-8 at byte 0"));
  // An id that the engine refuses for its length comes back whole.
  const std::string long_id(5000, 'i');
  engine_->Refuse(FieldError("request_id", "long", "at most 256 bytes"));
  ASSERT_TRUE(stream.Send(long_id));
  answer = stream.Read();
  EXPECT_EQ(answer.request_id(), long_id);
  EXPECT_EQ(answer.error().message(), "request_id is long; accepted: at most 256 bytes");
  engine_->Refuse(absl::OkStatus());
  engine_->Finish(held, TextResult("ok"));
  EXPECT_EQ(stream.Read().request_id(), "held");
  stream.Close();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(ServiceTest, ManyErrorsFitTheSmallestLimit) {
  ServerConfig config;
  config.max_send_bytes = 1024;
  Serve(config);
  Stream stream(server_->address());
  engine_->Refuse(FieldError("prompt", std::string(3000, 'x'), "less"));
  for (const std::string& id : {std::string("a"), std::string(256, 'i'), std::string(5000, 'l')}) {
    ASSERT_TRUE(stream.Send(id));
    const v1::GenerateManyResponse answer = stream.Read();
    EXPECT_EQ(answer.error().code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_TRUE(answer.request_id() == id || answer.request_id().empty());
  }
  stream.Close();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(ServiceTest, ManyWithoutRequestsEnds) {
  Serve();
  Stream stream(server_->address());
  stream.Close();
  EXPECT_EQ(stream.Read().request_id(), "");
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(ServiceTest, ManyCancelReachesEveryRequest) {
  Serve();
  Stream stream(server_->address());
  for (const char* id : {"a", "b", "c"}) ASSERT_TRUE(stream.Send(id));
  for (const size_t index : {0, 1, 2}) engine_->WaitForRequest(index);
  stream.Cancel();
  EXPECT_TRUE(engine_->WaitForCancels(3));
  for (const size_t index : {0, 1, 2}) {
    engine_->Finish(engine_->WaitForRequest(index), absl::CancelledError("cancelled"));
  }
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
}

TEST_F(ServiceTest, ManyDeadlineReachesEveryRequest) {
  Serve();
  // As long as a busy machine may take to bring both requests here.
  Stream stream(server_->address(), std::chrono::seconds(3));
  for (const char* id : {"a", "b"}) ASSERT_TRUE(stream.Send(id));
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(engine_->WaitForCancels(2));
  for (const size_t index : {0, 1}) {
    engine_->Finish(engine_->WaitForRequest(index), absl::CancelledError("cancelled"));
  }
}

TEST_F(ServiceTest, ManyReadsNoFurtherThanItsLimit) {
  ServerConfig config;
  config.max_outstanding_per_stream = 3;
  Serve(config);
  Stream stream(server_->address());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(stream.Send(std::to_string(i)));
  stream.Close();
  engine_->WaitForRequest(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(engine_->num_requests(), 3u);
  std::map<std::string, int> answers;
  for (size_t i = 0; i < 10; ++i) {
    const FakeRequest request = engine_->WaitForRequest(i);
    EXPECT_LE(engine_->num_requests(), i + 3);
    engine_->Finish(request, TextResult("ok"));
    ++answers[stream.Read().request_id()];
  }
  EXPECT_EQ(answers.size(), 10u);
  EXPECT_TRUE(stream.Finish().ok());
}

// Answers of some MiB that the client does not read: requests stay in its connection, however few
// run, until it reads.
TEST_F(ServiceTest, ManyReadsNoFurtherWhileItsAnswersWait) {
  Serve();
  Stream stream(server_->address());
  constexpr size_t kLarge = 10, kMore = 40;
  for (size_t i = 0; i < kLarge; ++i) ASSERT_TRUE(stream.Send(std::to_string(i)));
  engine_->WaitForRequest(kLarge - 1);  // read before the first answer waits
  for (size_t i = 0; i < kLarge; ++i) {
    engine_->Finish(engine_->WaitForRequest(i), TextResult(std::string(1 << 20, 'x')));
  }
  for (size_t i = kLarge; i < kLarge + kMore; ++i) {
    ASSERT_TRUE(stream.Send(std::to_string(i)));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it would take it at once
  }
  EXPECT_LT(engine_->num_requests(), kLarge + kMore);
  for (size_t i = 0; i < kLarge; ++i) EXPECT_FALSE(stream.Read().request_id().empty());
  for (size_t i = kLarge; i < kLarge + kMore; ++i) {
    engine_->Finish(engine_->WaitForRequest(i), TextResult("ok"));
    EXPECT_FALSE(stream.Read().request_id().empty());
  }
  stream.Close();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(ServiceTest, ManySlowReaderStallsOnlyItself) {
  ServerConfig config;
  config.max_outstanding_per_stream = 64;
  Serve(config);
  Stream slow(server_->address());
  // More than every window and buffer between the two ends holds.
  const std::string large(1 << 20, 'x');
  constexpr size_t kRequests = 64;
  for (size_t i = 0; i < kRequests; ++i) ASSERT_TRUE(slow.Send(std::to_string(i)));
  slow.Close();
  engine_->WaitForRequest(kRequests - 1);  // read before the first answer waits
  const auto started = Clock::now();
  for (size_t i = 0; i < kRequests; ++i) {
    engine_->Finish(engine_->WaitForRequest(i), TextResult(large));
  }
  EXPECT_LT(Clock::now() - started, std::chrono::seconds(10));
  // Others are served while nobody reads.
  Stream other(server_->address());
  ASSERT_TRUE(other.Send("quick"));
  engine_->Finish(engine_->WaitForRequest(kRequests), TextResult("ok"));
  EXPECT_EQ(other.Read().request_id(), "quick");
  other.Close();
  EXPECT_TRUE(other.Finish().ok());
  for (size_t i = 0; i < kRequests; ++i) {
    EXPECT_EQ(slow.Read().response().sequences(0).text().size(), large.size());
  }
  EXPECT_TRUE(slow.Finish().ok());
}

TEST_F(ServiceTest, ManyAnswerThatIsTooLargeIsAnErrorOfItsOwn) {
  ServerConfig config;
  config.max_send_bytes = 2048;
  Serve(config);
  Stream stream(server_->address());
  ASSERT_TRUE(stream.Send("large"));
  engine_->Finish(engine_->WaitForRequest(0), TextResult(std::string(4096, 'x')));
  EXPECT_EQ(stream.Read().error().code(), grpc::StatusCode::OUT_OF_RANGE);
  ASSERT_TRUE(stream.Send("small"));
  engine_->Finish(engine_->WaitForRequest(1), TextResult("x"));
  EXPECT_TRUE(stream.Read().has_response());
  stream.Close();
  EXPECT_TRUE(stream.Finish().ok());
}

TEST_F(ServiceTest, ManyDuringADrain) {
  Serve();
  Stream stream(server_->address());
  ASSERT_TRUE(stream.Send("running"));
  const FakeRequest running = engine_->WaitForRequest(0);
  auto drained =
      std::async(std::launch::async, [&] { return server_->Drain(std::chrono::seconds(20)); });
  ASSERT_TRUE(engine_->WaitForDrain());
  ASSERT_TRUE(stream.Send("late"));
  const v1::GenerateManyResponse refused = stream.Read();
  EXPECT_EQ(refused.request_id(), "late");
  EXPECT_EQ(refused.error().code(), grpc::StatusCode::UNAVAILABLE);
  stream.Close();
  engine_->Finish(running, TextResult("finished"));
  EXPECT_EQ(stream.Read().response().sequences(0).text(), "finished");
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_TRUE(drained.get());
}

TEST_F(ServiceTest, ManyIdleStreamDoesNotHoldADrain) {
  Serve();
  Stream stream(server_->address());
  ASSERT_TRUE(stream.Send("a"));
  engine_->Finish(engine_->WaitForRequest(0), TextResult("ok"));
  EXPECT_TRUE(stream.Read().has_response());
  const auto started = Clock::now();
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
  EXPECT_LT(Clock::now() - started, std::chrono::seconds(10));
  EXPECT_FALSE(stream.Finish().ok());
}

TEST_F(ServiceTest, ManyCountsEachRequest) {
  Serve();
  Stream stream(server_->address());
  for (const char* id : {"a", "b", ""}) ASSERT_TRUE(stream.Send(id));
  for (const size_t index : {0, 1}) {
    engine_->Finish(engine_->WaitForRequest(index), TextResult("ok"));
  }
  stream.Close();
  for (int i = 0; i < 3; ++i) stream.Read();
  EXPECT_TRUE(stream.Finish().ok());
  std::map<std::string, double> counts = CallCounts(*metrics_);
  EXPECT_EQ(counts["rpc=GenerateMany model=none code=OK "], 2);
  EXPECT_EQ(counts["rpc=GenerateMany model=none code=INVALID_ARGUMENT "], 1);
}

TEST_F(ServiceTest, ManyClosedWithoutRequestsIsOneCall) {
  Serve();
  const auto wait_for = [this](const std::string& key) {
    const auto until = Clock::now() + std::chrono::seconds(20);
    while (CallCounts(*metrics_)[key] == 0 && Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return CallCounts(*metrics_)[key];
  };
  Stream closed(server_->address());
  closed.Close();
  EXPECT_TRUE(closed.Finish().ok());
  EXPECT_EQ(wait_for("rpc=GenerateMany model=none code=OK "), 1);
  Stream left_open(server_->address(), std::chrono::milliseconds(300));
  EXPECT_FALSE(left_open.Finish().ok());
  Stream closed_again(server_->address());
  closed_again.Close();
  EXPECT_TRUE(closed_again.Finish().ok());
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
  EXPECT_EQ(CallCounts(*metrics_).size(), 1U);  // none of the one that broke
}

TEST_F(ServiceTest, EncodeManyAnswersBeforeTheHandle) {
  Serve();
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->EncodeMany(&context);
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) {
      v1::EncodeRequest request;
      request.set_request_id(std::to_string(i));
      for (int input = 0; input <= i % 3; ++input) request.add_inputs()->set_text("a");
      EXPECT_TRUE(stream->Write(request));
    }
    stream->WritesDone();
  });
  int answers = 0;
  for (v1::EncodeManyResponse response; stream->Read(&response); ++answers) {
    EXPECT_EQ(response.response().embeddings_size(), 1 + std::stoi(response.request_id()) % 3);
  }
  writer.join();
  EXPECT_EQ(answers, 300);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ServiceTest, ManyStreamsOfRequestsCancelledAtAnyMoment) {
  Serve();
  constexpr int kStreams = 24;
  constexpr int kRequests = 20;
  std::vector<std::thread> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.emplace_back([&, i] {
      Stream stream(server_->address());
      for (int r = 0; r < kRequests; ++r) {
        if (!stream.Send(std::to_string(r))) break;
      }
      int answers = 0;
      if (i % 3 == 0) stream.Close();
      while (answers < (i % 3 == 0 ? kRequests : i % 7) && stream.Read().has_response()) ++answers;
      if (i % 3 != 0) stream.Cancel();
      const grpc::Status status = stream.Finish();
      EXPECT_EQ(status.ok(), i % 3 == 0) << status.error_message();
    });
  }
  std::atomic<bool> over = false;
  std::vector<std::thread> engines;  // each plays the engine's thread for some of the requests
  for (int t = 0; t < 3; ++t) {
    engines.emplace_back([&, t] {
      for (size_t i = t; !over;) {
        if (engine_->num_requests() <= i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        engine_->Finish(engine_->WaitForRequest(i), TextResult("x"));
        i += 3;
      }
    });
  }
  for (std::thread& thread : clients) thread.join();
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
  over = true;
  for (std::thread& thread : engines) thread.join();
}

}  // namespace
}  // namespace beamline::many_test
