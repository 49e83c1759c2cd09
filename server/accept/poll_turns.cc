#include "server/accept/poll_turns.h"

#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>

#include "server/accept/lone_calls.h"

namespace beamline {
namespace {

using Clock = LoneCalls::Clock;

// Who may want the core is asked so often, and has wanted it who kept it for so long.
constexpr std::chrono::microseconds kYieldPeriod{20};
constexpr std::chrono::microseconds kTaken{20};
// Shorter waits are somebody's timer.
constexpr int kShortestTimeoutMs = 10;

struct Pollers {
  std::atomic<int> num_asking = 0;
  std::atomic<Clock::time_point> left = Clock::time_point();  // by the one that asked last
  std::mutex front;  // of those that wait for their turn one looks, and has this
  std::mutex mutex;
  std::condition_variable opened;
};

Pollers& ThePollers() {
  static auto* const pollers = new Pollers;  // until the last thread has ended
  return *pollers;
}

constinit LoneCalls lone_calls;
constinit std::atomic<Clock::duration> spin_time = Clock::duration::zero();
constinit std::atomic<Clock::time_point> spins_from = Clock::time_point();
constinit thread_local bool is_asking = false;

bool IsMissed(const Pollers& pollers, Clock::time_point now) {
  return pollers.num_asking.load() == 0 &&
         now - pollers.left.load(std::memory_order_relaxed) > PollTurn::kMissed;
}

void WaitForTurn(Pollers& pollers) {
  const std::lock_guard front(pollers.front);
  std::unique_lock lock(pollers.mutex);
  for (auto now = Clock::now(); lone_calls.AreLone(now) && !IsMissed(pollers, now);
       now = Clock::now()) {
    pollers.opened.wait_for(lock, PollTurn::kPeriod);
  }
}

bool IsWorthASpin(Clock::time_point now, Clock::duration spin) {
  return spin > Clock::duration::zero() && lone_calls.AreLone(now) &&
         lone_calls.last_wait() <= spin && now >= spins_from.load(std::memory_order_relaxed);
}

// What `look` has found before `end`; 0: nothing.
template <typename Look>
int Spin(const Look& look, Clock::time_point now, Clock::time_point end) {
  Clock::time_point yielded = now;
  while (now < end) {
    if (const int found = look(); found != 0) return found;
    now = Clock::now();
    if (now - yielded < kYieldPeriod) continue;
    sched_yield();
    yielded = Clock::now();
    if (yielded - now < kTaken) continue;
    // Who was let in may have been who was waited for.
    if (const int found = look(); found != 0) return found;
    spins_from.store(yielded + kYields * (yielded - now), std::memory_order_relaxed);
    return 0;
  }
  return 0;
}

}  // namespace

bool IsCallbackPoller() {
  thread_local const bool is_poller = [] {
    std::array<char, 16> name = {};
    return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
           std::string_view(name.data()) == "nexting_thread";
  }();
  return is_poller;
}

PollTurn::PollTurn(bool may_wait) : is_poller_(IsCallbackPoller()) {
  if (!is_poller_) return;
  Pollers& pollers = ThePollers();
  is_asking = true;
  if (pollers.num_asking.fetch_add(1) == 0 || !may_wait || !lone_calls.AreLone(Clock::now())) {
    return;
  }
  pollers.num_asking.fetch_sub(1);
  WaitForTurn(pollers);
  pollers.num_asking.fetch_add(1);
}

PollTurn::~PollTurn() {
  if (!is_poller_) return;
  Pollers& pollers = ThePollers();
  is_asking = false;
  pollers.left.store(Clock::now(), std::memory_order_relaxed);
  pollers.num_asking.fetch_sub(1);
}

void EndLonePolling() {
  lone_calls.Crowd();
  ThePollers().opened.notify_all();  // one that begins to wait meanwhile looks a period later
}

void SetPollSpin(std::chrono::microseconds spin) {
  const bool has_cores = std::thread::hardware_concurrency() > 1;
  spin_time.store(has_cores ? spin : Clock::duration::zero(), std::memory_order_relaxed);
}

int WaitForEvents(EpollWait wait, int fd, epoll_event* events, int most, int timeout_ms) {
  if (!is_asking || timeout_ms == 0) return wait(fd, events, most, timeout_ms);
  const Clock::time_point begin = Clock::now();
  const Clock::duration spin = spin_time.load(std::memory_order_relaxed);
  const bool has_time = timeout_ms < 0 || timeout_ms >= kShortestTimeoutMs;
  int num_events = 0;
  if (has_time && IsWorthASpin(begin, spin)) {
    num_events = Spin([&] { return wait(fd, events, most, 0); }, begin, begin + spin);
  }
  if (num_events == 0) num_events = wait(fd, events, most, timeout_ms);
  if (num_events > 0) lone_calls.Came(begin, Clock::now());
  return num_events;
}

}  // namespace beamline
