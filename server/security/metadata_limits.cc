#include "server/security/metadata_limits.h"

#include "fmt/format.h"

namespace beamline {
namespace {

// HTTP/2's overhead per field (RFC 9113, 10.5.1).
constexpr size_t kFieldBytes = 32;

}  // namespace

absl::Status CheckMetadata(const grpc::ServerContextBase& context) {
  size_t bytes = 0;
  for (const auto& [key, value] : context.client_metadata()) {
    bytes += key.size() + value.size() + kFieldBytes;
  }
  if (bytes <= kMostMetadataBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "the metadata takes {} bytes, counting {} for each entry beside its key and value; accepted: "
      "at most {}",
      bytes, kFieldBytes, kMostMetadataBytes));
}

}  // namespace beamline
