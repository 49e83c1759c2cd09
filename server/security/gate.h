// Who calls, by a token or a client certificate, and whether he may.
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

// What a call asks for: a model's answer, what there is to ask for, or a change of what there is.
enum class Right : uint8_t { kInference, kAny, kAdmin };

// What a caller shows of himself, in whatever protocol he speaks.
struct Shown {
  std::optional<std::string_view> authorization;  // "Bearer TOKEN"
  bool is_twice = false;                          // there are several of these
  std::string_view place = "metadata";            // where his protocol has it, for errors
  std::string subject;  // the name in his certificate, which TLS has checked; empty: none
  // Of a call of gRPC's, else null: what has the certificate. It is looked at only where the name
  // decides, as that takes longer than all the rest.
  const grpc::ServerContextBase* context = nullptr;
};
// Of a call of gRPC's; valid as long as the context is.
Shown ShownIn(const grpc::ServerContextBase& context);

class Gate {
 public:
  // Without `identities` (null) who has a certificate is its subject, and everybody may all.
  Gate(std::unique_ptr<IdentitySource> identities, bool isolates)
      : identities_(std::move(identities)), isolates_(isolates) {}

  // The caller's name; empty where nobody asks for one and he shows none. UNAUTHENTICATED when he
  // shows nothing that is known, PERMISSION_DENIED when he may not.
  absl::StatusOr<std::string> Enter(const Shown& shown, Right right) const;
  // Whether an identity's cached prompts are its own.
  bool isolates() const { return isolates_; }

 private:
  const std::unique_ptr<IdentitySource> identities_;
  const bool isolates_;
};

}  // namespace beamline
