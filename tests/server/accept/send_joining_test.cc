// Over a server of gRPC's, by how often the thread that answers sends.
#include "server/accept/send_joining.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
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

namespace beamline::send_joining_test {

thread_local int num_sends = 0;  // of this thread

namespace {

using Buffer = grpc::ByteBuffer;

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
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    for (int i = 0; i < kConnections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else they share a connection
      stubs_.push_back(std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
          "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments)));
    }
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  struct Asked {
    grpc::ClientContext context;
    Buffer request, response;
    std::promise<grpc::Status> status;
  };
  // Asks so often, by each connection in turn, and answers all of it on this thread. Returns how
  // often that has sent.
  int AskAndAnswer(int count) {
    const grpc::Slice slice("?");
    std::vector<std::unique_ptr<Asked>> asked;
    for (int i = 0; i < count; ++i) {
      auto& call = *asked.emplace_back(std::make_unique<Asked>());
      call.context.set_deadline(std::chrono::system_clock::now() + kLong);
      call.request = Buffer(&slice, 1);
      stubs_[static_cast<size_t>(i % kConnections)]->UnaryCall(
          &call.context, "/beamline.test/Ask", {}, &call.request, &call.response,
          [&call](grpc::Status status) { call.status.set_value(std::move(status)); });
    }
    const std::vector<Call*> calls = service_.Take(asked.size());
    EXPECT_EQ(calls.size(), asked.size());
    const int before = num_sends;
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
    const int sends = num_sends - before;
    for (const auto& call : asked) {
      EXPECT_EQ(call->status.get_future().get().error_code(), grpc::StatusCode::ABORTED);
    }
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

// In place of the C library's, for gRPC's library.
extern "C" __attribute__((visibility("default"))) ssize_t sendmsg(int fd, const msghdr* message,
                                                                  int flags) {
  using Send = ssize_t (*)(int, const msghdr*, int);
  static const auto send = reinterpret_cast<Send>(dlsym(RTLD_NEXT, "sendmsg"));
  ++beamline::send_joining_test::num_sends;
  return send(fd, message, flags);
}
