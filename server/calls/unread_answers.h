// Limits the bytes of answers that clients have not read. gRPC keeps unread answers without a limit
// of size or time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/shared_limit.h"
#include "engine/api/request.h"

namespace beamline {

// Thread safe. An answer takes its bytes before it is made, and gives them back when its call is
// over.
class UnreadAnswers {
 public:
  // Answers of up to this many bytes always pass: the number of calls is limited.
  static constexpr int64_t kSmallBytes = 64 << 10;

  struct Options {
    int64_t limit = 0;  // bytes of all answers together
    // Time for a client to read an answer: `patience` plus its bytes / `least_bytes_per_second`.
    std::chrono::milliseconds patience{30'000};
    int64_t least_bytes_per_second = 256 << 10;
  };
  explicit UnreadAnswers(int64_t limit) : UnreadAnswers(Options{.limit = limit}) {}
  explicit UnreadAnswers(const Options& options) : options_(options) {}
  // REQUIRES: nothing is watched.
  ~UnreadAnswers();

  enum class Refusal : uint8_t {
    kNone,
    kAll,     // the total would exceed the limit or the reserve for other clients (SharedLimit)
    kClient,  // the client has other answers, and would exceed half of the limit
  };
  // Takes nothing unless it returns kNone. A client without large answers passes kClient, and any
  // size passes if nothing is taken.
  Refusal Take(int64_t bytes, const std::string& client);
  void Give(int64_t bytes, const std::string& client);

  // Calls `end` on a thread of its own if the client has not read the bytes in time. Not called
  // after Forget. `end` may call Forget.
  void Watch(const void* call, int64_t bytes, std::function<void()> end);
  // Afterwards `end` is not called and does not run on another thread.
  void Forget(const void* call);

  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  int64_t bytes_of(const std::string& client) const;
  int64_t limit() const { return options_.limit; }

 private:
  void StartThread();  // REQUIRES: watch_mutex_
  void Run();

  const Options options_;
  std::atomic<int64_t> bytes_{0};
  mutable std::mutex mutex_;
  ClientCounts clients_;  // without small answers; guarded by mutex_

  // Held while an `end` runs, which may call Forget for its own call.
  std::recursive_mutex watch_mutex_;
  std::condition_variable_any changed_;
  // By end time, with the call; guarded by watch_mutex_.
  using Watched = std::multimap<Clock::time_point, std::pair<const void*, std::function<void()>>>;
  Watched watched_;
  absl::flat_hash_map<const void*, Watched::iterator> calls_;
  bool stopping_ = false;  // guarded by watch_mutex_
  std::thread thread_;     // starts with the first watched call
};

}  // namespace beamline
