// Over a server of gRPC's, by how often a thread that answers wakes another one.
#include "server/accept/kick_sparing.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/lent_thread.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/version_info.h"
#include "tests/server/accept/asked_calls.h"

namespace beamline::kick_sparing_test {

thread_local int num_kicks = 0;  // by this thread
// By threads that have done what they were left, before they polled again.
std::atomic<int> kicks_behind_work = 0;

namespace {

using Buffer = grpc::ByteBuffer;

constexpr std::chrono::seconds kLong(60);

// Keeps a call until the next one has come, and answers it as part of what the thread that brings
// that one was left; or answers what comes alone there, or on a thread of its own.
class Service final : public grpc::CallbackGenericService {
 public:
  ~Service() override {
    for (std::thread& thread : threads_) thread.join();
  }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    auto* const reactor = new Call(*this);
    const grpc::Status answer(grpc::StatusCode::ABORTED, "answered");
    if (call->method() == "/keep") {
      const std::lock_guard lock(mutex_);
      kept_ = reactor;
      changed_.notify_all();
    } else if (call->method() == "/elsewhere") {
      const std::lock_guard lock(mutex_);
      threads_.emplace_back([reactor, answer] { reactor->Finish(answer); });
    } else if (call->method() == "/alone") {
      const LentThread lent;
      LentThread::OfThisThread()->Leave([reactor, answer] { reactor->Finish(answer); });
    } else {
      const LentThread lent;
      LentThread::OfThisThread()->Leave([this, reactor, answer] {
        Call* kept = nullptr;
        {
          const std::lock_guard lock(mutex_);
          kept = std::exchange(kept_, nullptr);
        }
        const int before = num_kicks;
        kept->Finish(answer);
        kicks_ += num_kicks - before;
        reactor->Finish(answer);
      });
    }
    return reactor;
  }

  int kicks() const { return kicks_; }  // by threads that did what they were left
  // Whether so many calls have ended, in time.
  bool WaitForEnds(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return num_ended_ == count; });
  }
  // Whether one that is to be kept has come, in time.
  bool WaitForKept() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLong, [&] { return kept_ != nullptr; });
  }

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Call(Service& service) : service_(service) {}
    void OnDone() override {
      {
        const std::lock_guard lock(service_.mutex_);
        ++service_.num_ended_;
        service_.changed_.notify_all();
      }
      delete this;
    }

   private:
    Service& service_;
  };

  std::atomic<int> kicks_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  Call* kept_ = nullptr;              // guarded by mutex_
  int num_ended_ = 0;                 // guarded by mutex_
  std::vector<std::thread> threads_;  // guarded by mutex_
};

class KickSparingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::string_view(grpc::Version()).starts_with("1.51.")) {
      GTEST_SKIP() << "gRPC is " << grpc::Version();
    }
    auto [server, port] = ServeCalls(service_);
    server_ = std::move(server);
    ASSERT_NE(server_, nullptr);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown();
  }

  // Polled by the thread that asks, alone.
  struct Asked {
    Asked(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
          grpc::CompletionQueue& queue) {
      context.set_deadline(std::chrono::system_clock::now() + kLong);
      context.set_wait_for_ready(true);
      const grpc::Slice slice("?");
      reader =
          grpc::GenericStub(channel).PrepareUnaryCall(&context, method, Buffer(&slice, 1), &queue);
      reader->StartCall();
      reader->Finish(&response, &status, this);
    }
    grpc::ClientContext context;
    Buffer response;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };
  void AskOne(const std::string& method) {
    grpc::CompletionQueue queue;
    Asked asked(channel_, method, queue);
    ExpectAnswers(queue, 1);
  }
  // Two calls, the first of which is answered on the thread that brings the second.
  void AskTwo() {
    grpc::CompletionQueue queue;
    Asked first(channel_, "/keep", queue);
    ASSERT_TRUE(service_.WaitForKept());
    Asked second(channel_, "/lent", queue);
    ExpectAnswers(queue, 2);
  }
  static void ExpectAnswers(grpc::CompletionQueue& queue, int count) {
    void* tag = nullptr;
    bool ok = false;
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(queue.Next(&tag, &ok));
      EXPECT_EQ(static_cast<Asked*>(tag)->status.error_message(), "answered");
    }
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) {
    }
  }

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(KickSparingTest, WhoAnswersOnALentThreadWakesNoPollerAndOthersDo) {
  int asked = 0;
  const auto ask = [&] {
    AskTwo();
    asked += 2;
    ASSERT_TRUE(service_.WaitForEnds(asked));  // the other poller sleeps, or will in a moment
  };
  // As gRPC does it.
  const auto until = std::chrono::steady_clock::now() + kLong;
  while (service_.kicks() == 0 && std::chrono::steady_clock::now() < until) ask();
  EXPECT_GT(service_.kicks(), 0);
  // gRPC sends the answer to a call that came alone when the method has returned, and not while the
  // thread works: its ends kick a poller each, where their queue was empty or holds another one.
  const auto ask_alone = [&] {
    AskOne("/alone");
    EXPECT_TRUE(service_.WaitForEnds(++asked));
  };
  int num_alone = 0;
  for (; kicks_behind_work < 20 && std::chrono::steady_clock::now() < until; ++num_alone) {
    ask_alone();
  }
  EXPECT_GT(kicks_behind_work, 0);
  SpareKicks();
  kicks_behind_work = 0;
  for (int i = 0; i < num_alone; ++i) ask_alone();
  EXPECT_EQ(kicks_behind_work, 0);
  const int before = service_.kicks();
  for (int i = 0; i < 200; ++i) ask();
  EXPECT_EQ(service_.kicks(), before);
  // What comes from a thread that is no poller is waited for by nobody else.
  for (int i = 0; i < 100; ++i) {
    AskOne("/elsewhere");
    EXPECT_TRUE(service_.WaitForEnds(++asked));
  }
}

}  // namespace
}  // namespace beamline::kick_sparing_test

// In place of gRPC's own, for its library.
struct grpc_wakeup_fd;
__attribute__((visibility("default"))) absl::Status grpc_wakeup_fd_wakeup(grpc_wakeup_fd* fd) {
  using Wake = absl::Status (*)(grpc_wakeup_fd*);
  static const auto wake =
      reinterpret_cast<Wake>(dlsym(RTLD_NEXT, "_Z21grpc_wakeup_fd_wakeupP14grpc_wakeup_fd"));
  ++beamline::kick_sparing_test::num_kicks;
  if (beamline::LentThread::HasWorked()) ++beamline::kick_sparing_test::kicks_behind_work;
  return wake(fd);
}
