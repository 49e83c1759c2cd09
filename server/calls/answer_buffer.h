// The serialized answer of a unary call, which gRPC takes where it would copy a ByteBuffer: of that
// it takes a second one to every slice, which costs an allocation and some 500 instructions a call.
#pragma once

#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"

namespace beamline {

struct AnswerBuffer {
  grpc::ByteBuffer bytes;
};

}  // namespace beamline

namespace grpc {

template <>
class SerializationTraits<beamline::AnswerBuffer> {
 public:
  // Once of each answer. gRPC gives it as const, and looks at it no more.
  static Status Serialize(const beamline::AnswerBuffer& answer, ByteBuffer* sent,
                          bool* own_buffer) {
    sent->Swap(&const_cast<beamline::AnswerBuffer&>(answer).bytes);
    *own_buffer = true;
    return Status::OK;
  }
};

}  // namespace grpc
