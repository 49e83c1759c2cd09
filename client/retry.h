// The attempts of one call: its deadline, and whether and when it is made again. Internal to the
// client.
#pragma once

#include <chrono>
#include <optional>

#include "absl/status/status.h"
#include "client/client.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

// How long to wait before the call is made again after this error, the num_failures-th of it;
// random is of [0, 1). Nullopt: it is not.
std::optional<std::chrono::milliseconds> RetryDelay(const RetryPolicy& policy,
                                                    const absl::Status& error, int num_failures,
                                                    double random);

// The same with a random share of its own.
std::optional<std::chrono::milliseconds> RetryDelay(const RetryPolicy& policy,
                                                    const absl::Status& error, int num_failures);

class Attempts {
 public:
  // The timeout is that of CallOptions.
  Attempts(const RetryPolicy& policy, std::chrono::milliseconds timeout);

  // Gives the call's deadline to an attempt.
  void SetDeadline(grpc::ClientContext& context) const;
  // Until the deadline, at least 1 ms; 0: there is none.
  std::chrono::milliseconds Remaining() const;
  // How long to wait before the next attempt; nullopt: the error is the call's.
  std::optional<std::chrono::milliseconds> DelayAfter(const absl::Status& error);
  // Waits so long. False, at once, when the error is the call's.
  bool WaitAfter(const absl::Status& error);

 private:
  RetryPolicy policy_;
  std::optional<std::chrono::system_clock::time_point> deadline_;
  int num_failures_ = 0;
};

}  // namespace beamline
