// Verdicts of probes, and what a search's table, CSV, JSON and page say of them.
#include "loadtest/search/search_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>

#include "loadtest/report/text_table.h"
#include "loadtest/search/search_json.h"
#include "loadtest/search/search_page.h"
#include "tests/scratch_path.h"

namespace beamline::loadtest::search_report_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kMs = 1'000'000;

// 100 requests whose latencies are around `ms`.
Probe MakeProbe(double rate, int64_t ms) {
  Probe probe{
      .rate = rate, .duration_s = 10, .warmup_s = 1, .sent_per_s = rate, .answered_per_s = rate};
  probe.total.name = "all";
  probe.total.endings["ok"] = 100;
  probe.total.codes["OK"] = 100;
  for (int i = 0; i < 100; ++i) {
    probe.total.time_to_first_token.Record(ms * kMs / 2 + i);
    probe.total.end_to_end.Record(ms * kMs + i * kMs / 10);
    probe.total.lateness.Record(kMs / 10);
  }
  return probe;
}

ProbeLimits MakeLimits() {
  return {.objectives = {*ParseObjective("--slo", "e2e:p99:200ms"),
                         *ParseObjective("--slo", "ttft:p95:100ms")},
          .max_error_share = 0.01,
          .max_lateness_ms = 20,
          .min_answered = 0.9};
}

SearchReport MakeSearch(const std::string& name = "chat") {
  SearchReport report{.label = name, .limits = MakeLimits()};
  report.environment = {.date = "2026-01-01T00:00:00Z",
                        .command = "beamline-loadtest find-rate " + name,
                        .versions = {{"beamline", name}},
                        .machine = {{"cpu", name}},
                        .target = name,
                        .models = {name}};
  report.load = {.arrivals = "poisson", .duration_s = 10, .warmup_s = 1, .workload = name};
  report.elapsed_s = 60;
  for (const auto& [rate, ms] : {std::pair(20.0, 30), {40.0, 32}, {80.0, 40}, {160.0, 900}}) {
    report.probes.push_back(MakeProbe(rate, ms));
  }
  report.probes.push_back(MakeProbe(113, 150));
  report.probes.push_back(MakeProbe(134, 460));
  for (Probe& probe : report.probes) Judge(report.limits, probe);
  return report;
}

std::string WhyOf(Probe probe) {
  Judge(MakeLimits(), probe);
  EXPECT_EQ(probe.holds, probe.why.empty());
  return probe.why;
}

TEST(ProbeTest, HoldsWithinTheLimits) { EXPECT_EQ(WhyOf(MakeProbe(20, 30)), ""); }

TEST(ProbeTest, BreaksEachLimit) {
  EXPECT_EQ(WhyOf(MakeProbe(20, 195)), "end to end p99 is 205 ms, limit 200 ms");
  Probe probe = MakeProbe(20, 30);
  for (int i = 0; i < 10; ++i) probe.total.time_to_first_token.Record(150 * kMs);
  EXPECT_EQ(WhyOf(probe), "first token p95 is 150 ms, limit 100 ms");

  probe = MakeProbe(20, 30);
  probe.answered_per_s = 17;
  EXPECT_EQ(WhyOf(probe), "answered 17.0/s of 20.0/s");

  probe = MakeProbe(20, 30);
  probe.total.endings["error"] = 1;
  EXPECT_EQ(WhyOf(probe), "");  // one of 101
  probe.total.endings["error"] = 5;
  probe.total.codes["RESOURCE_EXHAUSTED"] = 4;
  probe.total.codes["INTERNAL"] = 1;
  EXPECT_EQ(WhyOf(probe), "5 of 105 requests failed: 4 x RESOURCE_EXHAUSTED");

  probe = MakeProbe(20, 30);
  probe.total.endings["stopped"] = 50;
  probe.total.codes["CANCELLED"] = 50;
  EXPECT_EQ(WhyOf(probe), "50 of 150 requests had no answer in time");

  probe = MakeProbe(20, 30);
  for (int i = 0; i < 5; ++i) probe.total.lateness.Record(31 * kMs);
  EXPECT_EQ(WhyOf(probe), "the load generator is late: p99 31.0 ms, limit 20 ms");

  probe = MakeProbe(20, 30);
  probe.total.time_to_first_token = Histogram();
  EXPECT_EQ(WhyOf(probe), "first token was not measured");
  EXPECT_EQ(WhyOf(Probe{.rate = 20}), "no request was sent");
  probe = MakeProbe(20, 30);
  probe.interrupted = true;
  EXPECT_EQ(WhyOf(probe), "cut short");
}

