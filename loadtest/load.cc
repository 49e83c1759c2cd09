#include "loadtest/load.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/build_info.h"
#include "base/text.h"
#include "client/client_room.h"
#include "client/target.h"
#include "fmt/format.h"
#include "loadtest/progress_line.h"
#include "loadtest/report/machine.h"
#include "loadtest/traffic/address.h"
#include "loadtest/traffic/batching.h"
#include "loadtest/traffic/connections.h"
#include "loadtest/traffic/metrics_scraper.h"
#include "loadtest/traffic/server_models.h"
#include "loadtest/traffic/status_name.h"
#include "loadtest/workload/request_factory.h"
#include "loadtest/workload/trace_lengths.h"

namespace beamline::loadtest {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

std::atomic<bool> stop = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

nanoseconds FromSeconds(double seconds) {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
}

// The phases of the rate, after a warm-up at the first one's start rate; empty without --phase.
// Sets flags.rate to the mean of the phases and flags.duration_s to their sum.
absl::StatusOr<std::vector<RatePhase>> TakePhases(RunFlags& flags) {
  std::vector<RatePhase> phases;
  double seconds = 0, count = 0;
  for (const std::string& text : flags.phases) {
    const auto phase = ParseRatePhase("--phase", text);
    if (!phase.ok()) return phase.status();
    seconds += phase->seconds;
    count += phase->seconds * (phase->from + phase->to) / 2;
    phases.push_back(*phase);
  }
  if (phases.empty()) return phases;
  if (count <= 0 || seconds > kLongestRun_s) {
    return absl::InvalidArgumentError(
        fmt::format("--phase asks for {} requests in {} s; accepted: some, in at most {} s", count,
                    seconds, kLongestRun_s));
  }
  flags.duration_s = seconds;
  flags.rate = count / seconds;
  if (flags.warmup_s > 0) {
    const double first = phases.front().from;
    phases.insert(phases.begin(), {.from = first, .to = first, .seconds = flags.warmup_s});
  }
  return phases;
}

absl::StatusOr<TrafficOptions> MakeTrafficOptions(const RunFlags& flags,
                                                  const std::vector<RatePhase>& phases) {
  TrafficOptions options;
  options.duration = FromSeconds(flags.warmup_s + flags.duration_s);
  options.num_requests = flags.num_requests;
  options.num_clients = static_cast<uint64_t>(flags.num_clients);
  options.timeout = std::chrono::duration_cast<milliseconds>(FromSeconds(flags.timeout_s));
  options.drain = FromSeconds(flags.drain_s);
  const auto batching = ParseBatching(flags.batching);
  if (!batching.ok()) return batching.status();
  options.batching = *batching;
  if (flags.concurrency > 0) {
    if (batching->size > 0) {
      return absl::InvalidArgumentError("--batching is for open loops, not for --concurrency");
    }
    options.max_in_flight = static_cast<size_t>(flags.concurrency);
    return options;
  }
  const auto kind = ParseArrivalKind(flags.arrivals);
  if (!kind.ok()) return kind.status();
  options.max_in_flight = static_cast<size_t>(flags.max_in_flight);
  options.arrivals = ArrivalOptions{.kind = *kind,
                                    .rate = flags.rate,
                                    .phases = phases,
                                    .burst_size = flags.burst_size,
                                    .seed = flags.seed};
  return options;
}

// The trace at its speed, with at most --requests requests. Sets flags.rate and flags.duration_s to
// match.
absl::StatusOr<Trace> TakeTrace(RunFlags& flags) {
  auto trace = ReadTrace(flags.trace_file);
  if (!trace.ok()) return trace;
  if (flags.num_requests > 0 && flags.num_requests < trace->size()) {
    trace->resize(flags.num_requests);
  }
  const double seconds =
      std::chrono::duration<double>(trace->back().time).count() / flags.trace_speed;
  const std::string file = Shorten(flags.trace_file);
  if (seconds > kLongestRun_s) {
    return absl::InvalidArgumentError(
        fmt::format("--trace {} takes {:.0f} s; accepted: at most {} s, --trace-speed shortens it",
                    file, seconds, kLongestRun_s));
  }
  if (flags.warmup_s > 0 && flags.warmup_s >= seconds) {
    return absl::InvalidArgumentError(
        fmt::format("--warmup is {}; accepted: less than the {:.3f} s of --trace {}",
                    flags.warmup_s, seconds, file));
  }
  if (flags.trace_speed != 1) {
    for (TraceEntry& entry : *trace) {
      entry.time =
          nanoseconds(std::llround(static_cast<double>(entry.time.count()) / flags.trace_speed));
    }
  }
  const auto count = static_cast<double>(trace->size());
  flags.rate = count / std::max(seconds, 1e-3);
  flags.duration_s = seconds - flags.warmup_s;
  return trace;
}

// REQUIRES: the workload's models are resolved.
absl::Status PrepareTrace(Load& load) {
  if (load.flags.trace_file.empty()) return absl::OkStatus();
  if (!load.options.arrivals || !load.flags.phases.empty()) {
    return absl::InvalidArgumentError("--trace excludes --concurrency and --phase");
  }
  const auto lengths = ParseLongLengths("--trace-lengths", load.flags.trace_lengths);
  if (!lengths.ok()) return lengths.status();
  if (absl::Status status = CheckTraceWorkload(load.workload); !status.ok()) return status;
  auto trace = TakeTrace(load.flags);
  if (!trace.ok()) return trace.status();
  const RequestFactory factory(load.workload, load.flags.seed);
  const auto num_clipped =
      FitTrace("--trace " + Shorten(load.flags.trace_file), factory, *lengths, *trace);
  if (!num_clipped.ok()) return num_clipped.status();
  load.num_clipped = *num_clipped;
  load.options.duration = trace->back().time + nanoseconds(1);  // the last one is sent, too
  load.trace = std::make_shared<const Trace>(*std::move(trace));
  load.options.num_requests = load.trace->size();
  load.options.arrivals->trace = load.trace;
  return absl::OkStatus();
}

absl::Status CheckFlags(const RunFlags& flags) {
  absl::Status status = CheckTarget("--target", flags.target);
  if (status.ok() && !flags.metrics_url.empty()) {
    status = CheckMetricsUrl("--metrics", flags.metrics_url, flags.allow_remote);
  }
  for (const std::string& code : flags.expected_codes) {
    if (status.ok()) status = CheckStatusName("--expect-code", code);
  }
  if (status.ok() && !flags.allow_remote && !IsLoopback(flags.target)) {
    status = absl::PermissionDeniedError(fmt::format(
        "{} is not on this machine; --allow-remote loads it all the same", flags.target));
  }
  return status;
}

// Room for the threads and descriptors of the verifier's connection, the scraper and output files
// as well.
absl::Status CheckRoom(const RunFlags& flags) {
  constexpr int kMoreThreads = 13;
  constexpr int kMoreDescriptors = 8;
  return CheckClientRoom(kMoreThreads + flags.num_threads,
                         kMoreDescriptors + flags.num_connections);
}

}  // namespace

