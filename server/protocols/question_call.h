// A unary call that asks for information and computes nothing.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "server/calls/call_state.h"
#include "server/calls/failed_call.h"
#include "server/calls/unary_call.h"
#include "server/wire/errors.h"

namespace beamline {

// kAnswer: absl::Status(ServiceContext&, const Request&, Response&).
template <auto kAnswer>
class QuestionCall;
template <typename Request, typename Response,
          absl::Status (*kAnswer)(ServiceContext&, const Request&, Response&)>
class QuestionCall<kAnswer> final : public UnaryCall {
 public:
  using UnaryCall::UnaryCall;

  void Start(const grpc::ByteBuffer& buffer) {
    Request request;
    Response response;
    absl::Status status = state().Parse(buffer, request);
    if (status.ok()) status = kAnswer(services(), request, response);
    if (!status.ok()) return Fail(status);
    Reply(response);
  }
};

// Starts such a call. Every authenticated caller may make it.
template <auto kAnswer>
grpc::ServerUnaryReactor* AnswerQuestion(ServiceContext& services, Rpc rpc,
                                         const grpc::CallbackServerContext& context,
                                         const grpc::ByteBuffer& request,
                                         grpc::ByteBuffer* response) {
  const auto identity = Enter(services, rpc, context, Right::kAny);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new QuestionCall<kAnswer>(services, rpc, response);
  call->SetCaller(CallerOf(context, *identity));
  call->Start(request);
  return call;
}

}  // namespace beamline