TEST(SearchReportTest, FindsHighestLowestFailingAndKnee) {
  const SearchReport report = MakeSearch();
  EXPECT_EQ(report.Highest(), 4U);  // 113/s
  EXPECT_EQ(report.LowestFailing(), 5U);
  EXPECT_EQ(report.Knee(), 4U);
  EXPECT_EQ(report.ByRate(), (std::vector<size_t>{0, 1, 2, 4, 5, 3}));
  EXPECT_EQ(report.Conclusion(),
            "The highest rate that holds is 113/s. 134/s fails: end to end p99 is 470 ms, limit "
            "200 ms.");
}

TEST(SearchReportTest, ARateThatHeldAnotherTimeIsNoFailure) {
  SearchReport report{.limits = MakeLimits()};
  for (const int64_t ms : {300, 30}) report.probes.push_back(MakeProbe(20, ms));
  for (const int64_t ms : {300, 400}) report.probes.push_back(MakeProbe(40, ms));
  for (Probe& probe : report.probes) Judge(report.limits, probe);
  EXPECT_EQ(report.Highest(), 1U);
  EXPECT_EQ(report.LowestFailing(), 3U);
  EXPECT_EQ(report.Curve(), (std::vector<size_t>{1, 3}));
}

TEST(SearchReportTest, SaysHowItEnded) {
  SearchReport report = MakeSearch();
  report.max_time_s = 60;
  report.fault = "no server answers";
  const std::pair<SearchEnd, const char*> kEnds[] = {
      {SearchEnd::kLowestFails, "--min-rate lowers it"},
      {SearchEnd::kHighestHolds, "--max-rate raises it"},
      {SearchEnd::kOutOfTime, "--max-time of 60 s"},
      {SearchEnd::kInterrupted, "was interrupted"},
      {SearchEnd::kBroken, "broke off: no server answers"}};
  for (const auto& [end, text] : kEnds) {
    report.end = end;
    EXPECT_THAT(report.Conclusion(), HasSubstr(text));
    EXPECT_THAT(FormatSearch(report), HasSubstr(text));
    EXPECT_EQ(ToJson(report)["search"]["end"], SearchEndName(end));
  }
}

// Without a measured probe nothing is known of any rate, and none is said to fail.
TEST(SearchReportTest, NothingMeasuredIsNoVerdict) {
  SearchReport report{.label = "x", .limits = MakeLimits(), .max_time_s = 3};
  report.end = SearchEnd::kOutOfTime;
  report.first_probe_s = 12;
  EXPECT_FALSE(report.HasVerdict());
  EXPECT_EQ(report.Conclusion(),
            "Nothing was measured: no probe was run. The first one takes 12 s, and --max-time is 3 "
            "s.");
  EXPECT_EQ(ToJson(report)["has_verdict"], false);
  EXPECT_TRUE(ToJson(report)["highest"].is_null());
  EXPECT_THAT(FormatSearch(report), HasSubstr("Nothing was measured"));
  EXPECT_THAT(SearchPage(report), HasSubstr(">was measured<"));

  Probe cut = MakeProbe(20, 30);
  cut.interrupted = true;
  report.probes = {cut, Probe{.rate = 20, .duration_s = 1}};
  for (Probe& probe : report.probes) Judge(report.limits, probe);
  report.end = SearchEnd::kInterrupted;
  EXPECT_EQ(report.Conclusion(),
            "Nothing was measured: no probe ended with requests sent. The search was interrupted.");
  report.end = SearchEnd::kLowestFails;
  EXPECT_THAT(report.Conclusion(), Not(HasSubstr("--min-rate")));
  report.probes.push_back(MakeProbe(20, 900));
  Judge(report.limits, report.probes.back());
  EXPECT_THAT(report.Conclusion(), HasSubstr("No rate holds. 20.0/s fails: "));
}

