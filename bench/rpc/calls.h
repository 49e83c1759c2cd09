// The call that the RPC bench repeats, over gRPC or in-process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/engine.h"

namespace beamline {

enum class CallKind { kEncode, kStream };

struct BenchCall {
  CallKind kind = CallKind::kEncode;
  std::string model;
  int prompt_tokens = 4;
  int new_tokens = 64;  // stream only
};

// Credentials and tracing of calls to a server.
struct CallerOptions {
  std::string authority;  // trusted certificates in PEM; empty: plain text
  std::string token;      // empty: none
  bool is_traced = false;
};

// Number of messages with tokens in a stream; 1 for a unary answer.
using Messages = absl::StatusOr<int>;

class Calls {
 public:
  virtual ~Calls() = default;
  // Makes one call and waits for its end.
  virtual Messages Make() = 0;
  // Starts one call; `done` is called at its end, on any thread.
  virtual void Start(std::function<void(Messages)> done) = 0;
};

std::unique_ptr<Calls> MakeRemoteCalls(const std::string& target, int num_connections,
                                       const BenchCall& options, const CallerOptions& caller);
std::unique_ptr<Calls> MakeEngineCalls(Engine& engine, const BenchCall& options);

}  // namespace beamline
