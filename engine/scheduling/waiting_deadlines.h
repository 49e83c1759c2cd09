// The deadlines of the jobs that wait, ordered so that of thousands those alone are looked at that
// are due, and a few that nearly are. Not thread safe; no clock.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/api/request.h"

namespace beamline {

// Of a request's whole time, what there is for each of its steps. By the whole deadline, not by
// what is left: that swings with the queue, and the width that follows it with its steps' time.
// REQUIRES: it has a deadline.
template <typename JobType>
double SecondsOfStep(const JobType& job) {
  const auto whole = std::chrono::duration<double>(*job.deadline - job.rank.arrival);
  return whole.count() / static_cast<double>(job.steps);
}

// JobType: a Job, whose deadline, arrival and steps do not change while it is here.
template <typename JobType>
class WaitingDeadlines {
 public:
  void Add(JobType& job) {
    if (!job.deadline.has_value()) return;
    by_steps_[MostSteps(job)].emplace(*job.deadline, &job);
    step_seconds_.insert(SecondsOfStep(job));
  }
  // REQUIRES: it was added.
  void Remove(JobType& job) {
    if (!job.deadline.has_value()) return;
    const auto of = by_steps_.find(MostSteps(job));
    BEAMLINE_CHECK(of != by_steps_.end() && of->second.erase({*job.deadline, &job}) == 1);
    if (of->second.empty()) by_steps_.erase(of);
    step_seconds_.erase(step_seconds_.find(SecondsOfStep(job)));
  }
  // The least SecondsOfStep; infinite: no job has a deadline.
  double step_seconds() const {
    return step_seconds_.empty() ? std::numeric_limits<double>::infinity() : *step_seconds_.begin();
  }
  // Adds to `due` those that are overdue, and those that would be before they were of use, when
  // each step takes so long. Returns how many it looked at.
  int64_t FindDue(Clock::time_point now, double seconds_of_step, std::vector<JobType*>& due) const {
    int64_t looked_at = 0;
    for (const auto& [most_steps, jobs] : by_steps_) {
      const double most = seconds_of_step * static_cast<double>(most_steps);
      for (const auto& [deadline, job] : jobs) {
        ++looked_at;
        const double left = std::chrono::duration<double>(deadline - now).count();
        if (left > 0 && left >= most) break;
        const double needed = seconds_of_step * static_cast<double>(job->steps_to_use());
        if (left <= 0 || left < needed) due.push_back(job);
      }
    }
    return looked_at;
  }

 private:
  // The number of steps, rounded up to four binary digits: what takes about as long lies together,
  // by deadlines, and behind the first that is not due none is.
  static int64_t MostSteps(const JobType& job) {
    const auto steps = static_cast<uint64_t>(std::max<int64_t>(1, job.steps_to_use()));
    const int unkept = std::max(0, static_cast<int>(std::bit_width(steps)) - 4);
    const uint64_t step = uint64_t{1} << unkept;
    return static_cast<int64_t>((steps + step - 1) / step * step);
  }

  std::map<int64_t, std::set<std::pair<Clock::time_point, JobType*>>> by_steps_;
  std::multiset<double> step_seconds_;
};

}  // namespace beamline
