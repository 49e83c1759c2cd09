// Tables and numbers as people read them.
#include "loadtest/report/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "loadtest/report/text_table.h"

namespace beamline::loadtest::compare_test {
namespace {

Result MakeResult() {
  Result result{.label = "släck",
                .asked_rate = 100,
                .achieved_rate = 99.5,
                .requests_per_s = 98.25,
                .output_tokens_per_s = 1234.5,
                .good_per_s = 90,
                .has_slo = true,
                .num_requests = 1000,
                .num_errors = 7};
  for (int i = 1; i <= 100; ++i) result.end_to_end.Record(i * 1'000'000);
  result.time_to_first_token.Record(2'000'000);
  return result;
}

TEST(Comparison, HasARowForEachResult) {
  Result closed = MakeResult();
  closed.label = "closed";
  closed.asked_rate = 0;
  closed.has_slo = false;
  const auto rows = ComparisonRows({MakeResult(), closed});
  ASSERT_EQ(rows.size(), 3U);
  const std::vector<std::string> first = {"släck", "100",
                                          "99.5",  "98.2",
                                          "1234",  "90.0",
                                          "7",     "2.00 / 2.00 / 2.00",
                                          "–",     "50.0 / 90.0 / 99.0"};
  EXPECT_EQ(rows[1], first);
  EXPECT_EQ(rows[2][1], "closed");
  EXPECT_EQ(rows[2][5], "–");
  EXPECT_EQ(rows[0].size(), rows[1].size());
}

TEST(Comparison, ColumnsAreAlignedByCharacters) {
  TextTable table({"name", "n"});
  table.AddRow({"ä", "5"});
  table.AddRow({"longer", "1234"});
  EXPECT_EQ(table.ToString(),
            "  name       n\n"
            "  ────────────\n"
            "  ä          5\n"
            "  longer  1234\n");
  const std::string text = Compare({MakeResult()}, std::nullopt).text;
  EXPECT_NE(text.find("  släck "), std::string::npos) << text;
}

const FigureChange& Find(const std::vector<FigureChange>& all, const std::string& figure) {
  static const FigureChange kNone{.figure = "none"};
  const auto found = std::ranges::find(all, figure, &FigureChange::figure);
  return found == all.end() ? kNone : *found;
}

TEST(Comparison, DifferencesAreOfTheFirstResult) {
  Result other = MakeResult();
  other.end_to_end = Histogram();
  for (int i = 1; i <= 100; ++i) other.end_to_end.Record(i * 1'100'000);
  other.requests_per_s = 78.6;
  const auto differences = FigureChanges(MakeResult(), other, 0.05);
  const FigureChange& p99 = Find(differences, "end to end p99, ms");
  EXPECT_NEAR(p99.base, 99, 0.1);
  EXPECT_NEAR(p99.other, 108.9, 0.2);
  EXPECT_NEAR(p99.change.value_or(0), 0.1, 0.002);
  EXPECT_TRUE(p99.is_worse);
  for (const char* figure : {"first token p50, ms", "first token p90, ms", "end to end p90, ms"}) {
    EXPECT_EQ(Find(differences, figure).figure, figure);
  }
  EXPECT_EQ(Find(differences, "time per token p50, ms").figure, "none");  // neither has one
  EXPECT_TRUE(Find(differences, "requests/s").is_worse);                  // a fifth less
  EXPECT_FALSE(Find(differences, "output tokens/s").is_worse);
  EXPECT_FALSE(Find(differences, "first token p50, ms").is_worse);
  // The other way round: latencies fall and rates grow.
  const auto better = FigureChanges(other, MakeResult(), 0.05);
  EXPECT_TRUE(Find(better, "end to end p99, ms").is_better);
  EXPECT_TRUE(Find(better, "requests/s").is_better);
  EXPECT_FALSE(std::ranges::any_of(better, &FigureChange::is_worse));
  // A wider threshold, and none.
  EXPECT_FALSE(Find(FigureChanges(MakeResult(), other, 0.15), "end to end p99, ms").is_worse);
  EXPECT_TRUE(Find(FigureChanges(MakeResult(), other, 0.15), "requests/s").is_worse);
  EXPECT_FALSE(std::ranges::any_of(FigureChanges(MakeResult(), other, std::nullopt),
                                   &FigureChange::is_worse));
}

TEST(Comparison, ErrorsCountFromAThousandthOfTheRequests) {
  const auto worse = [](int64_t before, int64_t after) {
    Result base = MakeResult(), other = MakeResult();
    base.num_errors = before;
    other.num_errors = after;
    return Find(FigureChanges(base, other, 0.5), "errors, % of the requests").is_worse;
  };
  EXPECT_FALSE(worse(0, 0));
  EXPECT_TRUE(worse(0, 1));
  EXPECT_TRUE(worse(7, 20));
  EXPECT_FALSE(worse(20, 7));
  EXPECT_FALSE(worse(100, 140));  // by less than half
  Result many = MakeResult(), more = MakeResult();
  many.num_requests = more.num_requests = 100'000;
  many.num_errors = 0;
  more.num_errors = 9;  // fewer than a thousandth
  EXPECT_FALSE(Find(FigureChanges(many, more, 0.5), "errors, % of the requests").is_worse);
}

TEST(Comparison, TellsWhatIsWorse) {
  Result other = MakeResult();
  other.label = "after";
  EXPECT_FALSE(Compare({MakeResult(), other}, 0.05).is_worse);
  EXPECT_NE(Compare({MakeResult(), other}, 0.05)
                .text.find("No figure of after is worse by more than 5%."),
            std::string::npos);
  other.num_errors = 300;
  other.asked_rate = 50;
  const ResultComparison comparison = Compare({MakeResult(), MakeResult(), other}, 0.05);
  EXPECT_TRUE(comparison.is_worse);
  for (const char* part : {"after is worse by more than 5%: errors, % of the requests +4185.7%.",
                           "The loads differ (100/s asked, 50.0/s asked)", "  worse\n"}) {
    EXPECT_NE(comparison.text.find(part), std::string::npos) << part << comparison.text;
  }
  const ResultComparison without = Compare({MakeResult(), other}, std::nullopt);
  EXPECT_FALSE(without.is_worse);
  EXPECT_EQ(without.text.find("worse"), std::string::npos);
  EXPECT_NE(without.text.find("+4185.7%"), std::string::npos) << without.text;
}

TEST(Comparison, NumbersHaveThreeDigits) {
  for (const auto& [number, text] :
       std::vector<std::pair<double, std::string>>{{0, "0"},
                                                   {0.0004, "0.000"},
                                                   {0.01234, "0.012"},
                                                   {0.5, "0.500"},
                                                   {1.2345, "1.23"},
                                                   {12.345, "12.3"},
                                                   {123.45, "123"},
                                                   {1234567, "1234567"},
                                                   {-12.345, "-12.3"}}) {
    EXPECT_EQ(FormatNumber(number), text);
  }
  EXPECT_EQ(FormatMs(1'500'000), "1.50");
}

}  // namespace
}  // namespace beamline::loadtest::compare_test
