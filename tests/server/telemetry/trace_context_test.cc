#include "server/telemetry/trace_context.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>

#include "tests/test_seed.h"

namespace beamline::trace_context_test {
namespace {

constexpr char kExample[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, ReadsWhatTheStandardSays) {
  const auto trace = ParseTraceParent(kExample);
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(trace->span_id, "00f067aa0ba902b7");
  EXPECT_TRUE(trace->sampled);
  EXPECT_EQ(TraceParentOf(*trace), kExample);
  const auto unsampled =
      ParseTraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02");
  ASSERT_TRUE(unsampled.has_value());
  EXPECT_FALSE(unsampled->sampled);
  EXPECT_EQ(TraceParentOf(*unsampled), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
}

TEST(TraceContext, LaterVersionsMayGoOn) {
  EXPECT_TRUE(
      ParseTraceParent("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09-more").has_value());
  EXPECT_TRUE(
      ParseTraceParent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").has_value());
}

TEST(TraceContext, WhatIsNoneIsNone) {
  for (const char* text : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
                           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
                           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
                           "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
                           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                           "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
                           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
                           "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}) {
    EXPECT_FALSE(ParseTraceParent(text).has_value()) << text;
  }
}

// Whatever is taken is what was said: of texts with a byte changed, none is read as another.
TEST(TraceContext, ChangedTextsAreReadAsTheyAreOrNotAtAll) {
  std::mt19937_64 random(TestSeed());
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = kExample;
    text[random() % text.size()] = static_cast<char>(random() % 256);
    const auto trace = ParseTraceParent(text);
    if (!trace.has_value()) continue;
    ++taken;
    EXPECT_EQ(trace->trace_id, text.substr(3, 32));
    EXPECT_EQ(trace->span_id, text.substr(36, 16));
    for (const char c : trace->trace_id + trace->span_id) {
      EXPECT_TRUE((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')) << text;
    }
  }
  EXPECT_GT(taken, 500);
}

TEST(TraceContext, NewSpansDiffer) {
  std::set<std::string> spans;
  for (int i = 0; i < 1000; ++i) {
    spans.insert(NewSpanId());
    EXPECT_EQ(spans.rbegin()->size(), 16u);
  }
  EXPECT_EQ(spans.size(), 1000u);
}

}  // namespace
}  // namespace beamline::trace_context_test
