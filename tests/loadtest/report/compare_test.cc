// Tables and numbers as people read them.
#include "loadtest/report/compare.h"

#include <gtest/gtest.h>

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
  const std::vector<std::string> first = {"släck", "100", "99.5",        "98.2", "1234",
                                          "90.0",  "7",   "2.00 / 2.00", "–",    "50.0 / 99.0"};
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
  const std::string text = FormatComparison({MakeResult()});
  EXPECT_NE(text.find("  släck "), std::string::npos) << text;
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
