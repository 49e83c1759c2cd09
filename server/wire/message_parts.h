// Bounds the memory of a parsed message beyond its bytes. An empty submessage of two bytes takes
// dozens of bytes when it is parsed, and so does an unknown field.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/support/byte_buffer.h"

namespace beamline {

// Smaller messages cannot have more parts than any message may have, so they are not counted.
inline constexpr size_t kUncountedBytes = size_t{64} << 10;

// Depth to which submessages are checked; the API nests four deep.
inline constexpr int kMaxMessageDepth = 16;

// INVALID_ARGUMENT when the serialized message has more than kMostRequestParts strings, submessages
// and unknown fields, over all depths. Known numbers are not counted. Stops at the limit, and where
// the bytes cannot be read.
absl::Status CheckParts(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor& type);

}  // namespace beamline
