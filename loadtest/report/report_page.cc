#include "loadtest/report/report_page.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "fmt/format.h"
#include "loadtest/report/chart.h"
#include "loadtest/report/markup.h"
#include "loadtest/report/names.h"
#include "loadtest/report/page_frame.h"
#include "loadtest/report/page_parts.h"
#include "loadtest/report/report_charts.h"
#include "loadtest/report/result_json.h"
#include "loadtest/report/terminal.h"
#include "loadtest/report/text_table.h"

namespace beamline::loadtest {
namespace {

using nlohmann::json;

constexpr size_t kWarningBytes = 400;

// A report page. Its numbers come from the report's JSON.
class Page {
 public:
  explicit Page(const RunReport& report) : report_(report), figures_(ToJson(report)) {}

  std::string ToHtml() const;

 private:
  std::string Figure(const std::string& pointer) const { return figures_.Figure(pointer); }
  std::string Cell(const std::string& pointer) const { return figures_.Cell(pointer); }
  std::string Heading() const;
  std::string Warning() const;
  std::string Times() const;
  std::string Tiles() const;
  std::string LoadTable() const;
  std::string RequestsTable() const;
  std::string LatencyTable(const std::string& pointer) const;
  std::string Latencies() const;
  std::string OverTheRun() const;
  std::string Errors() const;
  std::string Verified() const;
  std::string WhatRan() const;
  std::string ServerNote() const;

