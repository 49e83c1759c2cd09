// Converts messages between gRPC's buffers and protobuf. The services take raw buffers and parse
// here, because gRPC's own parser answers invalid UTF-8 or a truncated message with an empty
// UNIMPLEMENTED.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace beamline {

// INVALID_ARGUMENT naming the first invalid field: a string that is not UTF-8 (with the byte
// offset), an unknown enum value, a number that is not finite. Or naming the whole message if it
// cannot be read or has too many parts (server/wire/message_parts.h).
absl::Status ParseMessage(const grpc::ByteBuffer& buffer, google::protobuf::Message& message);

// The string in the top-level field `name`, from bytes that need not parse. Empty if there is none
// or it is not UTF-8.
std::string FindText(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor& type,
                     std::string_view name);

// `size`: what message.ByteSizeLong() has just returned.
grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message, size_t size);
inline grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message) {
  return SerializeMessage(message, message.ByteSizeLong());
}

}  // namespace beamline
