// Over a server of gRPC's whose calls leave their answers to the thread that brings them.
#include "server/calls/call_burst.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace beamline::call_burst_test {
namespace {

using Buffer = grpc::ByteBuffer;

constexpr std::chrono::seconds kLong(60);

class Call final : public grpc::ServerGenericBidiReactor {
 public:
  void OnDone() override { delete this; }
};

class Service final : public grpc::CallbackGenericService {
 public:
  // `burst` may be null.
  explicit Service(CallBurst* burst) : burst_(burst) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    auto* const call = new Call;
    CallBurst::Call in_burst(burst_, context->c_call());
    const LentThread lent(&in_burst);
    const std::thread::id thread = std::this_thread::get_id();
    LentThread::OfThisThread()->Leave([this, call, thread] {
      EXPECT_EQ(LentThread::OfThisThread(), nullptr);
      EXPECT_TRUE(LentThread::IsWorking());
      if (running_.fetch_add(1) > 0) ++at_once_;
      if (thread != std::this_thread::get_id()) ++elsewhere_;
      ++done_;
      call->Finish(grpc::Status::OK);
      --running_;
    });
    return call;
  }

  int done() const { return done_; }

 private:
  CallBurst* const burst_;
  std::atomic<int> done_ = 0, elsewhere_ = 0, running_ = 0, at_once_ = 0;
};

class CallBurstTest : public testing::Test {
 protected:
  void Serve(CallBurst* burst) {
    service_ = std::make_unique<Service>(burst);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  }
  // So many at once; all of them are answered.
  void Ask(int count) {
    struct Asked {
      grpc::ClientContext context;
      Buffer request, response;
      std::promise<grpc::Status> status;
    };
    const grpc::Slice slice("?");
    std::vector<std::unique_ptr<Asked>> calls;
    for (int i = 0; i < count; ++i) {
      auto& call = *calls.emplace_back(std::make_unique<Asked>());
      call.context.set_deadline(std::chrono::system_clock::now() + kLong);
      call.request = Buffer(&slice, 1);
      stub_->UnaryCall(&call.context, "/beamline.test/Ask", {}, &call.request, &call.response,
                       [&call](grpc::Status status) { call.status.set_value(std::move(status)); });
    }
    for (const auto& call : calls) {
      // Without a message, which is not what a unary call's client expects: but it has ended.
      const grpc::Status status = call->status.get_future().get();
      EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    }
  }

  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::GenericStub> stub_;
};

TEST_F(CallBurstTest, WhatIsLeftIsDoneOnceForEachCall) {
  CallBurst burst;
  Serve(&burst);
  int asked = 0;
  for (const int count : {1, 1, 2, 7, 300, 1, 1, 1, 50}) {
    Ask(count);
    asked += count;
    EXPECT_EQ(service_->done(), asked);
  }
  server_->Shutdown();
}

TEST_F(CallBurstTest, ManyCallsOneAfterTheOther) {
  CallBurst burst;
  Serve(&burst);
  for (int i = 0; i < 300; ++i) Ask(1);
  EXPECT_EQ(service_->done(), 300);
  server_->Shutdown();
}

TEST_F(CallBurstTest, WithoutOneAllIsDoneAtOnce) {
  Serve(nullptr);
  Ask(20);
  EXPECT_EQ(service_->done(), 20);
  server_->Shutdown();
}

TEST_F(CallBurstTest, EndsWhenItsMarkerHasComeBack) {
  for (int i = 0; i < 20; ++i) {
    CallBurst burst;
    Serve(&burst);
    Ask(3);
    server_->Shutdown();
  }
}

}  // namespace
}  // namespace beamline::call_burst_test
