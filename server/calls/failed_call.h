// A call that ends at once with an error: the RPC is not implemented, or the caller may not use it.
#pragma once

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "grpcpp/support/status.h"

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
using FailedStreamCall = FailedCall<grpc::ServerWriteReactor<grpc::ByteBuffer>>;
using FailedManyCall = FailedCall<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>;

}  // namespace beamline
