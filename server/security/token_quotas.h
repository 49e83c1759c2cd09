// How many tokens each client may use in a time: docs/decisions/0050-quotas.md.
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

// Thread safe. A bucket for each client that has used tokens lately; where there are too many of
// them further clients share one, so that made-up names take no memory and get no tokens.
class TokenQuotas {
 public:
  struct Options {
    QuotaLimits each;             // of who has no limits of his own
    size_t most_clients = 16384;  // with a bucket of their own; those with limits of their own too
    std::function<Clock::time_point()> now = [] { return Clock::now(); };
  };
  // `stats` outlives it.
  TokenQuotas(Options options, QuotaStats& stats) : options_(std::move(options)), stats_(stats) {
    is_active_ = options_.each.limits();
  }

  // The identities that have limits of their own, by name: those that it had before have none now.
  // What clients have used is kept.
  void SetOwn(std::map<std::string, QuotaLimits> own);
  // Where a call of this client is to be charged, its parts together: it is let in by its first
  // one. Null: the client has no quota. Takes no lock where nobody has one. May outlive this.
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
  absl::flat_hash_map<std::string, size_t> places_;  // by key: in entries_
  std::vector<Entry> entries_;
  size_t hand_ = 0;  // the next of them that may be forgotten
  std::shared_ptr<Bucket> others_;
};

}  // namespace beamline
