#include "client/cli/format.h"

#include <gtest/gtest.h>

namespace beamline::cli::format_test {
namespace {

google::protobuf::Duration Duration(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

TEST(Format, Durations) {
  EXPECT_EQ(FormatDuration(Duration(0, 850000)), "850 us");
  EXPECT_EQ(FormatDuration(Duration(0, 3100000)), "3.1 ms");
  EXPECT_EQ(FormatDuration(Duration(2, 450000000)), "2.45 s");
  EXPECT_DOUBLE_EQ(Seconds(Duration(2, 500000000)), 2.5);
}

TEST(Format, Numbers) {
  EXPECT_EQ(FormatBytes(12), "12 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(int64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(8376320), "8,376,320");
  EXPECT_EQ(FormatCount(-1000), "-1,000");
}

TEST(Format, QuotesStayOnOneLine) {
  EXPECT_EQ(Quote(" a\n\"b\"\t\\"), "\" a\\n\\\"b\\\"\\t\\\\\"");
  EXPECT_EQ(Quote("ä"), "\"ä\"");
}

TEST(Format, Summary) {
  v1::Usage usage;
  usage.set_prompt_tokens(17);
  usage.set_generated_tokens(19);
  v1::Timing timing;
  *timing.mutable_total() = Duration(0, 25000000);
  EXPECT_EQ(SummaryLine(usage, timing, {v1::FINISH_REASON_EOS}),
            "17 prompt + 19 generated tokens, 25.0 ms in all (760 tokens/s), EOS");
  usage.set_cached_tokens(16);
  *timing.mutable_first_token() = Duration(0, 2100000);
  EXPECT_EQ(SummaryLine(usage, timing, {}),
            "17 prompt (16 cached) + 19 generated tokens, first after 2.1 ms, 25.0 ms in all (760 "
            "tokens/s)");
}

TEST(Format, TablesAlignCharactersAndNumbers) {
  EXPECT_EQ(FormatTable({{"id", "piece"}, {"7", "größer"}, {"123", "x"}}),
            "id   piece\n"
            "  7  größer\n"
            "123  x\n");
}

TEST(Format, JsonHasTheContractsNames) {
  v1::Usage usage;
  usage.set_prompt_tokens(3);
  EXPECT_EQ(ToJson(usage), R"({"prompt_tokens":3,"cached_tokens":0,"generated_tokens":0})");
}

}  // namespace
}  // namespace beamline::cli::format_test
