// The page of a run: its figures are those of the JSON, and nothing that it shows can change it.
#include "loadtest/report/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>

#include "loadtest/report/recorder.h"
#include "loadtest/report/result_json.h"
#include "loadtest/report/text_table.h"
#include "tests/scratch_path.h"

namespace beamline::loadtest::report_page_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostile[] = "</title></style><script>alert('1')</script>\"&\x01\xFF\u202E";

RequestRecord MakeRecord(size_t class_index, int at_ms, int latency_ms, int num_tokens) {
  RequestRecord record;
  record.class_index = class_index;
  record.intended = milliseconds(at_ms);
  record.sent = record.intended + milliseconds(1);
  for (int i = 0; i < num_tokens; ++i) {
    record.token_times.push_back(record.intended + milliseconds((i + 1) * latency_ms / num_tokens));
    record.message_tokens.push_back(1);
  }
  record.longest_sequence = record.generated_tokens = num_tokens;
  record.prompt_tokens = 7;
  record.end = record.intended + milliseconds(latency_ms);
  return record;
}

// Two classes, one with a hostile name, that fail with hostile messages now and then.
RunReport NamedReport(const std::string& name) {
  Recorder recorder({{name, "generate_stream"}, {"embed", "encode"}}, {.ttft_ms = 30},
                    milliseconds(1000));
  for (int i = 0; i < 400; ++i) {
    RequestRecord record = MakeRecord(i % 4 == 0 ? 1 : 0, i * 10, 20 + i % 37, i % 4 == 0 ? 0 : 5);
    if (i % 50 == 49) {
      record.ending = Ending::kError;
      record.code = i % 100 == 49 ? "UNAVAILABLE" : "CODE_42";
      record.message = name;
    }
    recorder.Record(record);
  }
  RunReport report{.label = name, .slo = {.ttft_ms = 30}, .summary = recorder.Summarize()};
  report.environment = {.date = "2026-01-01T00:00:00Z",
                        .command = "beamline-loadtest run " + name,
                        .versions = {{"beamline", name}},
                        .machine = {{"cpu", name}},
                        .target = name,
                        .models = {name}};
  report.load = {.arrivals = "constant",
                 .rate = 100.0,
                 .asked_per_s = {100, 100, 100, 100},
                 .duration_s = 3,
                 .warmup_s = 1,
                 .workload = "requests:\n  - name: " + name};
  report.server = ServerSeries{.url = name, .num_failed = 2, .last_failure = name};
  for (int i = 0; i < 4; ++i) {
    report.server->samples.push_back({.time_s = i + 0.01,
                                      .waiting = i * 2.0,
                                      .running = 3,
                                      .step_sequences = 2.5,
                                      .tokens_per_s = 100.0 * i});
  }
  report.verification = Verification{.num_checked = 3, .num_mismatches = 1, .examples = {name}};
  return report;
}

// Every figure of the page is the JSON's, and reads as that number.
TEST(ReportPageTest, FiguresAreThoseOfTheJson) {
  const RunReport report = NamedReport("chat");
  const nlohmann::json root = ToJson(report);
  const std::string html = ReportPage(report);
  const std::regex figure("<data value=\"([^\"]*)\" data-json=\"([^\"]*)\">([^<]*)</data>");
  std::set<std::string> places;
  for (std::sregex_iterator found(html.begin(), html.end(), figure), end; found != end; ++found) {
    const std::string value = (*found)[1], place = (*found)[2], text = (*found)[3];
    places.insert(place);
    const nlohmann::json& expected = root.at(nlohmann::json::json_pointer(place));
    EXPECT_EQ(value, expected.dump()) << place;
    EXPECT_EQ(text, expected.is_number_float() ? FormatNumber(expected.get<double>()) : value);
  }
  for (const char* place :
       {"/load/rate_per_s", "/rates/achieved_rate_per_s", "/rates/requests_per_s",
        "/rates/output_tokens_per_s", "/rates/good_per_s", "/total/requests", "/total/errors",
        "/total/time_to_first_token/p50_ms", "/total/inter_token/p90_ms",
        "/total/end_to_end/p99_ms", "/total/end_to_end/p99_9_ms", "/classes/0/end_to_end/p99_ms",
        "/classes/1/requests", "/errors/UNAVAILABLE/count", "/errors/CODE_42/count",
        "/verification/mismatches", "/server/failed_scrapes"}) {
    EXPECT_EQ(places.count(place), 1U) << place;
  }
  EXPECT_EQ(root["errors"]["UNAVAILABLE"]["count"], 3);
  EXPECT_EQ(root["total"]["errors"], 6);
}

