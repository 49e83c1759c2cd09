// How much metadata a call may have.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"

namespace beamline {

inline constexpr size_t kMostMetadataBytes = 8192;

// What gRPC accepts, and tells its clients: at its default, which is kMostMetadataBytes, it ends
// the whole connection above. As much as FrameWatch lets pass.
inline constexpr int kMetadataBytesOfGrpc = 64 << 10;

// INVALID_ARGUMENT above kMostMetadataBytes, counted as HTTP/2 does.
absl::Status CheckMetadata(const grpc::ServerContextBase& context);

}  // namespace beamline