absl::StatusOr<Load> PrepareLoad(const RunFlags& given) {
  Load load{.flags = given};
  if (const absl::Status status = CheckFlags(given); !status.ok()) return status;
  auto workload = LoadWorkload(given);
  if (!workload.ok()) return workload.status();
  load.workload = *std::move(workload);
  if (!given.record_trace_file.empty()) {
    const absl::Status status = TraceRecorder::Check(load.workload);
    if (!status.ok()) return status;
  }
  const auto phases = TakePhases(load.flags);
  if (!phases.ok()) return phases.status();
  auto options = MakeTrafficOptions(load.flags, *phases);
  if (!options.ok()) return options.status();
  load.options = *std::move(options);
  auto connection = ReadConnectionOptions(given.connection);
  if (!connection.ok()) return connection.status();
  load.target = {given.target, connection->tls, connection->token};
  if (absl::Status room = CheckRoom(given); !room.ok()) return room;
  const auto channel = Connect(load.target, kConnectTimeout);
  if (!channel.ok()) return channel.status();
  auto models = ListModels(*channel);
  if (!models.ok()) return models.status();
  load.models.assign(models->models().begin(), models->models().end());
  load.server_version = models->server_version();
  absl::Status status = ResolveModels(load.models, load.workload);
  if (status.ok()) status = PrepareTrace(load);
  return status.ok() ? absl::StatusOr<Load>(std::move(load)) : status;
}

