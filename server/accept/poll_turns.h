// Has one of gRPC's pollers serve calls that come one by one, and look for the next one a while
// before it sleeps. gRPC wakes the next poller for each event, which the one that has the event
// pays for before it reads; and who sleeps is woken, which takes longer than what the call then
// needs where the processor's core sleeps too (docs/decisions/0059-lone-calls.md).
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstddef>

namespace beamline {

// Whether the calling thread is one of those that gRPC has for callbacks, by the name that it gives
// them. A version that calls back elsewhere, perhaps with something held, has no such threads.
bool IsCallbackPoller();

// On the stack of a thread that asks gRPC's queue for what comes next, for as long as it asks.
class PollTurn {
 public:
  // While calls are lone and another poller asks, one that `may_wait` waits until they are no more,
  // or nobody has asked for kMissed.
  explicit PollTurn(bool may_wait);
  ~PollTurn();
  PollTurn(const PollTurn&) = delete;
  PollTurn& operator=(const PollTurn&) = delete;

  static constexpr std::chrono::milliseconds kMissed{1};
  // Between looks of who waits.
  static constexpr std::chrono::milliseconds kPeriod{5};

 private:
  const bool is_poller_;
};

// The calling thread takes its time from now on: the others are not to wait for their turn.
void EndLonePolling();

// Read by the size of what came: it takes a thread's time.
inline constexpr size_t kLargeRead = 8192;

// How long pollers of lone calls look for the next one; zero: they sleep at once. From now on.
void SetPollSpin(std::chrono::microseconds spin);

// epoll_wait by `wait`, of any thread. A poller of lone calls looks again and again for as long as
// SetPollSpin has said, where the last one came within that time, and then sleeps. It lets others
// have its core meanwhile; where one takes it, pollers sleep at once for kYields times as long.
using EpollWait = int (*)(int fd, epoll_event* events, int most, int timeout_ms);
int WaitForEvents(EpollWait wait, int fd, epoll_event* events, int most, int timeout_ms);

inline constexpr int kYields = 256;

}  // namespace beamline
