// From records to summaries, JSON, comparisons and plots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>

#include "loadtest/report/compare.h"
#include "loadtest/report/names.h"
#include "loadtest/report/plot.h"
#include "loadtest/report/recorder.h"
#include "loadtest/report/report_page.h"
#include "loadtest/report/result_json.h"
#include "loadtest/report/terminal.h"
#include "tests/scratch_path.h"

namespace beamline::loadtest::report_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

// A stream sent 1 ms late whose first token comes 10 ms after the intended time, then one each
// `gap_ms`.
RequestRecord MakeStream(int intended_ms, int num_tokens, int gap_ms) {
  RequestRecord record;
  record.intended = milliseconds(intended_ms);
  record.sent = record.intended + milliseconds(1);
  for (int i = 0; i < num_tokens; ++i) {
    record.token_times.push_back(record.intended + milliseconds(10 + gap_ms * i));
  }
  record.longest_sequence = num_tokens;
  record.generated_tokens = num_tokens;
  record.prompt_tokens = 7;
  record.end = record.token_times.back() + milliseconds(2);
  return record;
}

RunReport MakeReport(const Slo& slo) {
  Recorder recorder({{"chat", "generate_stream"}, {"embed", "encode"}}, slo, milliseconds(100));
  recorder.Record(MakeStream(50, 5, 1));  // in the warm-up
  for (int i = 0; i < 100; ++i) recorder.Record(MakeStream(100 + 10 * i, 5, i < 90 ? 4 : 40));
  RequestRecord failed = MakeStream(1200, 1, 1);
  failed.class_index = 1;
  failed.ending = Ending::kError;
  failed.code = "UNAVAILABLE";
  failed.message = "gone <away>";
  recorder.Record(failed);
  RunReport report{.label = "A & <B>", .slo = slo, .summary = recorder.Summarize()};
  report.load = {.arrivals = "poisson", .rate = 100.0, .duration_s = 1.2};
  report.environment.models = {"write"};
  return report;
}

double Ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

TEST(RecorderTest, TimesCountFromTheIntendedSend) {
  const RunSummary summary = MakeReport({}).summary;
  const ClassSummary& chat = summary.classes[0];
  EXPECT_EQ(summary.num_warmup, 1);
  EXPECT_EQ(chat.Count(Ending::kOk), 100);
  EXPECT_NEAR(Ms(chat.time_to_first_token.ValueAtQuantile(0.5)), 10, 0.02);
  EXPECT_EQ(chat.inter_token.count(), 400);
  EXPECT_NEAR(Ms(chat.inter_token.ValueAtQuantile(0.9)), 4, 0.01);
  EXPECT_NEAR(Ms(chat.inter_token.ValueAtQuantile(0.99)), 40, 0.05);
  EXPECT_NEAR(Ms(chat.end_to_end.ValueAtQuantile(0.5)), 10 + 16 + 2, 0.05);
  EXPECT_NEAR(Ms(chat.time_per_output_token.ValueAtQuantile(0.5)), 4, 0.01);
  EXPECT_NEAR(Ms(chat.lateness.max()), 1, 0.01);
  EXPECT_EQ(chat.generated_tokens, 500);
  EXPECT_EQ(summary.total.Count(Ending::kError), 1);
  EXPECT_EQ(summary.total.codes.at("UNAVAILABLE"), 1);
  // 101 requests whose sends span 100 .. 1200 ms, and the last answer comes at 1260 ms.
  EXPECT_NEAR(summary.AchievedRate(), 100 / 1.1, 1e-6);
  EXPECT_NEAR(summary.elapsed_s, 1.162, 1e-9);
}

TEST(RecorderTest, FailedRequestsDoNotFlatterTheLatencies) {
  const ClassSummary embed = MakeReport({}).summary.classes[1];
  EXPECT_EQ(embed.end_to_end.count(), 0);
  EXPECT_EQ(embed.lateness.count(), 1);
}

