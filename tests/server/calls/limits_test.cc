// What gRPC itself refuses by the server's settings: large requests, compressed ones, and clients
// that ping too often. And what goes on while it refuses many.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/field_error.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/server/net/raw_connection.h"
#include "tests/server/service_fixture.h"

namespace beamline::limits_test {
namespace {

using testing::HasSubstr;

// Of exactly so many bytes on the wire.
v1::EncodeRequest EncodeOf(size_t bytes) {
  v1::EncodeRequest request;
  std::string& text = *request.add_inputs()->mutable_text();
  while (request.ByteSizeLong() < bytes) text.append(bytes - request.ByteSizeLong(), 'x');
  while (request.ByteSizeLong() > bytes) text.pop_back();
  EXPECT_EQ(request.ByteSizeLong(), bytes);
  return request;
}

TEST_F(ServiceTest, TakesRequestsUpToItsLimit) {
  ServerConfig config;
  config.max_receive_bytes = 5000;
  Serve(config);
  EXPECT_TRUE(client_->Encode(EncodeOf(5000), kSoon).ok());
  const absl::Status status = client_->Encode(EncodeOf(5001), kSoon).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("5001 vs. 5000"));
  EXPECT_TRUE(CounterReaches("beamline_requests_total", "rpc=Encode model=none code=OK", 1));
  EXPECT_EQ(Counter("beamline_requests_total", "rpc=Encode model=none code=RESOURCE_EXHAUSTED"), 0);
}

TEST_F(ServiceTest, RefusesCompressedRequests) {
  Serve();
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  for (const auto& [algorithm, code] :
       {std::pair(GRPC_COMPRESS_NONE, grpc::StatusCode::OK),
        std::pair(GRPC_COMPRESS_GZIP, grpc::StatusCode::UNIMPLEMENTED),
        std::pair(GRPC_COMPRESS_DEFLATE, grpc::StatusCode::UNIMPLEMENTED)}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::EncodeResponse response;
    const grpc::Status status = stub->Encode(&context, EncodeOf(10000), &response);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
  }
}

// Health too, which strangers may ask for.
TEST_F(ServiceTest, RefusesCompressedAndLargeRequestsForHealth) {
  ServerConfig config;
  config.health_listen = "127.0.0.1:0";
  Serve(config);
  const auto channel =
      grpc::CreateChannel(server_->health_address(), grpc::InsecureChannelCredentials());
  grpc::TemplatedGenericStub<v1::EncodeRequest, v1::EncodeResponse> stub(channel);
  const auto ask = [&](grpc_compression_algorithm algorithm, size_t bytes) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    v1::EncodeRequest request;  // its first field is a text, as that of a HealthCheckRequest
    request.set_model(std::string(bytes, 'a'));
    v1::EncodeResponse response;
    std::promise<grpc::StatusCode> code;
    stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", {}, &request, &response,
                   [&](const grpc::Status& status) { code.set_value(status.error_code()); });
    return code.get_future().get();
  };
  EXPECT_EQ(ask(GRPC_COMPRESS_NONE, 0), grpc::StatusCode::OK);
  EXPECT_EQ(ask(GRPC_COMPRESS_GZIP, 2000), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ask(GRPC_COMPRESS_DEFLATE, 2000), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(ask(GRPC_COMPRESS_NONE, 100000), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(ServiceTest, ARefusalLeavesItsPlaceFree) {
  ServerConfig config;
  config.max_concurrent_requests = 1;
  Serve(config);
  engine_->Refuse(FieldError("prompt", "long", "less"));
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(client_->Generate(Request(), kSoon).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// RFC 9113, 6.7.
std::string PingFrame() { return std::string("\0\0\x08\x06\0\0\0\0\0", 9) + "beamline"; }

// A connection that has spoken HTTP/2 and then pings so often, with this time between.
bool IsSentAway(const std::string& address, int pings, std::chrono::milliseconds interval) {
  RawConnection connection(std::atoi(address.c_str() + address.rfind(':') + 1));
  EXPECT_TRUE(connection.Send(Http2Hello()));
  EXPECT_TRUE(connection.IsAnswered());
  for (int i = 0; i < pings; ++i) {
    if (!connection.Send(PingFrame())) return true;
    std::this_thread::sleep_for(interval);
  }
  return connection.IsClosed(std::chrono::milliseconds(500));
}

TEST_F(ServiceTest, SendsAwayClientsThatPingTooOften) {
  ServerConfig config;
  config.min_ping_interval_ms = 60000;
  Serve(config);
  EXPECT_FALSE(IsSentAway(server_->address(), 1, std::chrono::milliseconds(1)));
  EXPECT_TRUE(IsSentAway(server_->address(), 8, std::chrono::milliseconds(5)));
}

TEST_F(ServiceTest, LetsClientsPingAsOftenAsTheyMay) {
  ServerConfig config;
  config.min_ping_interval_ms = 10;
  Serve(config);
  EXPECT_FALSE(IsSentAway(server_->address(), 12, std::chrono::milliseconds(25)));
}

// Everything else goes on.
TEST_F(ServiceTest, AnswersOthersAndDrainsWhileItRefusesMany) {
  Serve();
  engine_->Refuse(absl::ResourceExhaustedError("9 requests wait for model 'writer' already"));
  std::atomic<bool> ends = false;
  std::atomic<int> unexpected = 0;
  std::vector<std::thread> refused;
  for (int i = 0; i < 4; ++i) {
    refused.emplace_back([&, streams = i % 2 == 0] {
      Client client(ClientOptions{.address = server_->address()});
      const auto ignore = [](const auto&) { return true; };
      while (!ends) {
        const absl::StatusCode code =
            streams ? client.GenerateStream(Request(), ignore, kSoon).status().code()
                    : client.Generate(Request(), kSoon).status().code();
        if (code == absl::StatusCode::kUnavailable) return;  // it drains
        if (code != absl::StatusCode::kResourceExhausted) ++unexpected;
      }
    });
  }
  const auto num_refused = [this] {
    return Counter("beamline_rejected_total", "reason=queue_full");
  };
  for (int round = 0; round < 10; ++round) {
    const double before = num_refused();
    EXPECT_TRUE(client_->Encode(EncodeOf(100), kSoon).ok());
    EXPECT_TRUE(client_->ListModels(kSoon).ok());
    for (int i = 0; i < 2000 && num_refused() < before + 200; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_GE(num_refused(), before + 200);
  }
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
  ends = true;
  for (std::thread& thread : refused) thread.join();
  EXPECT_EQ(unexpected, 0);
}

}  // namespace
}  // namespace beamline::limits_test
