// The attempts of one call: its deadline, and whether and when it is retried. Internal to the
// client.
#pragma once

#include <chrono>
#include <optional>

#include "absl/status/status.h"
#include "client/client.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

// The wait before a retry after this error, the num_failures-th of the call; nullopt: no retry.
// `random` is in [0, 1).
std::optional<std::chrono::milliseconds> RetryDelay(const RetryPolicy& policy,
                                                    const absl::Status& error, int num_failures,
                                                    double random);

// The same with a random number of its own.
std::optional<std::chrono::milliseconds> RetryDelay(const RetryPolicy& policy,
                                                    const absl::Status& error, int num_failures);

class Attempts {
 public:
  // The timeout is that of CallOptions.
  Attempts(const RetryPolicy& policy, std::chrono::milliseconds timeout);

  // Sets the call's deadline on an attempt's context.
  void SetDeadline(grpc::ClientContext& context) const;
  // Time until the deadline, at least 1 ms; 0: no deadline.
  std::chrono::milliseconds Remaining() const;
  // The wait before the next attempt; nullopt: the call fails with this error.
  std::optional<std::chrono::milliseconds> DelayAfter(const absl::Status& error);
  // Waits for that time. Returns false at once if the call fails with this error.
  bool WaitAfter(const absl::Status& error);

 private:
  RetryPolicy policy_;
  std::optional<std::chrono::system_clock::time_point> deadline_;
  int num_failures_ = 0;
};

}  // namespace beamline
