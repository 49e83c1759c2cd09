#include "loadtest/traffic/outstanding.h"

#include <utility>

namespace beamline::loadtest {

Call* Outstanding::Add(std::unique_ptr<Call> call) {
  Call* const added = call.get();
  const std::lock_guard lock(mutex_);
  calls_.emplace(added->request().index, std::move(call));
  return added;
}

std::unique_ptr<Call> Outstanding::Remove(Call* call) {
  const std::lock_guard lock(mutex_);
  auto node = calls_.extract(call->request().index);
  removed_.notify_one();
  return std::move(node.mapped());
}

void Outstanding::Cancel(uint64_t index) {
  const std::lock_guard lock(mutex_);
  if (const auto found = calls_.find(index); found != calls_.end()) found->second->Cancel();
}

void Outstanding::CancelAll() {
  const std::lock_guard lock(mutex_);
  for (auto& [index, call] : calls_) call->Cancel();
}

bool Outstanding::WaitForAtMost(size_t count, std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  return removed_.wait_until(lock, until, [&] { return calls_.size() <= count; });
}

}  // namespace beamline::loadtest
