#include "server/calls/answer_room.h"

#include <algorithm>
#include <vector>

namespace beamline {

AnswerRoom::PlacePtr AnswerRoom::Take(const std::string& client, int64_t bytes) {
  std::lock_guard lock(mutex_);
  return TakeLocked(client, bytes);
}

AnswerRoom::PlacePtr AnswerRoom::TakeLocked(const std::string& client, int64_t bytes) {
  const SharedLimit found = bytes_.LimitFor(client, limit_);
  const bool fits = found.HasRoom(bytes) && found.own + bytes <= limit_ / 2;
  if (found.own > 0 && !fits) return nullptr;
  bytes_.Take(client, bytes);
  return PlacePtr(new Place(*this, client, bytes));
}

void AnswerRoom::Wait(const void* waiter, const std::string& client, int64_t bytes, Go go) {
  {
    std::lock_guard lock(mutex_);
    waiters_.push_back({waiter, client, bytes, std::move(go)});
  }
  ServeWaiters();
}

bool AnswerRoom::Forget(const void* waiter) {
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(waiters_, waiter, &Waiter::name);
  if (found == waiters_.end()) return false;
  waiters_.erase(found);
  return true;
}

void AnswerRoom::Change(const std::string& client, int64_t before, int64_t after) {
  {
    std::lock_guard lock(mutex_);
    bytes_.Take(client, after);
    bytes_.Give(client, before);
    if (after >= before || waiters_.empty()) return;
  }
  ServeWaiters();
}

void AnswerRoom::ServeWaiters() {
  std::vector<std::pair<Go, PlacePtr>> served;
  {
    std::lock_guard lock(mutex_);
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      PlacePtr place = TakeLocked(it->client, it->bytes);
      if (place == nullptr) {
        ++it;
        continue;
      }
      served.emplace_back(std::move(it->go), std::move(place));
      it = waiters_.erase(it);
    }
  }
  for (auto& [go, place] : served) go(std::move(place));
}

int64_t AnswerRoom::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_.total();
}

}  // namespace beamline
