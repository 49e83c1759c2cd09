// Over a server of gRPC's, by how often the thread that answers sends.
#include "server/accept/send_joining.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/work_batch.h"
#include "base/worker_pool.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/server/accept/asked_calls.h"
#include "tests/server/accept/send_count.h"

namespace beamline::send_joining_test {

namespace {

constexpr std::chrono::seconds kLong(60);

class Call final : public grpc::ServerGenericBidiReactor {
 public:
  void OnDone() override {}
};

// Keeps what is asked until it is answered, and its calls to its own end.
class Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    const std::lock_guard lock(mutex_);
    Call* const call = all_.emplace_back(std::make_unique<Call>()).get();
    calls_.push_back(call);
    come_.notify_all();
    return call;
  }
  // Empty where they do not come.
  std::vector<Call*> Take(size_t count) {
    std::unique_lock lock(mutex_);
    if (!come_.wait_for(lock, kLong, [&] { return calls_.size() == count; })) return {};
    return std::exchange(calls_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable come_;
  std::vector<std::unique_ptr<Call>> all_;  // guarded by mutex_
  std::vector<Call*> calls_;                // guarded by mutex_
};

class SendJoiningTest : public testing::Test {
 protected:
  static constexpr int kConnections = 3;

  void SetUp() override {
    auto [server, port] = ServeCalls(service_);
    server_ = std::move(server);
    ASSERT_NE(server_, nullptr);
    for (int i = 0; i < kConnections; ++i) stubs_.push_back(ConnectTo(port));
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  // Asks so often, by each connection in turn, and answers all of it on this thread. Returns how
  // often that has sent.
  int AskAndAnswer(int count) {
    AskedCalls asked;
    for (int i = 0; i < count; ++i) asked.Ask(*stubs_[static_cast<size_t>(i % kConnections)]);
    const std::vector<Call*> calls = service_.Take(static_cast<size_t>(count));
    EXPECT_EQ(static_cast<int>(calls.size()), count);
    const int before = SendsOfThisThread();
    WorkerPool pool(1);
    {
      WorkBatch batch;
      for (size_t i = 0; i < calls.size(); ++i) {
        pool.PostBrief([call = calls[i], i] {
          call->Finish(grpc::Status(grpc::StatusCode::ABORTED, std::to_string(i)));
        });
      }
      batch.RunWhile([] { return true; });
    }
    const int sends = SendsOfThisThread() - before;
    asked.ExpectAll(grpc::StatusCode::ABORTED);
    return sends;
  }

  // Of several tries: gRPC's own threads may send some of it, where they have the connection at the
  // moment, and the answering thread some of what gRPC itself has to say, such as pings.
  int FewestSends(int count) {
    constexpr int kTries = 8;
    int fewest = AskAndAnswer(count);
    for (int i = 1; i < kTries; ++i) fewest = std::min(fewest, AskAndAnswer(count));
    return fewest;
  }

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
};

TEST_F(SendJoiningTest, AnswersOfABatchLeaveOnceForEachConnection) {
  JoinSends();
  for (const int count : {15, 16, 2, 9}) EXPECT_LE(FewestSends(count), kConnections);
}

TEST_F(SendJoiningTest, OfManyAFewLeaveTogether) {
  JoinSends();
  constexpr int kAnswers = 160, kMostJoined = 16;
  EXPECT_LE(FewestSends(kAnswers), kConnections * kAnswers / kMostJoined);
}

TEST_F(SendJoiningTest, OneAnswerLeavesAtOnce) {
  JoinSends();
  EXPECT_LE(FewestSends(1), 1);
}

}  // namespace
}  // namespace beamline::send_joining_test
