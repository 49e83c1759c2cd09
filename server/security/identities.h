// Who may call, of a file that an operator keeps:
//
//   # name   rights           what shows it
//   alice    inference sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 ops
//   inference,admin  sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752 batch
//   inference        certificate
//
// The hash is of a token; "certificate" is the name of the client certificate's subject. Several
// lines may have one name, while its token changes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/security/file_watch.h"

namespace beamline {

struct Identity {
  std::string name;
  bool may_infer = false;
  bool may_admin = false;
};

class Identities {
 public:
  // INVALID_ARGUMENT that names the file, the line and the fault.
  static absl::StatusOr<Identities> Parse(const std::string& path, std::string_view text);

  // Null when there is none. It takes as long for a token that is nearly right as for any other.
  const Identity* OfToken(std::string_view token) const;
  const Identity* OfCertificate(const std::string& subject_name) const;

 private:
  using Hash = std::array<unsigned char, 32>;

  std::vector<std::pair<Hash, Identity>> tokens_;
  std::map<std::string, Identity> certificates_;
};

// Thread safe. The file as it was last found faultless; a change with a fault changes nothing, and
// the log says so.
class IdentitySource {
 public:
  // INVALID_ARGUMENT or NOT_FOUND that names the setting identity_file and the fault.
  static absl::StatusOr<std::unique_ptr<IdentitySource>> Open(
      const std::string& path, std::chrono::milliseconds interval = std::chrono::milliseconds(500));

  std::shared_ptr<const Identities> Current() const;

 private:
  IdentitySource(std::string path, Identities identities);
  void Reload();

  const std::string path_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Identities> current_;  // guarded by mutex_
  std::unique_ptr<FileWatch> watch_;
};

absl::StatusOr<Identities> ReadIdentities(const std::string& path);

// What `salt` is for the cached prompts of this identity alone: 32 bytes.
std::string SaltOf(std::string_view identity, std::string_view salt);

}  // namespace beamline
