#include "loadtest/run.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/standard_streams.h"
#include "base/text.h"
#include "fmt/format.h"
#include "loadtest/load.h"
#include "loadtest/output_files.h"
#include "loadtest/report/report_page.h"
#include "loadtest/report/result_json.h"
#include "loadtest/report/seconds_csv.h"
#include "loadtest/report/terminal.h"
#include "loadtest/traffic/connections.h"
#include "loadtest/traffic/trace_recorder.h"
#include "loadtest/traffic/verifier.h"
#include "loadtest/workload/request_factory.h"

namespace beamline::loadtest {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Counts failed requests with codes that --expect-code does not list.
int64_t CountUnexpected(const RunFlags& flags, const ClassSummary& total) {
  int64_t expected = 0;
  for (const std::string& code : flags.expected_codes) {
    const auto found = total.codes.find(code);
    if (found != total.codes.end()) expected += found->second;
  }
  return std::max<int64_t>(0, total.Count(Ending::kError) - expected);
}

absl::Status PrepareVerifier(const Target& target, milliseconds timeout, Verifier& verifier) {
  const auto channel = Connect(target, kConnectTimeout);
  if (!channel.ok()) return channel.status();
  return verifier.RecordExpected(*v1::Inference::NewStub(*channel), timeout);
}

absl::Status WriteFiles(const RunFlags& flags, const RunReport& report) {
  absl::Status status;
  if (!flags.json_file.empty()) status = WriteResult(report, flags.json_file);
  if (status.ok() && !flags.html_file.empty()) status = WriteReportPage(report, flags.html_file);
  if (status.ok() && !flags.csv_file.empty()) status = WriteSecondsCsv(report, flags.csv_file);
  return status;
}

// Writes the sent requests as a trace; prints how many could not be included.
absl::Status WriteTrace(const std::string& path, TraceRecorder& trace) {
  if (trace.num_left_out() > 0) {
    Print(fmt::format("  {} requests whose lengths are not known are not in {}\n",
                      trace.num_left_out(), Shorten(path)));
  }
  return trace.Write(path);
}

}  // namespace

absl::StatusOr<bool> RunLoadTest(const RunFlags& given, const std::string& command) {
  const absl::Status outputs = CheckOutputs({{"--json", given.json_file},
                                             {"--html", given.html_file},
                                             {"--csv", given.csv_file},
                                             {"--log", given.log_file},
                                             {"--record-trace", given.record_trace_file}});
  if (!outputs.ok()) return outputs;
  const auto load = PrepareLoad(given);
  if (!load.ok()) return load.status();
  const RunFlags& flags = load->flags;
  const RequestFactory factory(load->workload, flags.seed, load->trace.get());
  std::optional<Verifier> verifier;
  if (flags.verify) {
    verifier.emplace(factory, flags.verify_tolerance);
    const auto status = PrepareVerifier(load->target, load->options.timeout, *verifier);
    if (!status.ok()) return status;
  }
  const auto warmup =
      std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(flags.warmup_s));
  Recorder recorder(ClassNames(load->workload), flags.slo, warmup, load->options.duration);
  if (!flags.log_file.empty()) {
    if (const auto status = recorder.OpenLog(flags.log_file); !status.ok()) return status;
  }
  TraceRecorder trace;
  const bool records_trace = !flags.record_trace_file.empty();
  StopOnInterrupt();
  auto server = SendAll(*load, {.factory = factory,
                                .recorder = recorder,
                                .verifier = verifier ? &*verifier : nullptr,
                                .trace_recorder = records_trace ? &trace : nullptr});
  if (!server.ok()) return server.status();

  RunReport report{.label = flags.label,
                   .interrupted = IsInterrupted(),
                   .environment = DescribeEnvironment(*load, command),
                   .load = DescribeLoad(*load),
                   .slo = flags.slo,
                   .summary = recorder.Summarize(),
                   .server = *std::move(server)};
  if (verifier) report.verification = verifier->Result();
  Print(FormatReport(report));
  absl::Status written = WriteFiles(flags, report);
  if (written.ok()) written = recorder.CloseLog();
  if (written.ok() && records_trace) written = WriteTrace(flags.record_trace_file, trace);
  if (!written.ok()) return written;
  const bool answers_match = !report.verification || report.verification->num_mismatches == 0;
  return answers_match && CountUnexpected(flags, report.summary.total) == 0;
}

}  // namespace beamline::loadtest
