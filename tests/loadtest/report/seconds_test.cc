#include "loadtest/report/seconds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loadtest/report/progress.h"
#include "loadtest/report/seconds_csv.h"

namespace beamline::loadtest::seconds_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

// Sent at once; ends so much later.
RequestRecord MakeRecord(int intended_ms, int latency_ms, Ending ending = Ending::kOk) {
  RequestRecord record;
  record.intended = milliseconds(intended_ms);
  record.sent = record.intended;
  record.end = record.intended + milliseconds(latency_ms);
  record.ending = ending;
  return record;
}

TEST(SecondSeriesTest, EverythingHasItsSecond) {
  SecondSeries series;
  RequestRecord stream = MakeRecord(500, 2000);
  stream.token_times = {milliseconds(900), milliseconds(1100), milliseconds(2400)};
  stream.message_tokens = {1, 4, 2};
  stream.generated_tokens = 8;  // one of them came without a message that was noted
  stream.longest_sequence = 8;
  series.Add(stream);
  series.Add(MakeRecord(2100, 300, Ending::kError));
  series.Add(MakeRecord(2100, 1300, Ending::kCancelled));
  const auto seconds = series.All();
  ASSERT_EQ(seconds.size(), 4U);
  EXPECT_EQ(seconds[0].sent, 1);
  EXPECT_EQ(seconds[2].sent, 2);
  EXPECT_EQ(seconds[0].tokens, 1);
  EXPECT_EQ(seconds[1].tokens, 4);
  EXPECT_EQ(seconds[2].tokens, 3);
  EXPECT_EQ(seconds[2].ok, 1);
  EXPECT_EQ(seconds[2].error, 1);
  EXPECT_EQ(seconds[3].cut, 1);
  EXPECT_EQ(seconds[2].end_to_end.count, 1);
  EXPECT_NEAR(static_cast<double>(seconds[2].end_to_end.p50), 2e9, 2e6);
  EXPECT_NEAR(static_cast<double>(seconds[2].time_to_first_token.p99), 4e8, 4e5);
  EXPECT_EQ(seconds[1].end_to_end.count, 0);
}

// Histograms of past seconds are dropped; their figures stay, and what is late is not lost.
TEST(SecondSeriesTest, PastSecondsKeepTheirFigures) {
  SecondSeries series;
  for (int second = 0; second < 50; ++second) {
    for (int i = 0; i < 100; ++i) series.Add(MakeRecord(second * 1000 + i, 1 + i));
  }
  series.Add(MakeRecord(1000, 5));
  const auto seconds = series.All();
  ASSERT_EQ(seconds.size(), 50U);
  int64_t count = 0;
  for (const Second& second : seconds) {
    EXPECT_NEAR(static_cast<double>(second.end_to_end.p50), 50e6, 1e6);
    EXPECT_NEAR(static_cast<double>(second.end_to_end.p99), 99e6, 1e6);
    EXPECT_NEAR(static_cast<double>(second.end_to_end.max), 100e6, 1e6);
    count += second.end_to_end.count;
  }
  EXPECT_EQ(count, 5001);
  EXPECT_EQ(seconds[1].ok, 101);
}

TEST(SecondSeriesTest, TheSecondBeforeIsAWholeOne) {
  SecondSeries series;
  series.Add(MakeRecord(1200, 100));
  EXPECT_EQ(series.Before(milliseconds(1900)).ok, 0);
  EXPECT_EQ(series.Before(milliseconds(2100)).ok, 1);
  EXPECT_GT(series.Before(milliseconds(2100)).end_to_end.p99, 0);
  EXPECT_EQ(series.Before(milliseconds(0)).ok, 0);
  EXPECT_EQ(series.Before(milliseconds(99'000)).ok, 0);
}

TEST(ProgressTest, SaysWhereTheRunStands) {
  Progress progress{.time = milliseconds(12'000), .num_ended = 90};
  progress.last = {.ok = 45, .tokens = 700};
  progress.last.end_to_end = {.count = 45, .p50 = 20'000'000, .p99 = 31'400'000};
  const std::string line = FormatProgress(progress, 100, 2, 30);
  EXPECT_EQ(line,
            "  12/30 s  100 sent  10 open  45 ended/s  700 tokens/s  end to end p50 20.0 p99 31.4 "
            "ms");
  progress.num_failed = 3;
  EXPECT_THAT(FormatProgress(progress, 100, 20, 30), HasSubstr("3 errors  (warm-up)"));
  EXPECT_THAT(FormatProgress(progress, 100, 2, 11), HasSubstr("waiting for the last answers"));
}

TEST(SecondsCsvTest, HasALineForEachSecond) {
  RunReport report;
  report.load = {.asked_per_s = {10, 20}, .warmup_s = 1};
  SecondSeries series;
  series.Add(MakeRecord(100, 50));
  series.Add(MakeRecord(1900, 200));
  report.summary.seconds = series.All();
  report.server = ServerSeries{
      .samples = {{.time_s = 1.01, .waiting = 3, .running = 4, .step_sequences = 2.5}}};
  EXPECT_EQ(SecondsCsv(report),
            "second,warmup,asked_per_s,sent,ok,error,cut,output_tokens,"
            "first_token_p50_ms,first_token_p90_ms,first_token_p99_ms,first_token_max_ms,"
            "per_output_token_p50_ms,per_output_token_p90_ms,per_output_token_p99_ms,"
            "per_output_token_max_ms,"
            "end_to_end_p50_ms,end_to_end_p90_ms,end_to_end_p99_ms,end_to_end_max_ms,"
            "server_waiting,server_running,server_step_sequences,server_tokens_per_s\n"
            "0,1,10,1,1,0,0,0,,,,,,,,,50,50,50,50,,,,\n"
            "1,0,20,1,0,0,0,0,,,,,,,,,,,,,3,4,2.5,\n"
            "2,0,,0,1,0,0,0,,,,,,,,,200,200,200,200,,,,\n");
}

}  // namespace
}  // namespace beamline::loadtest::seconds_test
