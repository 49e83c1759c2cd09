#include "server/http/body_budget.h"

namespace beamline {

BodyBudget::Refusal BodyBudget::Take(const std::string& client, size_t before, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (bytes_ + bytes > limit_) return Refusal::kAll;
  size_t& of_client = clients_[client];
  if (of_client > before && of_client + bytes > limit_ / 2) return Refusal::kClient;
  of_client += bytes;
  bytes_ += bytes;
  return Refusal::kNone;
}

void BodyBudget::Give(const std::string& client, size_t bytes) {
  if (bytes == 0) return;
  std::lock_guard lock(mutex_);
  bytes_ -= bytes;
  const auto of_client = clients_.find(client);
  of_client->second -= bytes;
  if (of_client->second == 0) clients_.erase(of_client);
}

}  // namespace beamline
