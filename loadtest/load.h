// What is sent where: prepared from flags, and sent. A test of one load sends it once, a search for
// a rate many times.
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
  RunFlags flags;  // with the rate and the duration that phases or a trace come to
  Target target;
  Workload workload;
  TrafficOptions options;
  std::vector<v1::Model> models;
  std::string server_version;
  std::shared_ptr<const Trace> trace;  // absent without --trace
  int64_t num_clipped = 0;             // of the trace's requests
};

// All that can be known before the first request is sent, however long the test then takes: the
// flags fit together, the server is there and has the models.
absl::StatusOr<Load> PrepareLoad(const RunFlags& flags);

// Another rate and duration, with other requests if the seed is another.
absl::Status SetRate(double rate, double duration_s, uint64_t seed, Load& load);

// From now on SIGINT ends what is under way and sets IsInterrupted; a second one ends the process.
void StopOnInterrupt();
bool IsInterrupted();

struct Sending {
  const RequestFactory& factory;
  Recorder& recorder;
  Verifier* verifier = nullptr;             // may be absent
  TraceRecorder* trace_recorder = nullptr;  // may be absent
  std::string progress_prefix;              // of the line on a terminal
};

// Sends the requests and waits for their ends; the server's metrics of that time, if asked for.
absl::StatusOr<std::optional<ServerSeries>> SendAll(const Load& load, const Sending& sending);

std::vector<ClassName> ClassNames(const Workload& workload);
LoadDescription DescribeLoad(const Load& load);
Environment DescribeEnvironment(const Load& load, const std::string& command);

}  // namespace beamline::loadtest