absl::Status SetRate(double rate, double duration_s, uint64_t seed, Load& load) {
  load.flags.rate = rate;
  load.flags.duration_s = duration_s;
  load.flags.seed = seed;
  auto options = MakeTrafficOptions(load.flags, {});
  if (!options.ok()) return options.status();
  load.options = *std::move(options);
  return absl::OkStatus();
}

void StopOnInterrupt() {
  stop = false;
  struct sigaction action {};
  action.sa_handler = [](int) { stop = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

bool IsInterrupted() { return stop; }

absl::StatusOr<std::optional<ServerSeries>> SendAll(const Load& load, const Sending& sending) {
  const RunFlags& flags = load.flags;
  std::unique_ptr<MetricsScraper> scraper;
  if (!flags.metrics_url.empty()) {
    auto opened = MetricsScraper::Open(flags.metrics_url);
    if (!opened.ok()) return opened.status();
    scraper = *std::move(opened);
  }
  auto connections = Connections::Open(load.target, flags.num_connections, flags.num_threads);
  if (!connections.ok()) return connections.status();
  Generator generator(load.options, {.connections = **connections,
                                     .factory = sending.factory,
                                     .recorder = sending.recorder,
                                     .verifier = sending.verifier,
                                     .stop = stop,
                                     .trace_recorder = sending.trace_recorder});
  if (scraper) scraper->Start();
  {
    const ProgressLine progress(sending.recorder, generator, flags.warmup_s,
                                flags.warmup_s + flags.duration_s, sending.progress_prefix);
    generator.Run();
  }
  return scraper ? std::optional(scraper->Stop()) : std::nullopt;
}

std::vector<ClassName> ClassNames(const Workload& workload) {
  std::vector<ClassName> names;
  for (const RequestClass& of : workload.classes) names.push_back({of.name, KindName(of.kind)});
  return names;
}

LoadDescription DescribeLoad(const Load& load) {
  const RunFlags& flags = load.flags;
  LoadDescription description{.duration_s = flags.duration_s,
                              .warmup_s = flags.warmup_s,
                              .seed = flags.seed,
                              .workload = load.workload.source};
  if (flags.concurrency > 0) {
    description.arrivals = "closed";
    description.concurrency = flags.concurrency;
    return description;
  }
  description.arrivals = flags.arrivals;
  description.rate = flags.rate;
  description.batching = flags.batching;
  description.phases = flags.phases;
  description.asked_per_s =
      AskedPerSecond(*load.options.arrivals, flags.warmup_s + flags.duration_s);
  if (load.trace) {
    description.arrivals = "trace";
    description.trace = TraceDescription{.file = flags.trace_file,
                                         .speed = flags.trace_speed,
                                         .num_requests = static_cast<int64_t>(load.trace->size()),
                                         .num_clipped = load.num_clipped};
  }
  return description;
}

Environment DescribeEnvironment(const Load& load, const std::string& command) {
  Environment environment{
      .date = UtcDate(),
      .command = command,
      .versions = {{"beamline", std::string(ThisBuild().version)},
                   {"revision", std::string(ThisBuild().revision)},
                   {"build", std::string(ThisBuild().build_type)},
                   {"grpc", grpc::Version()},
                   {"protobuf", fmt::format("{}.{}.{}", GOOGLE_PROTOBUF_VERSION / 1'000'000,
                                            GOOGLE_PROTOBUF_VERSION / 1000 % 1000,
                                            GOOGLE_PROTOBUF_VERSION % 1000)},
                   {"compiler", __VERSION__}},
      .machine = DescribeMachine(),
      .target = load.flags.target,
      .server_version = load.server_version};
  for (const v1::Model& model : load.models) environment.models.push_back(DescribeModel(model));
  return environment;
}

}  // namespace beamline::loadtest
