// EncodeMany whose answers are not read: what they will take is counted before they are computed.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "beamline/v1/inference.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/server/service_fixture.h"

namespace beamline::many_room_test {
namespace {

// As FakeEngine's embedder has them.
constexpr int64_t kTokenBytes = 256 * 4;
constexpr int64_t kAnswerBytes = 256 * kTokenBytes;
constexpr int kLimitInAnswers = 16;

class EncodeStream {
 public:
  EncodeStream(const std::string& address, const std::string& client)
      : stub_(v1::Inference::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
    context_.AddMetadata("x-client-id", client);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream_ = stub_->EncodeMany(&context_);
  }
  // Of at most so many tokens, each of which has a vector.
  bool Send(int number, int tokens = 256) {
    v1::EncodeRequest request;
    request.set_request_id(std::to_string(number));
    request.set_pooling(v1::POOLING_NONE);
    auto* ids = request.add_inputs()->mutable_ids()->mutable_ids();
    ids->Resize(tokens, 1);
    return stream_->Write(request);
  }
  v1::EncodeManyResponse Read() {
    v1::EncodeManyResponse response;
    if (!stream_->Read(&response)) response.Clear();
    return response;
  }
  void Close() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() { return stream_->Finish(); }

 private:
  std::unique_ptr<v1::Inference::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::EncodeRequest, v1::EncodeManyResponse>> stream_;
};

ServerConfig SmallRoom() {
  ServerConfig config;
  config.max_unread_bytes = kLimitInAnswers * kAnswerBytes;
  return config;
}

// Half of the limit is one client's, over any number of streams.
TEST_F(ServiceTest, ManyTakesNoMoreThanItsAnswersHaveRoomFor) {
  constexpr int kRequests = 3 * kLimitInAnswers;
  constexpr size_t kHalf = kLimitInAnswers / 2;
  Serve(SmallRoom());
  engine_->HoldEncodes(kAnswerBytes);
  EncodeStream stream(server_->address(), "greedy"), second(server_->address(), "greedy");
  for (int i = 0; i < kRequests; ++i) ASSERT_TRUE(stream.Send(i));
  stream.Close();
  ASSERT_TRUE(engine_->WaitForEncodes(kHalf));
  ASSERT_TRUE(second.Send(0));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it would take more at once
  EXPECT_EQ(engine_->num_encodes(), kHalf);
  {
    EncodeStream other(server_->address(), "other");
    ASSERT_TRUE(other.Send(0));
    ASSERT_TRUE(engine_->WaitForEncodes(kHalf + 1));
    engine_->FinishEncode(kHalf);
    EXPECT_EQ(other.Read().response().embeddings(0).values(0), kHalf);
    other.Close();
    EXPECT_TRUE(other.Finish().ok());
  }
  // Everything comes, whole and once, as it is read: what its stream has sent, and the second's.
  std::thread finisher([&] {
    for (size_t i = 0; i < kRequests + 2; ++i) {
      if (i == kHalf) continue;  // the other's
      if (!engine_->WaitForEncodes(i + 1)) return;
      EXPECT_LE(engine_->num_encodes(), i + 1 + kHalf);
      engine_->FinishEncode(i);
    }
  });
  std::set<float> answers;
  const auto read = [&answers](EncodeStream& from) {
    const v1::EncodeManyResponse answer = from.Read();
    ASSERT_EQ(answer.response().embeddings_size(), 1) << answer.error().message();
    const auto& values = answer.response().embeddings(0).values();
    ASSERT_EQ(values.size() * 4, kAnswerBytes);
    EXPECT_EQ(values.at(values.size() - 1), values.at(0));
    answers.insert(values.at(0));
  };
  for (int i = 0; i < kRequests; ++i) read(stream);
  read(second);
  finisher.join();
  EXPECT_EQ(answers.size(), static_cast<size_t>(kRequests) + 1);
  EXPECT_TRUE(stream.Finish().ok());
  second.Close();
  EXPECT_TRUE(second.Finish().ok());
}

// What tokens show to be smaller leaves its room to others.
TEST_F(ServiceTest, ManyCountsAnswersByTheirTokens) {
  Serve(SmallRoom());
  engine_->HoldEncodes(kAnswerBytes / 4);
  EncodeStream stream(server_->address(), "a");
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream.Send(i));
  // All but the last are known to be a quarter; there is room for the last one's bound.
  constexpr size_t kFit = 4 * kLimitInAnswers / 2 - 3;
  ASSERT_TRUE(engine_->WaitForEncodes(kFit));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(engine_->num_encodes(), kFit);
  stream.Cancel();
  EXPECT_EQ(stream.Finish().error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(engine_->WaitForCancels(static_cast<int>(kFit)));
  for (size_t i = 0; i < kFit; ++i) engine_->FinishEncode(i);
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
}

// A stream that waits for room ends with its call, and leaves nothing behind.
TEST_F(ServiceTest, ManyThatWaitsForRoomCanEnd) {
  Serve(SmallRoom());
  engine_->HoldEncodes(kAnswerBytes);
  EncodeStream holder(server_->address(), "a");
  for (int i = 0; i < kLimitInAnswers; ++i) ASSERT_TRUE(holder.Send(i));
  ASSERT_TRUE(engine_->WaitForEncodes(kLimitInAnswers / 2));
  for (int round = 0; round < 20; ++round) {
    EncodeStream waiting(server_->address(), "a");
    ASSERT_TRUE(waiting.Send(0));
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    waiting.Cancel();
    EXPECT_EQ(waiting.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  holder.Cancel();
  holder.Finish();
  for (size_t i = 0; i < engine_->num_encodes(); ++i) engine_->FinishEncode(i);
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
}

}  // namespace
}  // namespace beamline::many_room_test
