// beamline-loadtest: loads a Beamline server and measures the latency that its clients would see.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/synchronization/mutex.h"
#include "base/build_info.h"
#include "base/command_documents.h"
#include "base/command_line.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "client/library_logs.h"
#include "fmt/format.h"
#include "loadtest/find_rate.h"
#include "loadtest/options.h"
#include "loadtest/plan.h"
#include "loadtest/report/compare.h"
#include "loadtest/report/plot.h"
#include "loadtest/run.h"

namespace beamline::loadtest {
namespace {

// Exit codes: 0: success. 1: requests failed, answers differed, no rate holds, or a result is
// worse. 2: the test could not run or measured nothing.
constexpr int kCannotRun = 2;

int Complain(const absl::Status& status) {
  fmt::print(stderr, "{}", ErrorLine("beamline-loadtest", status));
  return kCannotRun;
}

// The exit code of the test, unless its output was lost.
int End(int exit_code) {
  const absl::Status status = FlushStandardOutput();
  return status.ok() ? exit_code : Complain(status);
}

// Quotes the argument for a shell.
std::string Quoted(const std::string& argument) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
    return argument;
  }
  std::string quoted = "'";
  for (const char c : argument) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

int CompareResults(const CompareFlags& flags) {
  if (!flags.plot_file.empty()) {
    if (const absl::Status status = CheckPlotPath(flags.plot_file); !status.ok()) {
      return Complain(status);
    }
  }
  std::vector<Result> results;
  for (const std::string& file : flags.files) {
    auto result = ReadResult(file);
    if (!result.ok()) return Complain(result.status());
    results.push_back(*std::move(result));
  }
  std::optional<double> threshold;
  if (flags.threshold_percent) threshold = *flags.threshold_percent / 100;
  if (threshold && results.size() < 2) {
    return Complain(absl::InvalidArgumentError(
        "--threshold is given, and one result; accepted: two results or more"));
  }
  const ResultComparison comparison = Compare(results, threshold);
  Print(comparison.text);
  if (!flags.plot_file.empty()) {
    const absl::Status written = WritePlot(results, flags.plot_file);
    if (!written.ok()) return Complain(written);
  }
  return End(comparison.is_worse ? 1 : 0);
}

std::vector<ManualSection> Manual() {
  return {{"Exit status",
           {"0: All is well.",
            "1: Requests failed, answers differed, no rate holds, or a result is worse by more "
            "than --threshold.",
            "2: The test could not be run, or measured nothing: a wrong command line, a server "
            "that does not answer, a file that cannot be written, a search whose --max-time ends "
            "before its first probe, limits of threads or open files (ulimit -u, ulimit -n) that "
            "leave no room for it."}},
          {"See also", {"beamline(1), beamline-server(1)"}}};
}

int Main(int argc, char** argv) {
  DropLibraryLogs();
  PrepareStandardStreams();
  // Debian's abseil, and so gRPC, would otherwise track the mutexes that each thread holds.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("Loads a Beamline server and measures what its clients would see.",
               "beamline-loadtest");
  app.set_version_flag("--version", VersionLine("beamline-loadtest"));
  app.require_subcommand(1);
  RunFlags run_flags;
  FindRateFlags find_rate_flags;
  RunFlags plan_flags;
  CompareFlags compare_flags;
  CLI::App* const run = app.add_subcommand("run", "run a load test");
  CLI::App* const find_rate =
      app.add_subcommand("find-rate", "search the highest rate that a server holds");
  CLI::App* const plan =
      app.add_subcommand("plan", "write down what a run would send when, for loadtest/peers");
  CLI::App* const compare = app.add_subcommand("compare", "compare results");
  AddRunFlags(*run, run_flags);
  AddFindRateFlags(*find_rate, find_rate_flags);
  AddPlanFlags(*plan, plan_flags);
  AddCompareFlags(*compare, compare_flags);
  AddCompletionCommand(app);
  app.footer(
      "Examples:\n"
      "  beamline-loadtest run --rate 50 --duration 10 --json after.json\n"
      "  beamline-loadtest compare before.json after.json --threshold 10\n");
  AddManPageFlag(app, fmt::format("beamline-loadtest {}", ThisBuild().version), Manual());
  const auto text = ParseArguments(app, argc, argv);
  if (!text.ok()) return Complain(text.status());
  if (!text->empty()) {
    Print(*text);
    return End(0);
  }
  if (compare->parsed()) return CompareResults(compare_flags);
  if (plan->parsed()) {
    const absl::Status status = PlanLoadTest(plan_flags);
    return status.ok() ? End(0) : Complain(status);
  }

  std::string command;
  for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + Quoted(argv[i]);
  const auto succeeded =
      find_rate->parsed() ? FindRate(find_rate_flags, command) : RunLoadTest(run_flags, command);
  if (!succeeded.ok()) return Complain(succeeded.status());
  return End(*succeeded ? 0 : 1);
}

}  // namespace
}  // namespace beamline::loadtest

int main(int argc, char** argv) { return beamline::loadtest::Main(argc, argv); }
