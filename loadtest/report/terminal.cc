#include "loadtest/report/terminal.h"

#include "base/text.h"
#include "fmt/format.h"
#include "loadtest/report/names.h"
#include "loadtest/report/text_table.h"

namespace beamline::loadtest {
namespace {

// The most important figures come first.
std::string FormatTimes(const ClassSummary& total) {
  TextTable table({"time (ms)", "p50", "p90", "p99"});
  bool any = false;
  const auto add = [&](const char* name, const Histogram& histogram) {
    if (histogram.count() == 0) return;
    const auto at = [&](double quantile) {
      return FormatMs(static_cast<double>(histogram.ValueAtQuantile(quantile)));
    };
    table.AddRow({name, at(0.5), at(0.9), at(0.99)});
    any = true;
  };
  add("first token", total.time_to_first_token);
  add("time per token", total.time_per_output_token);
  add("total, end to end", total.end_to_end);
  return any ? table.ToString() + '\n' : "";
}

std::string FormatCounts(const RunSummary& summary) {
  TextTable table({"requests", "all", "ok", "cancelled", "deadline", "stopped", "error",
                   "prompt tokens", "cached", "generated"});
  const auto add = [&](const ClassSummary& one) {
    table.AddRow(
        {ClassTitle(one), std::to_string(one.NumRequests()), std::to_string(one.Count(Ending::kOk)),
         std::to_string(one.Count(Ending::kCancelled)),
         std::to_string(one.Count(Ending::kDeadline)), std::to_string(one.Count(Ending::kStopped)),
         std::to_string(one.Count(Ending::kError)), std::to_string(one.prompt_tokens),
         std::to_string(one.cached_tokens), std::to_string(one.generated_tokens)});
  };
  for (const ClassSummary& one : summary.classes) add(one);
  if (summary.classes.size() > 1) add(summary.total);
  return table.ToString();
}

std::string FormatLatencies(const RunSummary& summary) {
  TextTable table({"latency (ms)", "count", "mean", "p50", "p90", "p99", "p99.9", "max"});
  const auto add = [&](const std::string& name, const Histogram& histogram) {
    if (histogram.count() == 0) return;
    const auto at = [&](double quantile) {
      return FormatMs(static_cast<double>(histogram.ValueAtQuantile(quantile)));
    };
    table.AddRow({name, std::to_string(histogram.count()), FormatMs(histogram.Mean()), at(0.5),
                  at(0.9), at(0.99), at(0.999), at(1)});
  };
  const auto add_class = [&](const ClassSummary& one) {
    const std::string name = ClassTitle(one);
    add(name + ": first token", one.time_to_first_token);
    add(name + ": time per token", one.time_per_output_token);
    add(name + ": between tokens", one.inter_token);
    add(name + ": end to end", one.end_to_end);
  };
  for (const ClassSummary& one : summary.classes) add_class(one);
  if (summary.classes.size() > 1) add_class(summary.total);
  add("sender's lateness", summary.total.lateness);
  return table.ToString();
}

std::string FormatRates(const RunReport& report) {
  const RunSummary& summary = report.summary;
  std::string text = fmt::format(
      "  {} requests/s, {} items/s, {} output tokens/s", FormatNumber(summary.RequestsPerSecond()),
      FormatNumber(summary.ItemsPerSecond()), FormatNumber(summary.OutputTokensPerSecond()));
  if (report.slo.IsSet()) {
    text += fmt::format(", {} good requests/s ({} of {} within the objectives)",
                        FormatNumber(summary.GoodPerSecond()), summary.total.good,
                        summary.total.NumRequests());
  }
  text += fmt::format("\n  sent {}/s", FormatNumber(summary.AchievedRate()));
  if (report.load.rate) text += fmt::format(" of {}/s asked", FormatNumber(*report.load.rate));
  return text + fmt::format(", {} requests of warm-up left out\n", summary.num_warmup);
}

std::string FormatProblems(const RunReport& report) {
  std::string text;
  for (const auto& [code, count] : report.summary.total.codes) {
    if (code != "OK") text += fmt::format("  {} x {}\n", count, code);
  }
  for (const std::string& example : report.summary.error_examples) text += "  " + example + '\n';
  if (!report.verification) return text;
  text += fmt::format("  {} answers compared with the ones given alone: {} differ\n",
                      report.verification->num_checked, report.verification->num_mismatches);
  for (const std::string& example : report.verification->examples) text += "  " + example + '\n';
  return text;
}

}  // namespace

std::string FormatLoad(const LoadDescription& load) {
  std::string text = fmt::format("closed loop of {}", load.concurrency.value_or(0));
  if (load.rate) text = fmt::format("{} arrivals, {}/s", load.arrivals, FormatNumber(*load.rate));
  if (load.trace) {
    text = fmt::format("trace {}, {} requests, {}/s in the mean", Shorten(load.trace->file),
                       load.trace->num_requests, FormatNumber(load.rate.value_or(0)));
    if (load.trace->speed != 1) text += fmt::format(", times {:g}", load.trace->speed);
    if (load.trace->num_clipped > 0) {
      text += fmt::format(", {} of them clipped", load.trace->num_clipped);
    }
  }
  if (!load.phases.empty()) {
    text += fmt::format(" in the mean of phases {}", fmt::join(load.phases, ", "));
  }
  const std::string batching = load.batching == "none" ? "" : ", batching " + load.batching;
  return fmt::format("{}{}, {} s after {} s of warm-up, seed {}", text, batching,
                     FormatNumber(load.duration_s), FormatNumber(load.warmup_s), load.seed);
}

std::string FormatReport(const RunReport& report) {
  std::string text = fmt::format("\n{}{}{}\n", report.label.empty() ? "" : report.label + ": ",
                                 FormatLoad(report.load), report.interrupted ? ", cut short" : "");
  if (!report.environment.server_version.empty()) {
    text += fmt::format("server: Beamline {}\n", Shorten(report.environment.server_version));
  }
  for (const std::string& model : report.environment.models) text += model + '\n';
  text += '\n' + FormatTimes(report.summary.total) + FormatCounts(report.summary) + '\n' +
          FormatLatencies(report.summary) + '\n' + FormatRates(report);
  const std::string warning = LatenessWarning(report.summary.total);
  if (!warning.empty()) text += "\n  warning: " + warning + '\n';
  const std::string problems = FormatProblems(report);
  return problems.empty() ? text : text + '\n' + problems;
}

}  // namespace beamline::loadtest
