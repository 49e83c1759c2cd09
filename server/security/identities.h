// Who may call, of a file that an operator keeps:
//
//   # name   rights           what shows it
//   alice    inference sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 ops
//   inference,admin  sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752 batch
//   inference        certificate
//   bob    inference certificate tokens_per_second=500 token_burst=20000
//
// The hash is of a token; "certificate" is the name of the client certificate's subject. Several
// lines may have one name, while its token changes; its quota, where it has one of its own, stands
// in one of them or is the same in all.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/security/file_watch.h"
#include "server/security/token_bucket.h"

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
  // Of those names that have limits of their own.
  const std::map<std::string, QuotaLimits>& quotas() const { return quotas_; }
  // Nobody may call.
  bool empty() const { return tokens_.empty() && certificates_.empty(); }

 private:
  using Hash = std::array<unsigned char, 32>;

  std::vector<std::pair<Hash, Identity>> tokens_;
  std::map<std::string, Identity> certificates_;
  std::map<std::string, QuotaLimits> quotas_;
};

// Thread safe. The file as it was last found faultless; a change with a fault changes nothing, and
// the log says so.
class IdentitySource {
 public:
  // Told of each faultless reading, the first one within Open, on the thread that reads.
  using Listener = std::function<void(const Identities& read)>;

  // INVALID_ARGUMENT or NOT_FOUND that names the setting identity_file and the fault.
  static absl::StatusOr<std::unique_ptr<IdentitySource>> Open(
      const std::string& path, Listener listener = nullptr,
      std::chrono::milliseconds interval = std::chrono::milliseconds(500));

  std::shared_ptr<const Identities> Current() const;

 private:
  IdentitySource(std::string path, Listener listener, Identities identities);
  void Reload();

  const std::string path_;
  const Listener listener_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Identities> current_;  // guarded by mutex_
  std::unique_ptr<FileWatch> watch_;
};

absl::StatusOr<Identities> ReadIdentities(const std::string& path);

// What `salt` is for the cached prompts of this identity alone: 32 bytes.
std::string SaltOf(std::string_view identity, std::string_view salt);

}  // namespace beamline
