// The call that the RPC bench makes again and again: over gRPC, or into an engine of this process.
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
  int new_tokens = 64;  // of a stream
};

// What a call to a server shows of its caller.
struct CallerOptions {
  std::string authority;  // certificates of the server's, PEM; empty: plain text
  std::string token;      // empty: none
  bool is_traced = false;
};

// Messages with tokens of a stream, 1 of an answer that comes at once.
using Messages = absl::StatusOr<int>;

class Calls {
 public:
  virtual ~Calls() = default;
  // Makes one call and waits for its end.
  virtual Messages Make() = 0;
  // Makes one call; `done` is called at its end, from any thread.
  virtual void Start(std::function<void(Messages)> done) = 0;
};

std::unique_ptr<Calls> MakeRemoteCalls(const std::string& target, int num_connections,
                                       const BenchCall& options, const CallerOptions& caller);
std::unique_ptr<Calls> MakeEngineCalls(Engine& engine, const BenchCall& options);

}  // namespace beamline
