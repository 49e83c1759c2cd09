#include "loadtest/find_rate.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/standard_streams.h"
#include "fmt/format.h"
#include "loadtest/load.h"
#include "loadtest/output_files.h"
#include "loadtest/report/text_table.h"
#include "loadtest/search/search_json.h"
#include "loadtest/search/search_page.h"
#include "loadtest/search/search_report.h"
#include "loadtest/workload/request_factory.h"

namespace beamline::loadtest {
namespace {

using std::chrono::duration;
using std::chrono::nanoseconds;

// Longest reaction time to an interrupt.
constexpr std::chrono::milliseconds kStopInterval{50};

absl::StatusOr<ProbeLimits> MakeLimits(const FindRateFlags& flags, const Workload& workload) {
  ProbeLimits limits{.max_error_share = flags.max_error_share,
                     .max_lateness_ms = flags.max_lateness_ms,
                     .min_answered = flags.min_answered_share};
  const bool any_stream = std::ranges::any_of(
      workload.classes, [](const RequestClass& of) { return of.kind == Kind::kGenerateStream; });
  for (const std::string& text : flags.limits) {
    const auto objective = ParseObjective("--slo", text);
    if (!objective.ok()) return objective.status();
    if (objective->IsOfStreams() && !any_stream) {
      return absl::InvalidArgumentError(
          fmt::format("--slo is '{}'; accepted without generate_stream: limits of e2e", text));
    }
    limits.objectives.push_back(*objective);
  }
  return limits;
}

// Runs the probes one after the other and collects their results.
class Searcher {
 public:
  Searcher(const FindRateFlags& flags, Load load, SearchReport& report)
      : flags_(flags),
        load_(std::move(load)),
        report_(report),
        search_(report.range, flags.tries) {}

  // Returns an error if a probe could not run.
  absl::Status Run() {
    StopOnInterrupt();
    report_.end = SearchEnd::kFound;
    absl::Status status;
    while (status.ok()) {
      const auto rate = search_.Next();
      if (!rate) break;
      const double duration_s =
          std::max(flags_.run.duration_s, static_cast<double>(flags_.min_requests) / *rate);
      const double rest_s = report_.probes.empty() ? 0 : flags_.settle_s;
      const double probe_s = rest_s + flags_.run.warmup_s + duration_s;
      if (report_.probes.empty()) report_.first_probe_s = probe_s;
      const double left_s = flags_.max_time_s - Elapsed() - probe_s;
      if (left_s < 0) {
        report_.end = SearchEnd::kOutOfTime;
        break;
      }
      if (!report_.probes.empty()) Rest();
      if (!IsInterrupted()) status = RunProbe(*rate, duration_s, left_s);
      if (IsInterrupted()) {
        report_.end = SearchEnd::kInterrupted;
        break;
      }
    }
    report_.elapsed_s = Elapsed();
    if (!status.ok()) {
      report_.end = SearchEnd::kBroken;
      report_.fault = std::string(status.message());
    } else if (report_.end == SearchEnd::kFound) {
      if (!search_.holding()) report_.end = SearchEnd::kLowestFails;
      if (!search_.failing()) report_.end = SearchEnd::kHighestHolds;
    }
    return status;
  }

 private:
  double Elapsed() const {
    return duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  // Lets an overloaded server empty its queues before the next probe.
  void Rest() const {
    const auto end = std::chrono::steady_clock::now() + duration<double>(flags_.settle_s);
    while (!IsInterrupted() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(
          std::min<duration<double>>(kStopInterval, end - std::chrono::steady_clock::now()));
    }
  }

  // left_s: time for the last answers within the search's time limit.
  absl::Status RunProbe(double rate, double duration_s, double left_s) {
    load_.flags.drain_s = std::min(flags_.run.drain_s, left_s);
    // A seed per probe: requests of the probe before are in the server's caches.
    const uint64_t seed = flags_.run.seed + report_.probes.size();
    if (absl::Status status = SetRate(rate, duration_s, seed, load_); !status.ok()) return status;
    const RequestFactory factory(load_.workload, seed);
    Recorder recorder(
        ClassNames(load_.workload), {},
        std::chrono::duration_cast<nanoseconds>(duration<double>(load_.flags.warmup_s)),
        load_.options.duration);
    const auto sent =
        SendAll(load_, {.factory = factory,
                        .recorder = recorder,
                        .progress_prefix = fmt::format("{:>2}  {}/s  ", report_.probes.size() + 1,
                                                       FormatNumber(rate))});
    if (!sent.ok()) return sent.status();
    const RunSummary summary = recorder.Summarize();
    Probe probe{.rate = rate,
                .duration_s = duration_s,
                .warmup_s = load_.flags.warmup_s,
                .sent_per_s = static_cast<double>(summary.total.NumRequests()) / duration_s,
                .answered_per_s = static_cast<double>(summary.num_answered_in_time) / duration_s,
                .total = summary.total,
                .interrupted = IsInterrupted()};
    Judge(report_.limits, probe);
    if (!probe.interrupted) search_.Add(rate, probe.holds);
    if (isatty(STDERR_FILENO) == 1) fmt::print(stderr, "{}\n", FormatProbe(probe));
    report_.probes.push_back(std::move(probe));
    return absl::OkStatus();
  }

  const FindRateFlags& flags_;
  Load load_;
  SearchReport& report_;
  RateSearch search_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

absl::Status WriteFiles(const RunFlags& flags, const SearchReport& report) {
  absl::Status status;
  if (!flags.json_file.empty()) status = WriteSearchJson(report, flags.json_file);
  if (status.ok() && !flags.html_file.empty()) {
    status = WriteFile("--html", flags.html_file, SearchPage(report));
  }
  if (status.ok() && !flags.csv_file.empty()) {
    status = WriteFile("--csv", flags.csv_file, SearchCsv(report));
  }
  return status;
}

}  // namespace

absl::StatusOr<bool> FindRate(const FindRateFlags& flags, const std::string& command) {
  if (flags.min_rate > flags.max_rate) {
    return absl::InvalidArgumentError(
        fmt::format("--min-rate is {}; accepted: at most the {} of "
                    "--max-rate",
                    flags.min_rate, flags.max_rate));
  }
  const absl::Status outputs = CheckOutputs({{"--json", flags.run.json_file},
                                             {"--html", flags.run.html_file},
                                             {"--csv", flags.run.csv_file}});
  if (!outputs.ok()) return outputs;
  auto load = PrepareLoad(flags.run);
  if (!load.ok()) return load.status();
  const auto limits = MakeLimits(flags, load->workload);
  if (!limits.ok()) return limits.status();

  SearchReport report{.label = flags.run.label,
                      .environment = DescribeEnvironment(*load, command),
                      .load = DescribeLoad(*load),
                      .range = {.lowest = flags.min_rate,
                                .highest = flags.max_rate,
                                .growth = flags.growth,
                                .precision = flags.precision},
                      .tries = flags.tries,
                      .limits = *limits,
                      .settle_s = flags.settle_s,
                      .max_time_s = flags.max_time_s};
  report.load.rate.reset();
  report.load.asked_per_s.clear();
  Searcher searcher(flags, *std::move(load), report);
  const absl::Status searched = searcher.Run();
  if (!searched.ok() && report.probes.empty()) return searched;
  Print(FormatSearch(report));
  if (absl::Status written = WriteFiles(flags.run, report); !written.ok()) return written;
  if (!searched.ok()) return searched;
  if (!report.HasVerdict()) return absl::FailedPreconditionError(report.Conclusion());
  return report.Highest().has_value();
}

}  // namespace beamline::loadtest
