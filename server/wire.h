// Messages between gRPC's buffers and protobuf. The services take raw buffers and parse here,
// because gRPC's own parsing answers a text that is not UTF-8, or a torn message, with an empty
// UNIMPLEMENTED.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace beamline {

// INVALID_ARGUMENT naming the first field that is not as the contract says: a text that is not
// UTF-8 (with the byte offset), an enum value that does not exist, a number that is not finite; or
// the whole message when it cannot be read, or has too many parts (server/message_parts.h).
absl::Status ParseMessage(const grpc::ByteBuffer& buffer, google::protobuf::Message& message);

// The text of the request's own field `name`, of bytes that need not parse; empty when there is
// none or it is not UTF-8.
std::string FindText(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor& type,
                     std::string_view name);

// `size`: what message.ByteSizeLong() has just returned.
grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message, size_t size);
inline grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message) {
  return SerializeMessage(message, message.ByteSizeLong());
}

}  // namespace beamline
