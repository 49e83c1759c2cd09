// Limits of a call's metadata.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"

namespace beamline {

inline constexpr size_t kMostMetadataBytes = 8192;

// The limit in gRPC. With its default, equal to kMostMetadataBytes, gRPC would close the whole
// connection above it. FrameWatch has the same limit.
inline constexpr int kMetadataBytesOfGrpc = 64 << 10;

// INVALID_ARGUMENT above kMostMetadataBytes, counted as in HTTP/2.
absl::Status CheckMetadata(const grpc::ServerContextBase& context);

}  // namespace beamline
