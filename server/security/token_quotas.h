// Token quotas of clients: docs/decisions/0050-quotas.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/api/request.h"
#include "engine/api/token_charge.h"
#include "server/security/quota_stats.h"
#include "server/security/token_bucket.h"

namespace beamline {

// Thread safe. Keeps a bucket for each client that used tokens recently. Above most_clients,
// further clients share one bucket. So made-up names take no memory and get no extra tokens.
class TokenQuotas {
 public:
  struct Options {
    QuotaLimits each;             // of clients without their own limits
    size_t most_clients = 16384;  // with their own bucket; includes those with their own limits
    std::function<Clock::time_point()> now = [] { return Clock::now(); };
  };
  // `stats` outlives it.
  TokenQuotas(Options options, QuotaStats& stats) : options_(std::move(options)), stats_(stats) {
    is_active_ = options_.each.limits();
  }

  // Sets the identities with their own limits, by name, and removes the previous ones. Tokens
  // already used stay counted.
  void SetOwn(std::map<std::string, QuotaLimits> own);
  // Opens the charge for one call of this client. All parts of the call share it, and only the
  // first can be refused. Null: the client has no quota. Takes no lock if there are no quotas. The
  // charge may outlive this object.
  std::shared_ptr<TokenCharge> Open(const std::string& client, bool is_identity);

 private:
  struct Bucket;
  class Charge;
  struct Entry {
    std::string key;
    std::shared_ptr<Bucket> bucket;
  };

  const QuotaLimits* LimitsOf(const std::string& client, bool is_identity) const;
  std::shared_ptr<Bucket> Find(const std::string& client, bool is_identity);
  void ForgetSomeFull(Clock::time_point now);
  void Forget(size_t index);

  const Options options_;
  QuotaStats& stats_;
  std::atomic<bool> is_active_{false};

  std::mutex mutex_;  // guards all below
  std::map<std::string, QuotaLimits> own_;
  absl::flat_hash_map<std::string, size_t> places_;  // index in entries_, by key
  std::vector<Entry> entries_;
  size_t hand_ = 0;  // next entry to check for removal
  std::shared_ptr<Bucket> others_;
};

}  // namespace beamline
