// The answer to clients that speak HTTP/1.1 where gRPC is spoken: one line that says so.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "server/net/unique_fd.h"

namespace beamline {

// Whether these are the first bytes of an HTTP/1.1 request, its whole method among them.
bool IsPlainHttp(std::string_view begin);

// One thread's.
class HttpFarewell {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // For this time an answered connection stays open: the end of a socket that has bytes still to be
  // read takes the answer with it.
  static constexpr std::chrono::milliseconds kStay{1000};
  // So many stay at once; the oldest goes when there are more.
  static constexpr size_t kMost = 16;

  // `line` is answered; without an end.
  explicit HttpFarewell(std::string_view line);

  // Answers, and ends the connection after a moment. `fd` does not block.
  void Answer(UniqueFd fd, TimePoint now);
  // When CloseOverdue has something to do next.
  std::optional<TimePoint> NextDeadline() const;
  void CloseOverdue(TimePoint now);

 private:
  struct Leaving {
    UniqueFd fd;
    TimePoint deadline;
  };

  void CloseOldest();

  const std::string answer_;
  std::deque<Leaving> leaving_;  // in the order of their deadlines
};

}  // namespace beamline
