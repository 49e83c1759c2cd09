// Prepares a load from flags and sends it. A load test sends it once, a rate search many times.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamline/v1/models.pb.h"
#include "loadtest/options.h"
#include "loadtest/report/recorder.h"
#include "loadtest/traffic/generator.h"
#include "loadtest/workload/trace.h"

namespace beamline::loadtest {

inline constexpr std::chrono::milliseconds kConnectTimeout{10'000};
inline constexpr double kLongestRun_s = 86'400;

struct Load {
  RunFlags flags;  // with the mean rate and the duration of phases or a trace
  Target target;
  Workload workload;
  TrafficOptions options;
  std::vector<v1::Model> models;
  std::string server_version;
  std::shared_ptr<const Trace> trace;  // absent without --trace
  int64_t num_clipped = 0;             // requests of the trace that were clipped
};

// Makes all checks that are possible before the first request is sent: the flags fit together, and
// the server answers and has the models.
absl::StatusOr<Load> PrepareLoad(const RunFlags& flags);

// Sets another rate and duration. Another seed gives other requests.
absl::Status SetRate(double rate, double duration_s, uint64_t seed, Load& load);

// From now on SIGINT ends the current run and sets IsInterrupted; a second SIGINT ends the process.
void StopOnInterrupt();
bool IsInterrupted();

struct Sending {
  const RequestFactory& factory;
  Recorder& recorder;
  Verifier* verifier = nullptr;             // may be absent
  TraceRecorder* trace_recorder = nullptr;  // may be absent
  std::string progress_prefix;              // start of the progress line
};

// Sends the requests and waits for their ends. Returns the server's metrics of that time, if
// requested.
absl::StatusOr<std::optional<ServerSeries>> SendAll(const Load& load, const Sending& sending);

std::vector<ClassName> ClassNames(const Workload& workload);
LoadDescription DescribeLoad(const Load& load);
Environment DescribeEnvironment(const Load& load, const std::string& command);

}  // namespace beamline::loadtest
