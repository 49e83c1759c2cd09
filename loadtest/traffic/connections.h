// The channels and completion queues that calls are distributed over.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "client/client.h"

namespace beamline::loadtest {

// The server to connect to, with its credentials.
struct Target {
  std::string address;  // in gRPC's syntax
  std::optional<TlsOptions> tls;
  std::string token;  // empty: none
};

// Opens a separate TCP connection and waits until it is ready. UNAVAILABLE if it is not ready
// within `timeout`.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const Target& target,
                                                       std::chrono::milliseconds timeout);

class Connections {
 public:
  struct Lane {
    v1::Inference::Stub* stub;
    grpc::CompletionQueue* queue;
  };

  // Starts num_threads threads, each with its own completion queue.
  static absl::StatusOr<std::unique_ptr<Connections>> Open(const Target& target,
                                                           int num_connections, int num_threads);
  // REQUIRES: no call is in flight.
  ~Connections();

  // Connection and queue for the next call, round-robin. Not thread-safe.
  Lane Next();

 private:
  Connections() = default;

  std::vector<std::unique_ptr<v1::Inference::Stub>> stubs_;
  std::vector<std::unique_ptr<grpc::CompletionQueue>> queues_;
  std::vector<std::thread> threads_;
  size_t num_given_ = 0;
};

}  // namespace beamline::loadtest
