// Authenticates a caller by token or client certificate, and checks its permission.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "server/security/identities.h"

namespace beamline {

// Permission that a call needs: inference, any (reading what is available), or admin (changing it).
enum class Right : uint8_t { kInference, kAny, kAdmin };

// A caller's credentials, in any protocol.
struct Shown {
  std::optional<std::string_view> authorization;  // "Bearer TOKEN"
  bool is_twice = false;                          // there are several authorizations
  std::string_view place = "metadata";            // where the protocol carries it, for errors
  std::string subject;  // the verified client certificate's subject name; empty: none
  // The context of a gRPC call, else null. It gives the certificate, which is read only if the name
  // is needed, as that takes longer than all the rest.
  const grpc::ServerContextBase* context = nullptr;
};
// Credentials of a gRPC call. Valid as long as the context.
Shown ShownIn(const grpc::ServerContextBase& context);

class Gate {
 public:
  // Without `identities` (null) every caller has all permissions. Its name is the certificate's
  // subject, if it has one.
  Gate(std::unique_ptr<IdentitySource> identities, bool isolates)
      : identities_(std::move(identities)), isolates_(isolates) {}

  // Returns the caller's identity, empty if none is required and none is shown. UNAUTHENTICATED:
  // unknown or missing credentials. PERMISSION_DENIED: no permission.
  absl::StatusOr<std::string> Enter(const Shown& shown, Right right) const;
  // True if an identity's prefix cache is not shared with others.
  bool isolates() const { return isolates_; }

 private:
  const std::unique_ptr<IdentitySource> identities_;
  const bool isolates_;
};

}  // namespace beamline