// Where nothing fails the server may hold more than what was tried.
TEST(SearchReportTest, WithoutAFailureItIsALowerBound) {
  SearchReport report{.limits = MakeLimits(), .end = SearchEnd::kOutOfTime};
  report.max_time_s = 60;
  for (const double rate : {20, 40}) report.probes.push_back(MakeProbe(rate, 30));
  for (Probe& probe : report.probes) Judge(report.limits, probe);
  EXPECT_TRUE(report.IsLowerBound());
  EXPECT_EQ(report.Conclusion(),
            "At least 40.0/s hold: no rate that was probed fails. The search ended early, after "
            "--max-time of 60 s.");
  EXPECT_EQ(ToJson(report)["highest"]["is_lower_bound"], true);
  EXPECT_THAT(SearchPage(report), HasSubstr("<b>≥ <data value=\"40.0\""));
  report.probes.push_back(MakeProbe(80, 900));
  Judge(report.limits, report.probes.back());
  EXPECT_FALSE(report.IsLowerBound());
  EXPECT_EQ(ToJson(report)["highest"]["is_lower_bound"], false);
  EXPECT_THAT(report.Conclusion(), HasSubstr("The highest rate that holds is 40.0/s."));
  EXPECT_THAT(SearchPage(report), Not(HasSubstr("≥ <data")));
}

TEST(SearchReportTest, TheTableHasEveryProbeInTheOrderOfRates) {
  const std::string text = FormatSearch(MakeSearch());
  size_t before = 0;
  for (const char* rate :
       {"\n  20.0 ", "\n  40.0 ", "\n  80.0 ", "\n  113 ", "\n  134 ", "\n  160 "}) {
    const size_t at = text.find(rate);
    ASSERT_NE(at, std::string::npos) << rate;
    EXPECT_GT(at, before) << rate;
    before = at;
  }
  EXPECT_THAT(text, Not(HasSubstr("per output token")));  // there is none
  EXPECT_THAT(text, HasSubstr("fails: end to end p99 is 470 ms, limit 200 ms\n"));
  EXPECT_THAT(text, HasSubstr("The knee of the curve of end to end p99 is at 113/s."));
}

TEST(SearchReportTest, TheCsvHasALineForEachProbe) {
  const std::string csv = SearchCsv(MakeSearch());
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  EXPECT_THAT(csv, HasSubstr("asked_per_s,warmup_s,duration_s,sent_per_s,answered_per_s,"));
  EXPECT_THAT(csv, HasSubstr("\n20,1,10,20,20,100,100,0,0,0.1"));
  EXPECT_THAT(csv, HasSubstr(",1,\"\"\n"));
  EXPECT_THAT(csv, HasSubstr(",0,\"end to end p99 is 470 ms, limit 200 ms\"\n"));
}

TEST(SearchPageTest, FiguresAreThoseOfTheJson) {
  const SearchReport report = MakeSearch();
  const nlohmann::json root = ToJson(report);
  EXPECT_EQ(root["schema"], "beamline.loadtest.search/1");
  EXPECT_EQ(root["highest"]["rate_per_s"], 113.0);
  EXPECT_EQ(root["knee"]["of"], "end to end p99");
  const std::string html = SearchPage(report);
  const std::regex figure("<data value=\"([^\"]*)\" data-json=\"([^\"]*)\">([^<]*)</data>");
  std::set<std::string> places;
  for (std::sregex_iterator found(html.begin(), html.end(), figure), end; found != end; ++found) {
    const std::string value = (*found)[1], place = (*found)[2], text = (*found)[3];
    places.insert(place);
    const nlohmann::json& expected = root.at(nlohmann::json::json_pointer(place));
    EXPECT_EQ(value, expected.dump()) << place;
    EXPECT_EQ(text, expected.is_number_float() ? FormatNumber(expected.get<double>()) : value);
  }
  for (const char* place : {"/highest/rate_per_s", "/knee/rate_per_s", "/probes/4/objectives_ms/0",
                            "/limits/objectives/1/limit_ms", "/probes/0/rate_per_s",
                            "/probes/5/answered_per_s", "/probes/3/time_to_first_token/p50_ms",
                            "/probes/3/end_to_end/p99_ms", "/probes/2/errors"}) {
    EXPECT_EQ(places.count(place), 1U) << place;
  }
  EXPECT_EQ(places.count("/probes/0/time_per_output_token/p50_ms"), 0U);  // there is none
}

