#include "server/http/body_budget.h"

namespace beamline {

BodyBudget::Refusal BodyBudget::Take(const std::string& client, size_t before, size_t bytes) {
  const auto more = static_cast<int64_t>(bytes);
  std::lock_guard lock(mutex_);
  const SharedLimit found = bytes_.LimitFor(client, static_cast<int64_t>(limit_));
  const bool is_alone = found.taken == static_cast<int64_t>(before);
  if (is_alone ? found.taken > found.limit - more : !found.HasRoom(more)) return Refusal::kAll;
  const bool has_others = found.own > static_cast<int64_t>(before);
  if (has_others && found.own + more > found.limit / 2) return Refusal::kClient;
  bytes_.Take(client, more);
  return Refusal::kNone;
}

void BodyBudget::Give(const std::string& client, size_t bytes) {
  std::lock_guard lock(mutex_);
  bytes_.Give(client, static_cast<int64_t>(bytes));
}

}  // namespace beamline