TEST(ReportPageTest, HasEveryChartWithItsLegend) {
  const std::string html = ReportPage(NamedReport("chat"));
  for (const char* title :
       {"First token, by percentile", "Time per token, by percentile",
        "Between tokens, by percentile", "End to end, by percentile", "Requests",
        "Requests that did not end well", "Open requests", "First token", "Time per token",
        "End to end", "Output tokens", "Server: queue", "Server: running", "Server: batch",
        "Server: tokens generated"}) {
    EXPECT_THAT(html, HasSubstr("<figcaption>" + std::string(title) + "</figcaption>"));
  }
  for (const char* series :
       {"chat", "embed", "all requests", "p50", "p90", "p99", "asked for", "sent", "ended well",
        "failed", "waiting requests", "running sequences", "mean of the steps"}) {
    EXPECT_THAT(html, HasSubstr("</svg>" + std::string(series) + "</li>"));
    EXPECT_THAT(html, HasSubstr("data-series=\"" + std::string(series) + "\""));
  }
}

TEST(ReportPageTest, BeginsWithTheTimesAndTheServersVersion) {
  RunReport report = NamedReport("chat");
  report.environment.server_version = "1.2.3 (abc)";
  const std::string html = ReportPage(report);
  const std::string body = html.substr(html.find("<h1>"));
  EXPECT_THAT(body, HasSubstr(" · Beamline 1.2.3 (abc) · "));
  std::vector<std::string> places;
  const std::regex figure("data-json=\"([^\"]*)\"");
  for (std::sregex_iterator found(body.begin(), body.end(), figure), end; found != end; ++found) {
    places.push_back((*found)[1]);
  }
  std::vector<std::string> expected;
  for (const char* latency : {"time_to_first_token", "time_per_output_token", "end_to_end"}) {
    for (const char* percentile : {"p50_ms", "p90_ms", "p99_ms"}) {
      expected.push_back(std::string("/total/") + latency + "/" + percentile);
    }
  }
  ASSERT_GT(places.size(), expected.size());
  places.resize(expected.size());
  EXPECT_EQ(places, expected);
  EXPECT_EQ(ToJson(report)["environment"]["server_version"], "1.2.3 (abc)");
}

// Keys of the JSON are in attributes alone.
TEST(ReportPageTest, NamesAreForPeople) {
  RunReport report = NamedReport("chat");
  report.summary.classes[1].name = report.summary.classes[1].kind = "encode_many";
  const std::string html = ReportPage(report);
  const std::string text = std::regex_replace(html, std::regex("<[^>]*>"), "");
  for (const char* key : {"time_to_first_token", "inter_token", "end_to_end", "encode_many",
                          "generate_stream", "inter-token", "protobuf_", "_ms"}) {
    EXPECT_THAT(text.substr(text.find("Load test")), Not(HasSubstr(key))) << key;
  }
  EXPECT_THAT(html, HasSubstr("<dt>processor</dt>"));
  EXPECT_THAT(html, HasSubstr("embedding of many"));
  EXPECT_THAT(html, HasSubstr("<span class=\"soft\">streamed generation</span>"));
}

TEST(ReportPageTest, HostileTextIsShownAndNothingElse) {
  const std::string html = ReportPage(NamedReport(kHostile));
  for (const char* part : {"<script", "alert('", "\x01", "\u202E", "\xFF\"", "nan", "inf\"", "href",
                           "src=", "@import", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(part))) << part;
  }
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(&#39;1&#39;)"));
  // Tags as of a page of harmless names: the names have added none.
  const auto count_tags = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '<');
  };
  EXPECT_EQ(count_tags(html), count_tags(ReportPage(NamedReport("chat"))));
}

TEST(ReportPageTest, ARunWithoutAnAnswerHasAPage) {
  Recorder recorder({{"chat", "generate_stream"}}, {}, milliseconds(0));
  RunReport report{.summary = recorder.Summarize()};
  report.load.concurrency = 4;
  const std::string html = ReportPage(report);
  EXPECT_THAT(html, HasSubstr("closed loop of 4"));
  EXPECT_THAT(html, HasSubstr("No request."));
  EXPECT_THAT(html, Not(HasSubstr("<figure>")));
}

// A day has more seconds than a chart has points.
TEST(ReportPageTest, ALongRunIsDrawnInGroups) {
  Recorder recorder({{"chat", "generate"}}, {}, milliseconds(0));
  for (int i = 0; i < 20'000; ++i) recorder.Record(MakeRecord(0, i * 1000, 20, 0));
  RunReport report{.summary = recorder.Summarize()};
  report.load = {
      .rate = 1.0, .asked_per_s = std::vector<double>(20'000, 1.0), .duration_s = 20'000};
  EXPECT_LT(ReportPage(report).size(), 200'000U);
}

TEST(ReportPageTest, IsWritten) {
  const RunReport report = NamedReport("chat");
  const std::string path = ScratchPath("report.html");
  ASSERT_TRUE(WriteReportPage(report, path).ok());
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), ReportPage(report));
  EXPECT_FALSE(WriteReportPage(report, ScratchPath("nowhere/report.html")).ok());
}

}  // namespace
}  // namespace beamline::loadtest::report_page_test
