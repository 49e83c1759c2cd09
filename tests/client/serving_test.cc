// Waiting until a server, or a model of it, can answer; and which of several servers is asked.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "client/client.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/client/recording_server.h"

namespace beamline::serving_test {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

// Tells those who watch what the test sets.
class WatchedServer final : public grpc::health::v1::Health::Service {
 public:
  ~WatchedServer() override { Stop(); }

  // At the port it had before.
  void Start() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = false;
    }
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port_),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void Stop() {
    Change([&] { is_stopping_ = true; });
    server_->Shutdown(std::chrono::system_clock::now() + seconds(1));
    server_->Wait();
  }
  void Set(HealthCheckResponse::ServingStatus status) {
    Change([&] { status_ = status; });
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string model() {
    const std::lock_guard lock(mutex_);
    return model_;
  }

 private:
  template <typename Setter>
  void Change(const Setter& set) {
    const std::lock_guard lock(mutex_);
    set();
    changed_.notify_all();
  }

  grpc::Status Watch(grpc::ServerContext* context, const HealthCheckRequest* request,
                     grpc::ServerWriter<HealthCheckResponse>* writer) override {
    std::unique_lock lock(mutex_);
    model_ = request->service();
    int last = -1;
    while (!is_stopping_ && !context->IsCancelled()) {
      if (last != status_) {
        last = status_;
        HealthCheckResponse response;
        response.set_status(status_);
        writer->Write(response);
      }
      changed_.wait_for(lock, milliseconds(10));
    }
    return {grpc::StatusCode::INTERNAL, "not writing due to shutdown"};
  }

  int port_ = 0;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  HealthCheckResponse::ServingStatus status_ = HealthCheckResponse::SERVICE_UNKNOWN;
  bool is_stopping_ = false;
  std::string model_;
  std::unique_ptr<grpc::Server> server_;
};

class WaitUntilServing : public testing::Test {
 protected:
  void SetUp() override { server_.Start(); }
  // Of a wait that goes on.
  std::future<absl::Status> Begin(Client& client) {
    return std::async(std::launch::async,
                      [&] { return client.WaitUntilServing("m", {.timeout = seconds(30)}); });
  }
  static bool IsReady(std::future<absl::Status>& status) {
    return status.wait_for(milliseconds(50)) == std::future_status::ready;
  }

  WatchedServer server_;
};

TEST_F(WaitUntilServing, ReturnsAtOnceWhenItServes) {
  server_.Set(HealthCheckResponse::SERVING);
  Client client({.address = server_.address()});
  EXPECT_TRUE(client.WaitUntilServing("m").ok());
  EXPECT_EQ(server_.model(), "m");
  EXPECT_TRUE(client.WaitUntilServing().ok());
  EXPECT_EQ(server_.model(), "");
}

TEST_F(WaitUntilServing, WaitsForAModelThatIsNotThereYet) {
  Client client({.address = server_.address()});
  std::future<absl::Status> served = Begin(client);
  EXPECT_FALSE(IsReady(served));
  server_.Set(HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(IsReady(served));
  server_.Set(HealthCheckResponse::SERVING);
  EXPECT_TRUE(served.get().ok());
}

TEST_F(WaitUntilServing, WaitsForAServerThatIsNotThereYet) {
  server_.Stop();
  Client client({.address = server_.address()});
  std::future<absl::Status> served = Begin(client);
  EXPECT_FALSE(IsReady(served));
  server_.Start();
  EXPECT_FALSE(IsReady(served));
  server_.Stop();  // and for one that stops meanwhile
  EXPECT_FALSE(IsReady(served));
  server_.Set(HealthCheckResponse::SERVING);
  server_.Start();
  EXPECT_TRUE(served.get().ok());
}

TEST_F(WaitUntilServing, SaysWhatItWaitedFor) {
  const CallOptions soon = {.timeout = milliseconds(500)};
  Client client({.address = server_.address()});
  const auto message = [&] {
    const absl::Status status = client.WaitUntilServing("m", soon);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(message(), "waited for model 'm': there is none of this name");
  server_.Set(HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(message(), "waited for model 'm': it does not answer requests");
  server_.Stop();
  EXPECT_THAT(message(), AllOf(HasSubstr("model 'm': "), HasSubstr("server")));
  EXPECT_EQ(Client({.address = "127.0.0.1:1"}).WaitUntilServing("", soon).message(),
            "waited for the server: no server answers");
  server_.Start();
}

TEST_F(WaitUntilServing, DoesNotWaitWhereNobodyTells) {
  const RecordingServer server;  // without Watch
  const absl::Status status = Client({.address = server.address()}).WaitUntilServing("m");
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
}

TEST(ServiceConfig, SpreadsCallsOverServers) {
  const RecordingServer one;
  const RecordingServer other;
  Client client({.address = "ipv4:" + one.address() + "," + other.address(),
                 .service_config = R"({"loadBalancingConfig": [{"round_robin": {}}]})"});
  v1::GenerateRequest request;
  for (int i = 0; i < 1000 && (one.calls().empty() || other.calls().empty()); ++i) {
    EXPECT_TRUE(client.Generate(request, {.timeout = seconds(30)}).ok());
  }
  EXPECT_FALSE(one.calls().empty());
  EXPECT_FALSE(other.calls().empty());
}

}  // namespace
}  // namespace beamline::serving_test
