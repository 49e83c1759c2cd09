// GenerateStream: converts the engine's deltas to messages, with one write in flight.
//
// Three kinds of threads use a call: the engine's (deltas, result), the writers (convert and write)
// and gRPC's (write done, client gone). `busy_` is set while a writer or a write in flight works
// for the call. Only its owner may write or finish, so the reactor cannot end while another thread
// uses it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "engine/api/engine.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/call_state.h"
#include "server/calls/delta_buffer.h"
#include "server/wire/response.h"

namespace beamline {

class StreamCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit StreamCall(ServiceContext& services)
      : state_(services, Rpc::kGenerateStream),
        waiting_(static_cast<size_t>(services.stream_limits.max_send_bytes)) {}
  // Call once, within the service's method.
  void Start(const grpc::CallbackServerContext& context, const std::string& identity,
             const grpc::ByteBuffer& buffer);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  class Sink;

  ~StreamCall() override = default;
  absl::Status Submit(const grpc::CallbackServerContext& context, const std::string& identity,
                      const grpc::ByteBuffer& buffer);
  // Called by the engine.
  void Push(GenerateDelta delta);
  void End(absl::StatusOr<GenerateResult> result);
  void WakeLocked();
  // REQUIRES: the caller has set busy_. Writes what waits, finishes if all is written, else clears
  // busy_.
  void Advance();
  void Write(std::vector<GenerateDelta> deltas, const GenerateResult* end);
  // A message cannot be sent: ends the stream with the error.
  void Refuse(const absl::Status& status, bool is_last);
  void Fail(const absl::Status& status);

  CallState state_;
  v1::GenerateRequest message_;
  AnswerOptions answer_;
  std::shared_ptr<RequestHandle> handle_;
  grpc::ByteBuffer out_;  // the write in flight

  std::mutex mutex_;
  DeltaBuffer waiting_;                                   // guarded by mutex_
  std::optional<absl::StatusOr<GenerateResult>> result_;  // guarded by mutex_
  bool busy_ = false;                                     // guarded by mutex_
  bool begun_ = false;    // guarded by mutex_; the first writer task was posted
  bool broken_ = false;   // guarded by mutex_; nothing more is written
  absl::Status refused_;  // guarded by mutex_; the stream ends with it, whatever the engine returns
};

}  // namespace beamline
