#include "server/security/gate.h"

#include <string_view>

#include "absl/strings/match.h"
#include "fmt/format.h"
#include "grpc/grpc_security_constants.h"

namespace beamline {
namespace {

constexpr char kKey[] = "authorization";
constexpr std::string_view kScheme = "bearer ";

// The subject name of the verified client certificate; empty without one.
std::string SubjectName(const Shown& shown) {
  if (shown.context == nullptr) return shown.subject;
  const auto auth = shown.context->auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return "";
  const auto names = auth->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  return names.empty() ? "" : std::string(names.front().data(), names.front().size());
}

absl::Status CheckRight(const Identity& identity, Right right) {
  if (right == Right::kAny || (right == Right::kAdmin ? identity.may_admin : identity.may_infer)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      fmt::format("'{}' has not the right to this call, which is '{}'", identity.name,
                  right == Right::kAdmin ? "admin" : "inference"));
}

}  // namespace

Shown ShownIn(const grpc::ServerContextBase& context) {
  Shown shown;
  const auto& metadata = context.client_metadata();
  if (const auto given = metadata.find(kKey); given != metadata.end()) {
    shown.authorization = std::string_view(given->second.data(), given->second.size());
    shown.is_twice = metadata.count(kKey) > 1;
  }
  shown.context = &context;
  return shown;
}

absl::StatusOr<std::string> Gate::Enter(const Shown& shown, Right right) const {
  if (identities_ == nullptr) return SubjectName(shown);
  const auto identities = identities_->Current();
  const Identity* identity = nullptr;
  if (shown.authorization.has_value()) {
    // A proxy before this server may have checked the other one.
    if (shown.is_twice) {
      return absl::UnauthenticatedError(
          fmt::format("the {} authorization comes twice", shown.place));
    }
    const std::string_view text = *shown.authorization;
    if (!absl::StartsWithIgnoreCase(absl::string_view(text.data(), text.size()),
                                    absl::string_view(kScheme.data(), kScheme.size()))) {
      return absl::UnauthenticatedError(
          fmt::format("the {} authorization is not of the form 'Bearer TOKEN'", shown.place));
    }
    identity = identities->OfToken(text.substr(kScheme.size()));
    if (identity == nullptr) {
      return absl::UnauthenticatedError("the token is none that this server knows");
    }
  } else if (const std::string subject = SubjectName(shown); !subject.empty()) {
    identity = identities->OfCertificate(subject);
  }
  if (identity == nullptr) {
    return absl::UnauthenticatedError(
        fmt::format("there is no token: this server asks for the {} authorization, 'Bearer TOKEN'",
                    shown.place));
  }
  const absl::Status allowed = CheckRight(*identity, right);
  if (!allowed.ok()) return allowed;
  return identity->name;
}

}  // namespace beamline
