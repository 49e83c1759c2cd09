#include "server/calls/unread_answers.h"

#include <system_error>

namespace beamline {

UnreadAnswers::~UnreadAnswers() {
  {
    std::lock_guard lock(watch_mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

UnreadAnswers::Refusal UnreadAnswers::Take(int64_t bytes, const std::string& client) {
  if (bytes <= kSmallBytes) {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return Refusal::kNone;
  }
  std::lock_guard lock(mutex_);
  SharedLimit found = clients_.LimitFor(client, options_.limit);
  found.taken = bytes_.load(std::memory_order_relaxed);  // includes small answers
  if (found.own > 0 && found.own + bytes > found.limit / 2) return Refusal::kClient;
  if (found.taken > 0 && !found.HasRoom(bytes)) return Refusal::kAll;
  clients_.Take(client, bytes);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return Refusal::kNone;
}

void UnreadAnswers::Give(int64_t bytes, const std::string& client) {
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (bytes <= kSmallBytes) return;
  std::lock_guard lock(mutex_);
  clients_.Give(client, bytes);
}

int64_t UnreadAnswers::bytes_of(const std::string& client) const {
  std::lock_guard lock(mutex_);
  return clients_.of(client);
}

void UnreadAnswers::Watch(const void* call, int64_t bytes, std::function<void()> end) {
  const auto time =
      options_.patience + std::chrono::milliseconds(1000 * bytes / options_.least_bytes_per_second);
  {
    std::lock_guard lock(watch_mutex_);
    calls_[call] = watched_.emplace(Clock::now() + time, std::pair(call, std::move(end)));
    StartThread();
  }
  changed_.notify_all();
}

void UnreadAnswers::StartThread() {
  if (thread_.joinable()) return;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    // The system has no thread left. The next call tries again. Watched calls end later.
  }
}

void UnreadAnswers::Forget(const void* call) {
  std::lock_guard lock(watch_mutex_);
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  watched_.erase(found->second);
  calls_.erase(found);
}

void UnreadAnswers::Run() {
  std::unique_lock lock(watch_mutex_);
  while (!stopping_) {
    if (watched_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto first = watched_.begin();
    if (const auto until = first->first; Clock::now() < until) {
      changed_.wait_until(lock, until);
      continue;
    }
    const auto [call, end] = std::move(first->second);
    calls_.erase(call);
    watched_.erase(first);
    end();
  }
}

}  // namespace beamline
