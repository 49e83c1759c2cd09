#include "loadtest/run.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/build_info.h"
#include "base/file.h"
#include "base/standard_streams.h"
#include "client/target.h"
#include "fmt/format.h"
#include "loadtest/progress_line.h"
#include "loadtest/report/machine.h"
#include "loadtest/report/recorder.h"
#include "loadtest/report/report_page.h"
#include "loadtest/report/result_json.h"
#include "loadtest/report/seconds_csv.h"
#include "loadtest/report/terminal.h"
#include "loadtest/traffic/address.h"
#include "loadtest/traffic/batching.h"
#include "loadtest/traffic/connections.h"
#include "loadtest/traffic/generator.h"
#include "loadtest/traffic/metrics_scraper.h"
#include "loadtest/traffic/server_models.h"
#include "loadtest/traffic/status_name.h"
#include "loadtest/traffic/verifier.h"
#include "loadtest/workload/request_factory.h"

namespace beamline::loadtest {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kConnectTimeout{10'000};
constexpr double kLongestRun_s = 86'400;  // of --duration, too

std::atomic<bool> stop = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

// The second SIGINT ends the process at once.
void StopOnInterrupt() {
  stop = false;
  struct sigaction action {};
  action.sa_handler = [](int) { stop = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

nanoseconds FromSeconds(double seconds) {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
}

// The phases of the rate, after a warm-up at the first one's; empty without --phase. Sets rate and
// duration to what the phases come to.
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

// Of each second of the schedule; the last one may be a part of one.
std::vector<double> AskedPerSecond(const ArrivalOptions& arrivals, double end_s) {
  const RateProfile profile = ProfileOf(arrivals);
  std::vector<double> rates;
  for (double begin_s = 0; begin_s < end_s; begin_s += 1) {
    const double until_s = std::min(begin_s + 1, end_s);
    rates.push_back((profile.CountAt(until_s) - profile.CountAt(begin_s)) / (until_s - begin_s));
  }
  return rates;
}

LoadDescription DescribeLoad(const RunFlags& flags, const Workload& workload,
                             const TrafficOptions& options) {
  LoadDescription load{.duration_s = flags.duration_s,
                       .warmup_s = flags.warmup_s,
                       .seed = flags.seed,
                       .workload = workload.source};
  if (flags.concurrency > 0) {
    load.arrivals = "closed";
    load.concurrency = flags.concurrency;
  } else {
    load.arrivals = flags.arrivals;
    load.rate = flags.rate;
    load.batching = flags.batching;
    load.phases = flags.phases;
    load.asked_per_s = AskedPerSecond(*options.arrivals, flags.warmup_s + flags.duration_s);
  }
  return load;
}

Environment DescribeEnvironment(const RunFlags& flags, const std::string& command,
                                const std::vector<v1::Model>& models) {
  Environment environment{.date = UtcDate(),
                          .command = command,
                          .versions = {{"beamline", std::string(ThisBuild().version)},
                                       {"revision", std::string(ThisBuild().revision)},
                                       {"build", std::string(ThisBuild().build_type)},
                                       {"grpc", grpc::Version()},
                                       {"protobuf", std::to_string(GOOGLE_PROTOBUF_VERSION)},
                                       {"compiler", __VERSION__}},
                          .machine = DescribeMachine(),
                          .target = flags.target};
  for (const v1::Model& model : models) environment.models.push_back(DescribeModel(model));
  return environment;
}

// Requests that failed with a code that the flags do not expect.
int64_t CountUnexpected(const RunFlags& flags, const ClassSummary& total) {
  int64_t expected = 0;
  for (const std::string& code : flags.expected_codes) {
    const auto found = total.codes.find(code);
    if (found != total.codes.end()) expected += found->second;
  }
  return std::max<int64_t>(0, total.Count(Ending::kError) - expected);
}

absl::Status PrepareVerifier(const std::string& target, milliseconds timeout, Verifier& verifier) {
  const auto channel = Connect(target, kConnectTimeout);
  if (!channel.ok()) return channel.status();
  return verifier.RecordExpected(*v1::Inference::NewStub(*channel), timeout);
}

// Whether both would be written to one file, where the second takes the place of the first.
bool AreOneFile(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return false;
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(one, error);
  if (error || path != std::filesystem::weakly_canonical(other, error)) return false;
  return !std::filesystem::exists(path, error) || std::filesystem::is_regular_file(path, error);
}

// That every file can be written, and none twice.
absl::Status CheckOutputs(const RunFlags& flags) {
  const std::pair<const char*, const std::string&> outputs[] = {{"--json", flags.json_file},
                                                                {"--html", flags.html_file},
                                                                {"--csv", flags.csv_file},
                                                                {"--log", flags.log_file}};
  for (const auto& [flag, path] : outputs) {
    if (path.empty()) continue;
    if (const absl::Status status = CheckWritable(flag, path); !status.ok()) return status;
    for (const auto& [other_flag, other_path] : outputs) {
      if (&other_path == &path) break;
      if (!AreOneFile(path, other_path)) continue;
      return absl::InvalidArgumentError(
          fmt::format("{} is '{}', as {}; accepted: another file", flag, path, other_flag));
    }
  }
  return absl::OkStatus();
}

// What can be known before the test runs, however long it then takes.
absl::Status CheckFlags(const RunFlags& flags) {
  absl::Status status = CheckTarget("--target", flags.target);
  if (status.ok()) status = CheckOutputs(flags);
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

absl::Status WriteFiles(const RunFlags& flags, const RunReport& report) {
  absl::Status status;
  if (!flags.json_file.empty()) status = WriteResult(report, flags.json_file);
  if (status.ok() && !flags.html_file.empty()) status = WriteReportPage(report, flags.html_file);
  if (status.ok() && !flags.csv_file.empty()) status = WriteSecondsCsv(report, flags.csv_file);
  return status;
}

// What a run is made of, once its flags have been found to work together.
struct Test {
  RunFlags flags;
  Workload workload;
  TrafficOptions options;
  std::vector<v1::Model> models;
};

absl::StatusOr<Test> Prepare(const RunFlags& given) {
  Test test{.flags = given};
  if (const absl::Status status = CheckFlags(given); !status.ok()) return status;
  auto workload = LoadWorkload(given);
  if (!workload.ok()) return workload.status();
  test.workload = *std::move(workload);
  const auto phases = TakePhases(test.flags);
  if (!phases.ok()) return phases.status();
  auto options = MakeTrafficOptions(test.flags, *phases);
  if (!options.ok()) return options.status();
  test.options = *std::move(options);
  const auto channel = Connect(given.target, kConnectTimeout);
  if (!channel.ok()) return channel.status();
  auto models = ListModels(*channel);
  if (!models.ok()) return models.status();
  test.models = *std::move(models);
  const absl::Status status = ResolveModels(test.models, test.workload);
  return status.ok() ? absl::StatusOr<Test>(std::move(test)) : status;
}

// Sends the requests and waits for their ends; the server's metrics of that time, if asked for.
absl::StatusOr<std::optional<ServerSeries>> SendAll(const Test& test, const RequestFactory& factory,
                                                    Verifier* verifier, Recorder& recorder) {
  const RunFlags& flags = test.flags;
  std::unique_ptr<MetricsScraper> scraper;
  if (!flags.metrics_url.empty()) {
    auto opened = MetricsScraper::Open(flags.metrics_url);
    if (!opened.ok()) return opened.status();
    scraper = *std::move(opened);
  }
  StopOnInterrupt();
  auto connections = Connections::Open(flags.target, flags.num_connections, flags.num_threads);
  if (!connections.ok()) return connections.status();
  Generator generator(test.options, {.connections = **connections,
                                     .factory = factory,
                                     .recorder = recorder,
                                     .verifier = verifier,
                                     .stop = stop});
  if (scraper) scraper->Start();
  {
    const ProgressLine progress(recorder, generator, flags.warmup_s,
                                flags.warmup_s + flags.duration_s);
    generator.Run();
  }
  return scraper ? std::optional(scraper->Stop()) : std::nullopt;
}

}  // namespace

absl::StatusOr<bool> RunLoadTest(const RunFlags& given, const std::string& command) {
  const auto test = Prepare(given);
  if (!test.ok()) return test.status();
  const RunFlags& flags = test->flags;
  const Workload& workload = test->workload;
  const RequestFactory factory(workload, flags.seed);
  std::optional<Verifier> verifier;
  if (flags.verify) {
    verifier.emplace(factory, flags.verify_tolerance);
    const auto status = PrepareVerifier(flags.target, test->options.timeout, *verifier);
    if (!status.ok()) return status;
  }
  std::vector<ClassName> names;
  for (const RequestClass& of : workload.classes) names.push_back({of.name, KindName(of.kind)});
  Recorder recorder(names, flags.slo, FromSeconds(flags.warmup_s));
  if (!flags.log_file.empty()) {
    if (const auto status = recorder.OpenLog(flags.log_file); !status.ok()) return status;
  }
  auto server = SendAll(*test, factory, verifier ? &*verifier : nullptr, recorder);
  if (!server.ok()) return server.status();

  RunReport report{.label = flags.label,
                   .interrupted = stop,
                   .environment = DescribeEnvironment(flags, command, test->models),
                   .load = DescribeLoad(flags, workload, test->options),
                   .slo = flags.slo,
                   .summary = recorder.Summarize(),
                   .server = *std::move(server)};
  if (verifier) report.verification = verifier->Result();
  Print(FormatReport(report));
  if (const auto status = WriteFiles(flags, report); !status.ok()) return status;
  if (const auto status = recorder.CloseLog(); !status.ok()) return status;
  const bool answers_match = !report.verification || report.verification->num_mismatches == 0;
  return answers_match && CountUnexpected(flags, report.summary.total) == 0;
}

}  // namespace beamline::loadtest
