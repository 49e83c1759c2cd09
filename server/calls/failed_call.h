// A call that ends at once with an error: RPCs that this server does not have.
#pragma once

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"
#include "server/errors.h"

namespace beamline {

template <typename Reactor>
class FailedCall final : public Reactor {
 public:
  explicit FailedCall(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }

 private:
  ~FailedCall() override = default;
};

using FailedUnaryCall = FailedCall<grpc::ServerUnaryReactor>;
using FailedBidiCall = FailedCall<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>;

}  // namespace beamline
