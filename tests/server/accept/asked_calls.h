// A server's generic service, and calls of it, asked at once.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

struct ServedCalls {
  std::unique_ptr<grpc::Server> server;  // null where it did not start
  int port = 0;
};

// On a port of this machine's own, without TLS. The service must outlive the server.
inline ServedCalls ServeCalls(grpc::CallbackGenericService& service) {
  grpc::ServerBuilder builder;
  ServedCalls served;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &served.port);
  builder.RegisterCallbackGenericService(&service);
  served.server = builder.BuildAndStart();
  return served;
}

// A connection of its own to a server of this machine.
inline std::unique_ptr<grpc::GenericStub> ConnectTo(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // else they share one
  return std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments));
}

class AskedCalls {
 public:
  void Ask(grpc::GenericStub& stub) {
    auto& call = *calls_.emplace_back(std::make_unique<Asked>());
    call.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const grpc::Slice slice("?");
    call.request = grpc::ByteBuffer(&slice, 1);
    stub.UnaryCall(&call.context, "/beamline.test/Ask", {}, &call.request, &call.response,
                   [&call](grpc::Status status) { call.status.set_value(std::move(status)); });
  }
  // Waits for all of them.
  void ExpectAll(grpc::StatusCode code) {
    for (const auto& call : calls_) {
      EXPECT_EQ(call->status.get_future().get().error_code(), code);
    }
  }

 private:
  struct Asked {
    grpc::ClientContext context;
    grpc::ByteBuffer request, response;
    std::promise<grpc::Status> status;
  };
  std::vector<std::unique_ptr<Asked>> calls_;
};

}  // namespace beamline
