// Over a server of gRPC's, by what its client sees of the connection.
#include "server/accept/idle_filter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace beamline::idle_filter_test {
namespace {

using Buffer = grpc::ByteBuffer;

constexpr std::chrono::seconds kLong(60);
constexpr std::chrono::milliseconds kIdle(1000);

// Answers "/keep" when it is told to, and everything else at once, with an error.
class Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    auto* const reactor = new Call;
    if (call->method() == "/keep") {
      kept_.set_value(reactor);
    } else {
      reactor->Finish(grpc::Status(grpc::StatusCode::ABORTED, "answered"));
    }
    return reactor;
  }
  std::future<grpc::ServerGenericBidiReactor*> kept() { return kept_.get_future(); }

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    void OnDone() override { delete this; }
  };

  std::promise<grpc::ServerGenericBidiReactor*> kept_;
};

class IdleFilterTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::string_view(grpc::Version()).starts_with("1.51.")) {
      GTEST_SKIP() << "gRPC is " << grpc::Version();
    }
    ASSERT_TRUE(ThinIdleFilter());
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service_);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, static_cast<int>(kIdle.count()));
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
  }
  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  std::future<grpc::Status> Start(const std::string& method) {
    struct Call {
      grpc::ClientContext context;
      Buffer request, answer;
      std::promise<grpc::Status> status;
    };
    auto call = std::make_shared<Call>();
    grpc::Slice slice("ask");
    call->request = Buffer(&slice, 1);
    call->context.set_wait_for_ready(true);
    grpc::GenericStub(channel_).UnaryCall(
        &call->context, method, {}, &call->request, &call->answer,
        [call](grpc::Status status) { call->status.set_value(std::move(status)); });
    return call->status.get_future();
  }
  bool IsAnswered(std::future<grpc::Status> call) {
    return call.wait_for(kLong) == std::future_status::ready &&
           call.get().error_message() == "answered";
  }
  bool IsConnected() const { return channel_->GetState(false) == GRPC_CHANNEL_READY; }
  // Whether it ends in time.
  bool Ends() {
    return channel_->WaitForStateChange(GRPC_CHANNEL_READY,
                                        std::chrono::system_clock::now() + kLong);
  }

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(IdleFilterTest, AConnectionWithoutCallsEndsAndCallsGoOn) {
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 10; ++j) EXPECT_TRUE(IsAnswered(Start("/ask")));
    EXPECT_TRUE(Ends());
  }
}

TEST_F(IdleFilterTest, ACallKeepsItsConnection) {
  auto kept = service_.kept();
  auto answer = Start("/keep");
  ASSERT_EQ(kept.wait_for(kLong), std::future_status::ready);
  // Others that come and go meanwhile are not mistaken for it.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(IsAnswered(Start("/ask")));
  std::this_thread::sleep_for(2.5 * kIdle);
  EXPECT_TRUE(IsConnected());
  kept.get()->Finish(grpc::Status(grpc::StatusCode::ABORTED, "answered"));
  EXPECT_TRUE(IsAnswered(std::move(answer)));
  EXPECT_TRUE(Ends());
}

// The count is given back behind the end of the connection that it is of.
TEST_F(IdleFilterTest, ACallOutlivesItsConnection) {
  auto kept = service_.kept();
  auto answer = Start("/keep");
  ASSERT_EQ(kept.wait_for(kLong), std::future_status::ready);
  auto ended =
      std::async(std::launch::async, [&] { server_->Shutdown(std::chrono::system_clock::now()); });
  EXPECT_TRUE(Ends());
  kept.get()->Finish(grpc::Status::OK);
  EXPECT_EQ(ended.wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(answer.wait_for(kLong), std::future_status::ready);
}

}  // namespace
}  // namespace beamline::idle_filter_test
