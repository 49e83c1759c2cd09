// A call that ends at once with an error: RPCs that this server does not have.
#pragma once

#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

namespace beamline {

class FailedUnaryCall final : public grpc::ServerUnaryReactor {
 public:
  explicit FailedUnaryCall(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }

 private:
  ~FailedUnaryCall() override = default;
};

}  // namespace beamline
