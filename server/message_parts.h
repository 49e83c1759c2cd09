// What a message asks of the memory beyond its bytes: an empty message of two bytes takes dozens
// when it is parsed, and a field that nobody knows as many.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/support/byte_buffer.h"

namespace beamline {

// Smaller messages have no more parts than are taken from any.
inline constexpr size_t kUncountedBytes = size_t{64} << 10;

// To which messages in messages are looked into; the contract nests four deep.
inline constexpr int kMaxMessageDepth = 16;

// INVALID_ARGUMENT when the serialized message has more than kMostRequestParts texts, messages and
// unknown fields, at all depths together; known numbers are not counted. Bytes that cannot be read
// are counted up to there. Looks at no more of them than it needs.
absl::Status CheckParts(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor& type);

}  // namespace beamline
