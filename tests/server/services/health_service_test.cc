#include "server/services/health_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/server/service_fixture.h"

namespace beamline::health_service_test {
namespace {

namespace health = grpc::health::v1;
using testing::HasSubstr;
using Answer = health::HealthCheckResponse;

class HealthServiceTest : public ServiceTest {
 protected:
  void SetUp() override {
    Serve();
    stub_ = health::Health::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }
  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  }
  static health::HealthCheckRequest Named(const std::string& name) {
    health::HealthCheckRequest request;
    request.set_service(name);
    return request;
  }
  grpc::Status Check(const std::string& name, Answer* answer) {
    grpc::ClientContext context;
    SetDeadline(context);
    return stub_->Check(&context, Named(name), answer);
  }

  std::unique_ptr<health::Health::Stub> stub_;
};

TEST_F(HealthServiceTest, TellsOfTheServerAndItsModels) {
  Answer answer;
  EXPECT_TRUE(Check("", &answer).ok());
  EXPECT_EQ(answer.status(), Answer::SERVING);
  engine_->Break("writer", absl::UnavailableError("it broke"));
  EXPECT_TRUE(Check("writer", &answer).ok());
  EXPECT_EQ(answer.status(), Answer::NOT_SERVING);
  const grpc::Status unknown = Check("nobody", &answer);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_message(), HasSubstr("'nobody'"));
}

TEST_F(HealthServiceTest, RefusesWhatIsNoName) {
  Answer answer;
  EXPECT_EQ(Check(std::string(200, 'a'), &answer).error_code(), grpc::StatusCode::NOT_FOUND);
  const grpc::Status refused = Check(std::string(201, 'a'), &answer);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(),
            "service is 201 bytes long; accepted: a name of up to 200 bytes");
  const grpc::Status large = Check(std::string(5000, 'a'), &answer);
  EXPECT_EQ(large.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(large.error_message(), HasSubstr("accepted: up to 4096"));
}

TEST_F(HealthServiceTest, AWatchTellsEachChange) {
  grpc::ClientContext context;
  SetDeadline(context);
  const auto watch = stub_->Watch(&context, Named("writer"));
  Answer answer;
  ASSERT_TRUE(watch->Read(&answer));
  EXPECT_EQ(answer.status(), Answer::SERVING);
  engine_->Break("writer", absl::UnavailableError("it broke"));
  ASSERT_TRUE(watch->Read(&answer));
  EXPECT_EQ(answer.status(), Answer::NOT_SERVING);

  grpc::ClientContext other;
  SetDeadline(other);
  const auto unknown = stub_->Watch(&other, Named("nobody"));
  ASSERT_TRUE(unknown->Read(&answer));
  EXPECT_EQ(answer.status(), Answer::SERVICE_UNKNOWN);
  other.TryCancel();
  EXPECT_FALSE(unknown->Read(&answer));
  EXPECT_EQ(unknown->Finish().error_code(), grpc::StatusCode::CANCELLED);
  context.TryCancel();
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// The end of a server does not wait for those who watch.
TEST_F(HealthServiceTest, AWatchEndsWithTheServer) {
  grpc::ClientContext context;
  SetDeadline(context);
  const auto watch = stub_->Watch(&context, Named(""));
  Answer answer;
  ASSERT_TRUE(watch->Read(&answer));
  const auto begin = std::chrono::steady_clock::now();
  server_->Drain(std::chrono::seconds(20));
  server_.reset();
  while (watch->Read(&answer)) EXPECT_EQ(answer.status(), Answer::NOT_SERVING);
  EXPECT_FALSE(watch->Finish().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
}  // namespace beamline::health_service_test
