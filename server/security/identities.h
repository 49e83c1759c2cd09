// The identities that may call, from a file of the operator:
//
//   # name   rights           credential
//   alice    inference        sha256:9f86d081...15b0f00a08
//   ops      inference,admin  sha256:60303ae2...9f558c11c752
//   batch    inference        certificate
//   bob      inference        certificate tokens_per_second=500 token_burst=20000
//
// A token is given by its SHA-256 as 64 hexadecimal digits (shortened here). "certificate" means a
// client certificate whose subject has this name. A name may have several lines, so that its token
// can be changed. Its own quota, if any, is on one of them or the same on all.
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
  // INVALID_ARGUMENT naming the file, the line and the fault.
  static absl::StatusOr<Identities> Parse(const std::string& path, std::string_view text);

  // Null if there is none. Takes constant time, so that it does not reveal nearly correct tokens.
  const Identity* OfToken(std::string_view token) const;
  const Identity* OfCertificate(const std::string& subject_name) const;
  // Limits of names that have their own.
  const std::map<std::string, QuotaLimits>& quotas() const { return quotas_; }
  // No caller is allowed.
  bool empty() const { return tokens_.empty() && certificates_.empty(); }

 private:
  using Hash = std::array<unsigned char, 32>;

  std::vector<std::pair<Hash, Identity>> tokens_;
  std::map<std::string, Identity> certificates_;
  std::map<std::string, QuotaLimits> quotas_;
};

// Thread safe. Keeps the last valid version of the file. A change with a fault is logged and
// ignored.
class IdentitySource {
 public:
  // Called for each valid version on the thread that reads it; the first time within Open.
  using Listener = std::function<void(const Identities& read)>;

  // INVALID_ARGUMENT or NOT_FOUND naming the setting identity_file and the fault.
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

// Combines `salt` with the identity into a cache salt of 32 bytes, so that no other identity shares
// the prefix cache.
std::string SaltOf(std::string_view identity, std::string_view salt);

}  // namespace beamline