  const RunReport& report_;
  const JsonFigures figures_;
};

std::string Title(const RunReport& report) {
  return report.label.empty() ? "Load test of " + report.environment.target
                              : "Load test: " + report.label;
}

std::string Page::Heading() const {
  return fmt::format("<h1>{}</h1>\n<p class=\"soft\">{}{}<br/>{}</p>\n", Escape(Title(report_)),
                     Escape(FormatLoad(report_.load)),
                     report_.interrupted ? " · <strong class=\"bad\">cut short</strong>" : "",
                     DrawWhere(report_.environment));
}

std::string Page::Warning() const {
  const std::string warning = LatenessWarning(report_.summary.total);
  if (warning.empty()) return "";
  return Card("<p class=\"bad\">Warning: " + Escape(warning, kWarningBytes) + ".</p>");
}

// The most important figures come first.
std::string Page::Times() const {
  constexpr std::pair<const char*, const char*> kRows[] = {
      {"first token", "time_to_first_token"},
      {"time per token", "time_per_output_token"},
      {"total, end to end", "end_to_end"}};
  std::string rows;
  for (const auto& [name, key] : kRows) {
    const std::string at = fmt::format("/total/{}/", key);
    if (figures_.At(at + "count") == 0) continue;
    rows += Row(name, Cell(at + "p50_ms") + Cell(at + "p90_ms") + Cell(at + "p99_ms"));
  }
  if (rows.empty()) return "";
  return "<h2>Times</h2>\n" + Card(Table({"ms", "p50", "p90", "p99"}, rows));
}

std::string Page::Tiles() const {
  std::vector<Tile> tiles = {{Figure("/rates/requests_per_s"), "requests/s ended well"}};
  if (report_.slo.IsSet()) {
    tiles.push_back({Figure("/rates/good_per_s"), "requests/s within the objectives"});
  }
  if (report_.summary.total.generated_tokens > 0) {
    tiles.push_back({Figure("/rates/output_tokens_per_s"), "output tokens/s"});
  }
  tiles.push_back({Figure("/total/errors"),
                   fmt::format("errors of {} requests", Figure("/total/requests")),
                   report_.summary.total.Count(Ending::kError) > 0});
  return DrawTiles(tiles);
}

// The requested, sent and answered rates.
std::string Page::LoadTable() const {
  std::string rows;
  if (report_.load.rate) rows += Row("asked for, requests/s", Cell("/load/rate_per_s"));
  if (report_.load.concurrency) rows += Row("requests at a time", Cell("/load/concurrency"));
  rows += Row("sent, requests/s", Cell("/rates/achieved_rate_per_s"));
  rows += Row("ended well, requests/s", Cell("/rates/requests_per_s"));
  rows += Row("items/s", Cell("/rates/items_per_s"));
  rows += Row("output tokens/s", Cell("/rates/output_tokens_per_s"));
  if (report_.slo.IsSet()) {
    rows += Row("within the objectives, requests/s", Cell("/rates/good_per_s"));
  }
  rows += Row("measured, s", Cell("/rates/elapsed_s"));
  rows += Row("requests of the warm-up, left out", Cell("/rates/warmup_requests"));
  return Card("<h3>Rates</h3>\n" + Table({}, rows));
}

std::string Page::RequestsTable() const {
  std::vector<std::string> header = {"", "sent", "ok"};
  std::vector<const char*> rare;  // endings that most runs do not have
  for (const Ending ending : {Ending::kCancelled, Ending::kDeadline, Ending::kStopped}) {
    if (report_.summary.total.Count(ending) == 0) continue;
    rare.push_back(EndingName(ending));
    header.push_back(EndingName(ending));
  }
  header.insert(header.end(), {"errors", "prompt tokens", "output tokens"});
  const auto row = [&](const std::string& name, const std::string& pointer) {
    std::string cells = Cell(pointer + "/requests") + Cell(pointer + "/endings/ok");
    for (const char* ending : rare) cells += Cell(pointer + "/endings/" + ending);
    cells += Cell(pointer + "/errors");
    cells += Cell(pointer + "/prompt_tokens");
    return Row(name, cells + Cell(pointer + "/generated_tokens"));
  };
  std::string rows;
  const auto& classes = report_.summary.classes;
  for (size_t i = 0; i < classes.size(); ++i) {
    rows += row(ClassTitle(classes[i]), fmt::format("/classes/{}", i));
  }
  if (classes.size() != 1) rows += row("all", "/total");
  return Card("<h3>Requests</h3>\n" + Table(header, rows));
}

std::string Page::LatencyTable(const std::string& pointer) const {
  constexpr std::pair<const char*, const char*> kRows[] = {
      {"first token", "time_to_first_token"},
      {"time per token", "time_per_output_token"},
      {"between tokens", "inter_token"},
      {"end to end", "end_to_end"},
      {"sender's lateness", "lateness"}};
  std::string rows;
  for (const auto& [name, key] : kRows) {
    const std::string at = pointer + "/" + key;
    if (figures_.At(at + "/count") == 0) continue;
    std::string cells;
    for (const char* figure :
         {"count", "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p99_9_ms", "max_ms"}) {
      cells += Cell(at + "/" + figure);
    }
    rows += Row(name, cells);
  }
  if (rows.empty()) return "<p class=\"soft\">No request.</p>\n";
  return Table({"ms", "count", "mean", "p50", "p90", "p99", "p99.9", "max"}, rows);
}

std::string Page::Latencies() const {
  std::string cards = Card("<h3>All requests</h3>\n" + LatencyTable("/total"));
  const auto& classes = report_.summary.classes;
  for (size_t i = 0; classes.size() > 1 && i < classes.size(); ++i) {
    const std::string title = ClassTitle(classes[i]), kind = KindTitle(classes[i].kind);
    const std::string soft = fmt::format(" <span class=\"soft\">{}</span>", Escape(kind));
    cards += Card(fmt::format("<h3>{}{}</h3>\n{}", Escape(title), title == kind ? "" : soft,
                              LatencyTable(fmt::format("/classes/{}", i))));
  }
  return fmt::format(
      "<h2>Latency</h2>\n<p class=\"soft\">Of requests that ended well, from the time at which the "
      "schedule wanted them sent.</p>\n{}<div class=\"grid2 tables\">\n{}</div>\n",
      DrawCharts(SpectrumCharts(report_)), cards);
}

std::string Page::OverTheRun() const {
  std::vector<Chart> charts = TimeCharts(report_);
  for (Chart& chart : ServerCharts(report_)) charts.push_back(std::move(chart));
  const std::string figures = DrawCharts(charts);
  if (figures.empty()) return "";
  return fmt::format(
      "<h2>Over the run</h2>\n<p class=\"soft\">Requests count in the second in which they ended, "
      "with their latencies; all figures above leave the warm-up out. {}</p>\n{}",
      ServerNote(), figures);
}

std::string Page::ServerNote() const {
  if (!report_.server) return "";
  std::string note = fmt::format(
      "What the server says of itself is from {}, read once a second, summed over its models.",
      Escape(report_.server->url));
  if (report_.server->num_failed == 0) return note;
  return note + fmt::format(" <strong class=\"bad\">{} scrapes failed</strong>, the last one: {}",
                            Figure("/server/failed_scrapes"), Escape(report_.server->last_failure));
}

std::string Page::Errors() const {
  std::string rows;
  for (const auto& [code, errors] : report_.summary.errors) {
    std::string examples;
    for (const std::string& message : errors.messages) {
      examples += "<p>" + Escape(message.empty() ? "(no message)" : message) + "</p>";
    }
    const json::json_pointer place = json::json_pointer("/errors") / code / "count";
    rows += fmt::format(
        "<tr><th scope=\"row\" class=\"code\">{}</th>{}<td class=\"text\">{}</td></tr>\n",
        Escape(code), Cell(place.to_string()), examples);
  }
  if (rows.empty()) return "";
  return "<h2>Errors</h2>\n" + Card(Table({"status code", "requests", "for example:"}, rows));
}

std::string Page::Verified() const {
  if (!report_.verification) return "";
  std::string html = fmt::format(
      "<p>{} answers were compared with the ones that the same requests "
      "get alone: {} differ.</p>\n",
      Figure("/verification/checked"), Figure("/verification/mismatches"));
  for (const std::string& example : report_.verification->examples) {
    html += "<p class=\"bad\">" + Escape(example) + "</p>\n";
  }
  return "<h2>Answers</h2>\n" + Card(html);
}

std::string Page::WhatRan() const {
  std::string objectives;
  const auto objective = [&objectives](const char* name, const std::optional<double>& limit) {
    if (limit)
      objectives += fmt::format("{}{} ≤ {:g} ms", objectives.empty() ? "" : ", ", name, *limit);
  };
  objective("first token", report_.slo.ttft_ms);
  objective("time per token", report_.slo.itl_ms);
  objective("end to end", report_.slo.e2e_ms);
  return DrawWhatRan({{"load", Escape(FormatLoad(report_.load))}, {"objectives", objectives}},
                     report_.environment, report_.load.workload);
}

std::string Page::ToHtml() const {
  const std::string body = Heading() + Warning() + Times() + Tiles() +
                           "<h2>Summary</h2>\n<div class=\"grid2\">\n" + LoadTable() +
                           RequestsTable() + "</div>\n" + Errors() + Verified() + Latencies() +
                           OverTheRun() + WhatRan();
  return FramePage(Title(report_), body);
}

}  // namespace

std::string ReportPage(const RunReport& report) { return Page(report).ToHtml(); }

absl::Status WriteReportPage(const RunReport& report, const std::string& path) {
  return WriteFile("--html", path, ReportPage(report));
}

}  // namespace beamline::loadtest
