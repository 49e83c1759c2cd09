#include "loadtest/report/record.h"

namespace beamline::loadtest {
namespace {

using std::chrono::nanoseconds;

bool Within(std::optional<nanoseconds> time, std::optional<double> limit_ms) {
  if (!time || !limit_ms) return true;
  return std::chrono::duration<double, std::milli>(*time).count() <= *limit_ms;
}

}  // namespace

const char* EndingName(Ending ending) {
  switch (ending) {
    case Ending::kOk:
      return "ok";
    case Ending::kCancelled:
      return "cancelled";
    case Ending::kDeadline:
      return "deadline";
    case Ending::kStopped:
      return "stopped";
    case Ending::kError:
      return "error";
  }
  return "unknown";
}

std::optional<nanoseconds> RequestRecord::TimeToFirstToken() const {
  if (token_times.empty()) return std::nullopt;
  return token_times.front() - intended;
}

std::optional<nanoseconds> RequestRecord::TimePerOutputToken() const {
  if (token_times.empty() || longest_sequence < 2) return std::nullopt;
  return (token_times.back() - token_times.front()) / (longest_sequence - 1);
}

bool Slo::IsMetBy(const RequestRecord& record) const {
  return record.ending == Ending::kOk && Within(record.TimeToFirstToken(), ttft_ms) &&
         Within(record.TimePerOutputToken(), itl_ms) && Within(record.EndToEnd(), e2e_ms);
}

}  // namespace beamline::loadtest