TEST(RecorderTest, MessagesOfTheServerAreOneLineEach) {
  Recorder recorder({{"chat", "generate_stream"}}, {}, milliseconds(0));
  RequestRecord record = MakeStream(5, 1, 4);
  record.ending = Ending::kError;
  record.code = "ABORTED";
  record.message = "gone\n\u202Eaway" + std::string(10'000, 'x');
  recorder.Record(record);
  const std::string example = recorder.Summarize().error_examples.at(0);
  EXPECT_THAT(example, HasSubstr("(chat): ABORTED: gone <U+202E>awayxx"));
  EXPECT_LT(example.size(), 600U);
}

TEST(RecorderTest, GoodRequestsKeepEveryObjective) {
  EXPECT_EQ(MakeReport({.ttft_ms = 11}).summary.total.good, 100);
  EXPECT_EQ(MakeReport({.ttft_ms = 9}).summary.total.good, 0);
  EXPECT_EQ(MakeReport({.itl_ms = 5}).summary.total.good, 90);
  EXPECT_EQ(MakeReport({.ttft_ms = 11, .e2e_ms = 100}).summary.total.good, 90);
}

TEST(RecorderTest, LogsEveryRequest) {
  const std::string path = ScratchPath("requests.jsonl");
  {
    Recorder recorder({{"chat", "generate_stream"}}, {}, milliseconds(0));
    ASSERT_TRUE(recorder.OpenLog(path).ok());
    recorder.Record(MakeStream(5, 3, 4));
  }
  std::ifstream file(path);
  const auto line = nlohmann::json::parse(file);
  EXPECT_EQ(line["class"], "chat");
  EXPECT_DOUBLE_EQ(line["intended_s"].get<double>(), 0.005);
  EXPECT_DOUBLE_EQ(line["sent_s"].get<double>(), 0.006);
  ASSERT_EQ(line["token_times_s"].size(), 3U);
  EXPECT_DOUBLE_EQ(line["token_times_s"][2].get<double>(), 0.023);
}

TEST(ResultJsonTest, HasTheWholeSchema) {
  RunReport report = MakeReport({.ttft_ms = 11});
  report.verification = Verification{.num_checked = 3, .num_mismatches = 1, .examples = {"x"}};
  const nlohmann::json root = ToJson(report);
  EXPECT_EQ(root["schema"], "beamline.loadtest/1");
  for (const char* key : {"label", "interrupted", "environment", "load", "slo", "rates", "total",
                          "classes", "error_examples", "verification"}) {
    EXPECT_TRUE(root.contains(key)) << key;
  }
  for (const char* key : {"date", "command", "versions", "machine", "target", "models"}) {
    EXPECT_TRUE(root["environment"].contains(key)) << key;
  }
  EXPECT_EQ(root["slo"]["ttft_ms"], 11.0);
  EXPECT_TRUE(root["slo"]["e2e_ms"].is_null());
  EXPECT_EQ(root["verification"]["mismatches"], 1);
  const nlohmann::json& chat = root["classes"][0];
  EXPECT_EQ(chat["endings"]["ok"], 100);
  int64_t count = 0;
  for (const auto& bucket : chat["end_to_end"]["buckets_ns"]) count += bucket[1].get<int64_t>();
  EXPECT_EQ(count, 100);
  EXPECT_NEAR(chat["end_to_end"]["p99_9_ms"].get<double>(), 172, 0.2);
}

TEST(ResultJsonTest, ReadsWhatItWrote) {
  const std::string path = ScratchPath("result.json");
  const RunReport report = MakeReport({.ttft_ms = 11});
  ASSERT_TRUE(WriteResult(report, path).ok());
  const auto result = ReadResult(path);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->label, "A & <B>");
  EXPECT_EQ(result->num_requests, 101);
  EXPECT_EQ(result->num_errors, 1);
  EXPECT_DOUBLE_EQ(result->good_per_s, report.summary.GoodPerSecond());
  const Histogram& written = report.summary.total.end_to_end;
  for (const double quantile : {0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto exact = static_cast<double>(written.ValueAtQuantile(quantile));
    EXPECT_NEAR(static_cast<double>(result->end_to_end.ValueAtQuantile(quantile)), exact,
                0.001 * exact);
  }
}

TEST(ResultJsonTest, OtherFilesAreRefused) {
  const std::string path = ScratchPath("other.json");
  for (const char* text : {"", "[1]", "{}", "{\"schema\": \"beamline.loadtest/1\"}",
                           "{\"schema\": \"beamline.loadtest/1\", \"total\": 3}"}) {
    std::ofstream(path) << text;
    EXPECT_EQ(ReadResult(path).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ReadResult(ScratchPath("nowhere.json")).ok());
}

TEST(TerminalTest, ShowsWhatMatters) {
  const std::string text = FormatReport(MakeReport({.ttft_ms = 11}));
  for (const char* part : {"poisson arrivals, 100/s", "chat: first token", "p99.9", "UNAVAILABLE",
                           "100 of 101 within the objectives", "lateness", "gone <away>",
                           "chat: time per token", "chat: between tokens"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

// p50, p90 and p99 of the three times go before everything but the load and the server.
TEST(TerminalTest, BeginsWithTheTimes) {
  RunReport report = MakeReport({});
  report.environment.server_version = "1.2.3 (abc)";
  const std::string text = FormatReport(report);
  size_t before = 0;
  for (const char* part : {"server: Beamline 1.2.3 (abc)\n", "time (ms)", "first token ",
                           "time per token ", "total, end to end ", "requests  ", "latency (ms)"}) {
    const size_t at = text.find(part, before);
    ASSERT_NE(at, std::string::npos) << part << "\n" << text;
    before = at;
  }
  EXPECT_THAT(text, testing::ContainsRegex("time \\(ms\\) +p50 +p90 +p99\n"));
}

TEST(NamesTest, AreForPeople) {
  EXPECT_EQ(KindTitle("generate_stream"), "streamed generation");
  EXPECT_EQ(KindTitle("other"), "other");
  EXPECT_EQ(ClassTitle({.name = "encode_many", .kind = "encode_many"}), "embedding of many");
  EXPECT_EQ(ClassTitle({.name = "chat", .kind = "generate"}), "chat");
  EXPECT_EQ(EnvironmentTitle("cpu"), "processor");
}

TEST(LatenessTest, IsToldAboveItsShare) {
  ClassSummary total;
  for (int i = 0; i < 100; ++i) {
    total.end_to_end.Record(100'000'000);
    total.lateness.Record(9'900'000);
  }
  EXPECT_EQ(LatenessWarning(total), "");
  for (int i = 0; i < 5; ++i) total.lateness.Record(12'000'000);
  EXPECT_THAT(LatenessWarning(total),
              HasSubstr("p99 of the sender's lateness is 12.0 ms, more than 10% of the median end "
                        "to end of 100 ms"));
  // The first token comes sooner, so that less lateness shows in it.
  ClassSummary streams;
  streams.time_to_first_token.Record(20'000'000);
  streams.end_to_end.Record(100'000'000);
  streams.lateness.Record(3'000'000);
  EXPECT_THAT(LatenessWarning(streams), HasSubstr("median first token of 20.0 ms"));
  EXPECT_EQ(LatenessWarning(ClassSummary{}), "");

  RunReport report = MakeReport({});
  EXPECT_EQ(ToJson(report)["lateness_warning"], LatenessWarning(report.summary.total));
  for (int i = 0; i < 100; ++i) report.summary.total.lateness.Record(50'000'000);
  EXPECT_THAT(FormatReport(report), HasSubstr("\n  warning: the load generator was late"));
  EXPECT_THAT(ReportPage(report), HasSubstr("Warning: the load generator was late"));
}

TEST(PlotTest, IsSelfContainedAndEscaped) {
  const std::string path = ScratchPath("plotted.json");
  ASSERT_TRUE(WriteResult(MakeReport({}), path).ok());
  const std::vector<Result> results = {*ReadResult(path), *ReadResult(path)};
  const std::string svg = PlotSvg(results);
  for (const char* part : {"First token", "Time per token", "Between tokens", "End to end", "p99",
                           "data-series", "A &amp; &lt;B&gt;"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  const std::string html = PlotHtml(results);
  EXPECT_THAT(html, Not(HasSubstr("href")));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, HasSubstr("requests/s"));
  EXPECT_TRUE(WritePlot(results, ScratchPath("plot.html")).ok());
  EXPECT_TRUE(WritePlot(results, ScratchPath("plot.svg")).ok());
  EXPECT_FALSE(WritePlot(results, ScratchPath("plot.pdf")).ok());
}

// Every curve has the colour and dashes of one line of the legend, and its label.
TEST(PlotTest, EveryCurveIsInTheLegend) {
  const std::string path = ScratchPath("many.json");
  ASSERT_TRUE(WriteResult(MakeReport({}), path).ok());
  std::vector<Result> results(10, *ReadResult(path));
  for (size_t i = 0; i < 8; ++i) results[i].label = "run " + std::to_string(i);
  const std::string svg = PlotSvg(results);
  const std::regex line("<path class=\"(line c[0-9]( d[0-9])?)\"( data-series=)?");
  std::map<std::string, int> lines, curves;
  for (std::sregex_iterator found(svg.begin(), svg.end(), line), end; found != end; ++found) {
    ++((*found)[3].matched ? curves : lines)[(*found)[1]];
  }
  EXPECT_EQ(lines.size(), 10U);
  EXPECT_EQ(curves.size(), 10U);
  for (const auto& [drawn, count] : curves) {
    EXPECT_EQ(lines[drawn], 1) << drawn;
    EXPECT_EQ(count, 4) << drawn;  // a panel for each latency
    for (std::istringstream classes(drawn);;) {
      std::string name;
      if (!(classes >> name)) break;
      EXPECT_THAT(svg, HasSubstr("." + name + "{")) << drawn;
    }
  }
  EXPECT_THAT(svg, Not(HasSubstr("var(")));  // which few viewers but browsers know
  for (const char* part : {">run 7<", ">A &amp; &lt;B&gt; (1)<", ">A &amp; &lt;B&gt; (2)<",
                           "<title>run 0</title>", ">latency (ms, logarithmic)<"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  const std::string html = PlotHtml(results);
  EXPECT_THAT(html, HasSubstr(">requests/s</th>"));
  EXPECT_THAT(html, HasSubstr("</svg>run 7</li>"));
  EXPECT_THAT(html, HasSubstr("data-series=\"A &amp; &lt;B&gt; (2)\""));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(html, HasSubstr("<th scope=\"row\">run 7</th>"));
}

TEST(PlotTest, OneValueIsDrawn) {
  Result result{.label = "\x01\xFF one"};
  result.end_to_end.Record(5'000'000);
  const std::string svg = PlotSvg({result});
  EXPECT_THAT(svg, HasSubstr("data-series"));
  EXPECT_THAT(svg, HasSubstr(" \uFFFD one"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(PlotTest, WhatCannotBeWrittenIsSaid) {
  EXPECT_FALSE(CheckPlotPath(ScratchPath("nothing/plot.svg")).ok());
  EXPECT_THAT(std::string(CheckPlotPath("plot.pdf").message()),
              HasSubstr("--plot is 'plot.pdf'; accepted: a name in .svg or .html"));
  EXPECT_FALSE(WriteResult(MakeReport({}), ScratchPath("")).ok());
  EXPECT_FALSE(WriteResult(MakeReport({}), "/dev/full").ok());
}

TEST(PlotTest, EmptyResultsDrawNothing) {
  EXPECT_THAT(PlotSvg({Result{.label = "empty"}}), Not(HasSubstr("data-series")));
}

}  // namespace
}  // namespace beamline::loadtest::report_test
