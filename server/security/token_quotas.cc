#include "server/security/token_quotas.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "base/text.h"
#include "engine/api/engine.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// Entries checked for each new client, so that idle ones are removed faster than new ones come.
constexpr int kLooks = 4;

// A client's self-chosen name cannot collide with an identity.
std::string KeyOf(const std::string& client, bool is_identity) {
  return (is_identity ? "i" : "c") + client;
}

absl::Status QuotaRefusal(const std::string& who, const TokenBucket& bucket, double left,
                          const std::string& asked, std::chrono::nanoseconds wait) {
  const QuotaLimits& limits = bucket.limits();
  const auto wait_ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  absl::Status status = absl::ResourceExhaustedError(fmt::format(
      "the quota of {} is {} tokens a second (tokens_per_second), {} at once "
      "(token_burst), of which {} are left; {}: accepted in {:.3f} s",
      who, limits.tokens_per_second, limits.capacity(), static_cast<int64_t>(std::max(left, 0.0)),
      asked, static_cast<double>(wait_ms) / 1000));
  status.SetPayload(kRefusalPayload, absl::Cord(std::string(kRefusedByQuota)));
  status.SetPayload(kRetryAfterPayload, absl::Cord(fmt::to_string(wait_ms)));
  return status;
}

}  // namespace

struct TokenQuotas::Bucket {
  Bucket(const QuotaLimits& limits, std::string who, Clock::time_point now)
      : who(std::move(who)), bucket(limits, now) {}

  const std::string who;  // for errors
  std::mutex mutex;
  TokenBucket bucket;  // guarded by mutex
};

class TokenQuotas::Charge final : public TokenCharge {
 public:
  Charge(std::shared_ptr<Bucket> bucket, std::function<Clock::time_point()> now, QuotaStats& stats)
      : bucket_(std::move(bucket)), now_(std::move(now)), stats_(stats) {}

  absl::Status Check() override {
    std::lock_guard lock(bucket_->mutex);
    if (is_let_in_) return absl::OkStatus();
    TokenBucket& bucket = bucket_->bucket;
    const Clock::time_point now = now_();
    const auto wait = bucket.Take(1, now);
    if (!wait.has_value()) {
      bucket.Give(1, now);
      return absl::OkStatus();
    }
    return QuotaRefusal(bucket_->who, bucket, bucket.LevelAt(now), "the request asks for more",
                        *wait);
  }

  absl::Status Take(int64_t tokens) override {
    std::lock_guard lock(bucket_->mutex);
    TokenBucket& bucket = bucket_->bucket;
    const Clock::time_point now = now_();
    if (is_let_in_) {
      bucket.TakeAnyway(tokens, now);
      return absl::OkStatus();
    }
    const auto wait = bucket.Take(tokens, now);
    is_let_in_ = !wait.has_value();
    if (is_let_in_) return absl::OkStatus();
    stats_.refused_tokens.fetch_add(static_cast<uint64_t>(tokens), std::memory_order_relaxed);
    return QuotaRefusal(bucket_->who, bucket, bucket.LevelAt(now),
                        fmt::format("the request may use {}", tokens), *wait);
  }

  void Settle(int64_t taken, int64_t used) override {
    stats_.used_tokens.fetch_add(static_cast<uint64_t>(used), std::memory_order_relaxed);
    if (used == taken) return;
    std::lock_guard lock(bucket_->mutex);
    if (used < taken) {
      bucket_->bucket.Give(taken - used, now_());
    } else {
      bucket_->bucket.TakeAnyway(used - taken, now_());
    }
  }

 private:
  const std::shared_ptr<Bucket> bucket_;
  const std::function<Clock::time_point()> now_;
  QuotaStats& stats_;
  bool is_let_in_ = false;  // guarded by the bucket's mutex
};

void TokenQuotas::SetOwn(std::map<std::string, QuotaLimits> own) {
  std::lock_guard lock(mutex_);
  own_ = std::move(own);
  const auto is_limit = [](const auto& one) { return one.second.limits(); };
  is_active_ = options_.each.limits() || std::ranges::any_of(own_, is_limit);
  const Clock::time_point now = options_.now();
  for (size_t i = 0; i < entries_.size();) {
    const std::string& key = entries_[i].key;
    const QuotaLimits* const limits = LimitsOf(key.substr(1), key.starts_with('i'));
    if (limits == nullptr) {
      Forget(i);
      continue;
    }
    std::lock_guard bucket_lock(entries_[i].bucket->mutex);
    entries_[i].bucket->bucket.SetLimits(*limits, now);
    ++i;
  }
}

std::shared_ptr<TokenCharge> TokenQuotas::Open(const std::string& client, bool is_identity) {
  if (!is_active_.load(std::memory_order_relaxed)) return nullptr;
  std::shared_ptr<Bucket> bucket = Find(client, is_identity);
  if (bucket == nullptr) return nullptr;
  return std::make_shared<Charge>(std::move(bucket), options_.now, stats_);
}

// Null: no limits.
const QuotaLimits* TokenQuotas::LimitsOf(const std::string& client, bool is_identity) const {
  const QuotaLimits* limits = &options_.each;
  if (is_identity) {
    if (const auto own = own_.find(client); own != own_.end()) limits = &own->second;
  }
  return limits->limits() ? limits : nullptr;
}

std::shared_ptr<TokenQuotas::Bucket> TokenQuotas::Find(const std::string& client,
                                                       bool is_identity) {
  std::string key = KeyOf(client, is_identity);
  std::lock_guard lock(mutex_);
  if (const auto place = places_.find(key); place != places_.end()) {
    return entries_[place->second].bucket;
  }
  const QuotaLimits* const limits = LimitsOf(client, is_identity);
  if (limits == nullptr) return nullptr;
  const Clock::time_point now = options_.now();
  ForgetSomeFull(now);
  // The identity file bounds the number of clients with their own limits.
  if (entries_.size() >= options_.most_clients && limits == &options_.each) {
    if (others_ == nullptr) {
      others_ = std::make_shared<Bucket>(
          *limits, "the clients for which there is no room of their own, together,", now);
    }
    return others_;
  }
  places_.emplace(key, entries_.size());
  auto bucket = std::make_shared<Bucket>(*limits, fmt::format("'{}'", Shorten(client)), now);
  entries_.push_back({std::move(key), bucket});
  stats_.clients.store(static_cast<int64_t>(entries_.size()), std::memory_order_relaxed);
  return bucket;
}

// A full bucket holds no information, so it can be removed.
void TokenQuotas::ForgetSomeFull(Clock::time_point now) {
  for (int i = 0; i < kLooks && !entries_.empty(); ++i) {
    if (hand_ >= entries_.size()) hand_ = 0;
    const std::shared_ptr<Bucket>& bucket = entries_[hand_].bucket;
    bool is_idle = bucket.use_count() == 1;  // no request holds it, and none can get it meanwhile
    if (is_idle) {
      std::lock_guard lock(bucket->mutex);
      is_idle = bucket->bucket.IsFullAt(now);
    }
    is_idle ? Forget(hand_) : static_cast<void>(++hand_);
  }
}

void TokenQuotas::Forget(size_t index) {
  places_.erase(entries_[index].key);
  if (index + 1 != entries_.size()) {
    entries_[index] = std::move(entries_.back());
    places_[entries_[index].key] = index;
  }
  entries_.pop_back();
  stats_.clients.store(static_cast<int64_t>(entries_.size()), std::memory_order_relaxed);
}

}  // namespace beamline