TEST(SearchPageTest, HasTheCurvesWithTheirMarks) {
  SearchReport report = MakeSearch();
  std::string html = SearchPage(report);
  for (const char* title :
       {"Latency: first token", "Latency: end to end", "Answered over asked for"}) {
    EXPECT_THAT(html, HasSubstr("<figcaption>" + std::string(title) + "</figcaption>"));
  }
  EXPECT_THAT(html, Not(HasSubstr("Latency: per output token")));
  for (const char* series : {"p50", "p90", "p99", "objective: p99 ≤ 200 ms",
                             "objective: p95 ≤ 100 ms", "answered", "sent", "asked for"}) {
    EXPECT_THAT(html, HasSubstr("data-series=\"" + std::string(series) + "\""));
  }
  EXPECT_THAT(html, HasSubstr("</svg>highest rate that holds, and knee</li>"));
  EXPECT_THAT(html, HasSubstr("class=\"mark m0\""));
  report.probes[4] = MakeProbe(113, 230);  // which fails, and is the knee
  Judge(report.limits, report.probes[4]);
  html = SearchPage(report);
  EXPECT_THAT(html, HasSubstr("</svg>highest rate that holds</li>"));
  EXPECT_THAT(html, HasSubstr("</svg>knee</li>"));
  EXPECT_THAT(html, HasSubstr("class=\"mark m1\""));
}

TEST(SearchPageTest, HostileTextIsShownAndNothingElse) {
  SearchReport report = MakeSearch("</title></style><script>alert('1')</script>\"&\x01\xFF\u202E");
  report.end = SearchEnd::kBroken;
  report.fault = report.label;
  const std::string html = SearchPage(report);
  for (const char* part :
       {"<script", "alert('", "\x01", "\u202E", ">nan", " nan", "Mnan", "inf\"", "href", "src="}) {
    EXPECT_THAT(html, Not(HasSubstr(part))) << part;
  }
  SearchReport harmless = MakeSearch();
  harmless.end = SearchEnd::kBroken;
  EXPECT_EQ(std::count(html.begin(), html.end(), '<'), [&] {
    const std::string other = SearchPage(harmless);
    return std::count(other.begin(), other.end(), '<');
  }());
}

TEST(SearchPageTest, ASearchWithoutAnAnswerHasAPage) {
  SearchReport report{.limits = MakeLimits(), .end = SearchEnd::kLowestFails};
  EXPECT_THAT(SearchPage(report), HasSubstr("Nothing was measured: no probe was run."));
  EXPECT_THAT(SearchPage(report), Not(HasSubstr("<figure>")));
  report.probes.push_back(Probe{.rate = 5, .duration_s = 10});
  Judge(report.limits, report.probes[0]);
  const std::string html = SearchPage(report);
  EXPECT_THAT(html, HasSubstr(">none<"));
  EXPECT_THAT(html, HasSubstr("no request was sent"));
  EXPECT_THAT(html, Not(testing::ContainsRegex("[ >ML]nan")));
}

TEST(SearchJsonTest, IsWritten) {
  EXPECT_TRUE(WriteSearchJson(MakeSearch("\xFF"), ScratchPath("search.json")).ok());
  EXPECT_FALSE(WriteSearchJson(MakeSearch(), ScratchPath("nowhere/search.json")).ok());
}

}  // namespace
}  // namespace beamline::loadtest::search_report_test
