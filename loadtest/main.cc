// beamline-loadtest: loads a Beamline server and measures what its clients would see.
#include "CLI/CLI.hpp"
#include "client/library_logs.h"
#include "fmt/format.h"
#include "loadtest/options.h"
#include "loadtest/report/compare.h"
#include "loadtest/report/plot.h"
#include "loadtest/run.h"

namespace beamline::loadtest {
namespace {

// Exit codes: 0 all is well, 1 requests failed or answers differed, 2 the test could not be run.
constexpr int kCannotRun = 2;

int Complain(const absl::Status& status) {
  fmt::print(stderr, "beamline-loadtest: {}\n", std::string(status.message()));
  return kCannotRun;
}

int Compare(const CompareFlags& flags) {
  std::vector<Result> results;
  for (const std::string& file : flags.files) {
    auto result = ReadResult(file);
    if (!result.ok()) return Complain(result.status());
    results.push_back(*std::move(result));
  }
  fmt::print("{}", FormatComparison(results));
  if (flags.plot_file.empty()) return 0;
  const absl::Status written = WritePlot(results, flags.plot_file);
  return written.ok() ? 0 : Complain(written);
}

int Main(int argc, char** argv) {
  DropLibraryLogs();
  CLI::App app("Loads a Beamline server and measures what its clients would see.");
  app.require_subcommand(1);
  RunFlags run_flags;
  CompareFlags compare_flags;
  CLI::App* const run = app.add_subcommand("run", "run a load test");
  CLI::App* const compare = app.add_subcommand("compare", "compare results");
  AddRunFlags(*run, run_flags);
  AddCompareFlags(*compare, compare_flags);
  CLI11_PARSE(app, argc, argv);
  if (compare->parsed()) return Compare(compare_flags);

  std::string command;
  for (int i = 0; i < argc; ++i) command += fmt::format("{}{}", i == 0 ? "" : " ", argv[i]);
  const auto succeeded = RunLoadTest(run_flags, command);
  if (!succeeded.ok()) return Complain(succeeded.status());
  return *succeeded ? 0 : 1;
}

}  // namespace
}  // namespace beamline::loadtest

int main(int argc, char** argv) { return beamline::loadtest::Main(argc, argv); }
