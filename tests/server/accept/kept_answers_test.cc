// Over a server of gRPC's that refuses what it is asked, by how often its threads send.
#include "server/accept/kept_answers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "server/accept/send_joining.h"
#include "tests/server/accept/asked_calls.h"
#include "tests/server/accept/send_count.h"

namespace beamline::kept_answers_test {
namespace {

constexpr std::chrono::seconds kLong(60);

// Refuses each call while it is taken in, which takes until it is let go.
class Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    auto* const call = new Call;
    {
      std::unique_lock lock(mutex_);
      ++num_come_;
      changed_.notify_all();
      changed_.wait_for(lock, kLong, [&] { return !holds_; });
    }
    const grpc::Status refusal(grpc::StatusCode::RESOURCE_EXHAUSTED, "refused");
    KeepAnswer([call, refusal] { call->Finish(refusal); });
    if (KeepsAnswers()) ++num_kept_;
    return call;
  }

  void Hold(bool holds) {
    const std::lock_guard lock(mutex_);
    holds_ = holds;
    if (holds) num_come_ = 0;
    changed_.notify_all();
  }
  bool WaitForOne() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return num_come_ > 0; });
  }
  int num_kept() const { return num_kept_; }

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    void OnDone() override { delete this; }
  };

  std::atomic<int> num_kept_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool holds_ = false;  // guarded by mutex_
  int num_come_ = 0;    // guarded by mutex_
};

class KeptAnswersTest : public testing::Test {
 protected:
  void SetUp() override {
    JoinSends();
    auto [server, port] = ServeCalls(service_);
    server_ = std::move(server);
    ASSERT_NE(server_, nullptr);
    stub_ = ConnectTo(port);
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown();
  }

  // Asks so often while the first call is being taken in, then lets it go on. Returns how often the
  // process has sent since: the answers, what a client has still to say, and what gRPC says itself.
  int SendsOf(int count) {
    service_.Hold(true);
    AskedCalls asked;
    asked.Ask(*stub_);
    EXPECT_TRUE(service_.WaitForOne());
    for (int i = 1; i < count; ++i) asked.Ask(*stub_);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most are sent by then
    const int before = SendsOfAllThreads();
    service_.Hold(false);
    asked.ExpectAll(grpc::StatusCode::RESOURCE_EXHAUSTED);
    return SendsOfAllThreads() - before;
  }

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

TEST_F(KeptAnswersTest, OfManyCallsLeaveTogether) {
  constexpr int kCalls = 30;
  int fewest = SendsOf(kCalls);
  for (int i = 0; i < 8; ++i) fewest = std::min(fewest, SendsOf(kCalls));
  // Each by itself would be at least one for each.
  EXPECT_LE(fewest, kCalls / 2);
}

TEST_F(KeptAnswersTest, OfMoreCallsThanAreKeptAllLeave) {
  SendsOf(5 * static_cast<int>(kMostKeptAnswers));
}

TEST_F(KeptAnswersTest, OfALoneCallLeavesThoughNothingFollows) {
  for (int i = 0; i < 50; ++i) SendsOf(1);
  EXPECT_EQ(service_.num_kept(), 50);
}

TEST(KeptAnswers, OfOtherThreadsAreTheirOwn) {
  std::thread([] {
    bool ran = false;
    KeepAnswer([&] { ran = true; });
    EXPECT_TRUE(ran);
    EXPECT_FALSE(KeepsAnswers());
  }).join();
}

}  // namespace
}  // namespace beamline::kept_answers_test
