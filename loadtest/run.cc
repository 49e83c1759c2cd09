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

#include "base/file.h"
#include "client/target.h"
#include "fmt/format.h"
#include "loadtest/report/machine.h"
#include "loadtest/report/recorder.h"
#include "loadtest/report/result_json.h"
#include "loadtest/report/terminal.h"
#include "loadtest/traffic/address.h"
#include "loadtest/traffic/batching.h"
#include "loadtest/traffic/connections.h"
#include "loadtest/traffic/generator.h"
#include "loadtest/traffic/server_models.h"
#include "loadtest/traffic/status_name.h"
#include "loadtest/traffic/verifier.h"
#include "loadtest/workload/request_factory.h"

namespace beamline::loadtest {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kConnectTimeout{10'000};

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

absl::StatusOr<TrafficOptions> MakeTrafficOptions(const RunFlags& flags) {
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
  options.arrivals = ArrivalOptions{
      .kind = *kind, .rate = flags.rate, .burst_size = flags.burst_size, .seed = flags.seed};
  return options;
}

LoadDescription DescribeLoad(const RunFlags& flags, const Workload& workload) {
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
  }
  return load;
}

Environment DescribeEnvironment(const RunFlags& flags, const std::string& command,
                                const std::vector<v1::Model>& models) {
  Environment environment{.date = UtcDate(),
                          .command = command,
                          .versions = {{"beamline", BEAMLINE_VERSION},
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

// What can be known before the test runs, however long it then takes.
absl::Status CheckFlags(const RunFlags& flags) {
  absl::Status status = CheckTarget("--target", flags.target);
  if (status.ok() && !flags.json_file.empty()) status = CheckWritable("--json", flags.json_file);
  if (status.ok() && !flags.log_file.empty()) status = CheckWritable("--log", flags.log_file);
  if (status.ok() && AreOneFile(flags.json_file, flags.log_file)) {
    status = absl::InvalidArgumentError(
        fmt::format("--log is '{}', as --json; accepted: another file", flags.log_file));
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

}  // namespace

absl::StatusOr<bool> RunLoadTest(const RunFlags& flags, const std::string& command) {
  if (const absl::Status status = CheckFlags(flags); !status.ok()) return status;
  auto workload = LoadWorkload(flags);
  if (!workload.ok()) return workload.status();
  const auto options = MakeTrafficOptions(flags);
  if (!options.ok()) return options.status();
  const auto channel = Connect(flags.target, kConnectTimeout);
  if (!channel.ok()) return channel.status();
  const auto models = ListModels(*channel);
  if (!models.ok()) return models.status();
  if (const auto status = ResolveModels(*models, *workload); !status.ok()) return status;

  const RequestFactory factory(*workload, flags.seed);
  std::optional<Verifier> verifier;
  if (flags.verify) {
    verifier.emplace(factory, flags.verify_tolerance);
    const auto status = PrepareVerifier(flags.target, options->timeout, *verifier);
    if (!status.ok()) return status;
  }
  std::vector<ClassName> names;
  for (const RequestClass& of : workload->classes) names.push_back({of.name, KindName(of.kind)});
  Recorder recorder(names, flags.slo, FromSeconds(flags.warmup_s));
  if (!flags.log_file.empty()) {
    if (const auto status = recorder.OpenLog(flags.log_file); !status.ok()) return status;
  }

  StopOnInterrupt();
  {
    auto connections = Connections::Open(flags.target, flags.num_connections, flags.num_threads);
    if (!connections.ok()) return connections.status();
    Generator generator(*options, {.connections = **connections,
                                   .factory = factory,
                                   .recorder = recorder,
                                   .verifier = verifier ? &*verifier : nullptr,
                                   .stop = stop});
    generator.Run();
  }

  RunReport report{.label = flags.label,
                   .interrupted = stop,
                   .environment = DescribeEnvironment(flags, command, *models),
                   .load = DescribeLoad(flags, *workload),
                   .slo = flags.slo,
                   .summary = recorder.Summarize()};
  if (verifier) report.verification = verifier->Result();
  fmt::print("{}", FormatReport(report));
  if (!flags.json_file.empty()) {
    if (const auto status = WriteResult(report, flags.json_file); !status.ok()) return status;
  }
  if (const auto status = recorder.CloseLog(); !status.ok()) return status;
  const bool answers_match = !report.verification || report.verification->num_mismatches == 0;
  return answers_match && CountUnexpected(flags, report.summary.total) == 0;
}

}  // namespace beamline::loadtest
