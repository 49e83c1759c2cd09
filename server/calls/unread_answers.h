// How many bytes of answers wait for clients to read them: gRPC keeps what a client does not take,
// without a limit or an end of its own.
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
  // Up to this size an answer is always let through: calls are limited in number.
  static constexpr int64_t kSmallBytes = 64 << 10;

  struct Options {
    int64_t limit = 0;  // bytes, of all together
    // What a client may take for an answer: so long, and the time of its bytes at so many a second.
    std::chrono::milliseconds patience{30'000};
    int64_t least_bytes_per_second = 256 << 10;
  };
  explicit UnreadAnswers(int64_t limit) : UnreadAnswers(Options{.limit = limit}) {}
  explicit UnreadAnswers(const Options& options) : options_(options) {}
  // REQUIRES: nothing is watched.
  ~UnreadAnswers();

  enum class Refusal : uint8_t {
    kNone,
    kAll,     // there would be more than the limit, or too little left for others (SharedLimit)
    kClient,  // the client has others, and would have more than half of the limit
  };
  // Anything but kNone, and nothing is taken. Whoever finds nothing before him may have any size.
  Refusal Take(int64_t bytes, const std::string& client);
  void Give(int64_t bytes, const std::string& client);

  // Calls `end` when the client has not taken the bytes in its time, on a thread of its own, unless
  // the call was forgotten before. `end` may forget it.
  void Watch(const void* call, int64_t bytes, std::function<void()> end);
  // `end` is not called any more, nor under way on another thread.
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
  ClientCounts clients_;  // of answers that are not small; guarded by mutex_

  // Held while an `end` runs, which may forget its own call.
  std::recursive_mutex watch_mutex_;
  std::condition_variable_any changed_;
  // Guarded by watch_mutex_: by when they end, and which call that is.
  using Watched = std::multimap<Clock::time_point, std::pair<const void*, std::function<void()>>>;
  Watched watched_;
  absl::flat_hash_map<const void*, Watched::iterator> calls_;
  bool stopping_ = false;  // guarded by watch_mutex_
  std::thread thread_;     // begins with the first that is watched
};

}  // namespace beamline
