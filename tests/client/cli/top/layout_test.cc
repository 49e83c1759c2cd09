#include "client/cli/top/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cli/top/records.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline::cli::layout_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

ServerView Loaded() {
  ServerView view{.seconds = 2, .uptime_s = 11530, .cpu_share = 1.871};
  view.resident_bytes = 1.2 * (1 << 30);
  view.connections = 12;
  view.models = {{.name = "write-en"}, {.name = "none", .requests_per_s = 0.5}};
  ModelView& model = view.models[0];
  model.requests_per_s = 123.4;
  model.errors_per_s = 0.5;
  model.generated_per_s = 12345;
  model.encoded_per_s = 0;
  model.waiting = 3;
  model.running = 16;
  model.used_blocks = 2112;
  model.num_blocks = 8448;
  model.mean_batch = 7.25;
  model.queue = {0.00085, 0.0123};
  model.first_token = {0.0021, 0.5};
  model.duration = {0.25, 75};
  view.replicas = {{"write-en", "1", "0", "cpu", true}, {"write-en", "1", "1", "cuda:1", false}};
  view.memory = {{"cpu", {{"weights", 1 << 20}, {"cache", 2 << 20}}}};
  view.unused_memory = {{"cuda:1", 5}};
  return view;
}

TopFrame Frame() {
  TopFrame frame = {.url = "http://127.0.0.1:50052/metrics", .interval_s = 2, .time = "14:03:22"};
  frame.has_keys = true;
  return frame;
}

std::string Joined(const std::vector<std::string>& lines) {
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

TEST(TopLayout, AtTwoWidths) {
  EXPECT_EQ(Joined(LayOutTop(Loaded(), Frame(), 80, Style())),
            "beamline top  http://127.0.0.1:50052/metrics        14:03:22  every 2 s  q: quit\n"
            "up 3h 12m   cpu 187%   memory 1.2 GiB   12 connections\n"
            "\n"
            "                                                     cache  queue       latency\n"
            "model         req/s  err/s  tok/s  wait  run  batch   used    p99    p50    p99\n"
            "write-en        123   0.50  12.3k     3   16    7.2    25%   12ms  250ms    75s\n"
            "(no model)     0.50      -      -     -    -      -      -      -      -      -\n"
            "\n"
            "replica of  version  number  device  state\n"
            "write-en          1       0  cpu     up\n"
            "write-en          1       1  cuda:1  DOWN\n"
            "\n"
            "device     held    cache  weights  unused\n"
            "cpu     3.0 MiB  2.0 MiB  1.0 MiB\n");
  const std::string wide = Joined(LayOutTop(Loaded(), Frame(), 130, Style()));
  for (const char* part :
       {"cache", "queue", "first token", "blocks", "2112/8448", "850us", "2.1ms"}) {
    EXPECT_THAT(wide, HasSubstr(part));
  }
}

TEST(TopLayout, NoLineIsWiderThanTheTerminal) {
  ServerView view = Loaded();
  view.models[0].name = std::string(300, 'x');
  view.models.push_back({.name = "ünï\x1b[31m\n\xff"});
  view.replicas.push_back({std::string(100, 'y'), "1", "0", "cpu", true});
  TopFrame frame = Frame();
  for (const std::string& fault : {std::string(), std::string(300, 'z')}) {
    frame.fault = fault;
    for (size_t width = 1; width < 200; ++width) {
      for (const bool color : {false, true}) {
        for (const std::string& line : LayOutTop(view, frame, width, Style(color))) {
          EXPECT_LE(ShownWidth(line), width) << line;
          EXPECT_EQ(line.find('\n'), std::string::npos);
          EXPECT_THAT(line, Not(HasSubstr("\x1b[31m\n")));
        }
      }
    }
  }
}

TEST(TopLayout, AServerThatHasGoneIsSaid) {
  TopFrame frame = Frame();
  frame.fault = "no answer: Connection refused";
  const auto lines = LayOutTop(Loaded(), frame, 80, Style(true));
  EXPECT_EQ(lines[1], Style(true).Bad(frame.fault));
  EXPECT_EQ(lines[2], Style(true).Faint("up 3h 12m   cpu 187%   memory 1.2 GiB   12 connections"));
  EXPECT_THAT(LayOutTop(ServerView(), frame, 80, Style()), SizeIs(2));
}

TEST(TopLayout, WhatIsWrongStandsOut) {
  const std::string text = Joined(LayOutTop(Loaded(), Frame(), 80, Style(true)));
  EXPECT_THAT(text, HasSubstr("\x1b[31m 0.50\x1b[0m"));  // errors
  EXPECT_THAT(text, HasSubstr("\x1b[33m   3\x1b[0m"));   // waiting
  EXPECT_THAT(text, HasSubstr("\x1b[31mwrite-en          1       1  cuda:1  DOWN\x1b[0m"));
}

TEST(TopLayout, FitsTheHeight) {
  EXPECT_THAT(FitHeight({"a", "b", "c", "d"}, 3), ElementsAre("a", "b", "... 2 more lines"));
  EXPECT_THAT(FitHeight({"a", "b"}, 2), ElementsAre("a", "b"));
}

TEST(TopLayout, Numbers) {
  EXPECT_EQ(ShortNumber(std::nullopt), "-");
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(0.004), "0.00");
  EXPECT_EQ(ShortNumber(0.996), "1.0");
  EXPECT_EQ(ShortNumber(99.96), "100");
  EXPECT_EQ(ShortNumber(9999), "9999");
  EXPECT_EQ(ShortNumber(9999.6), "10.0k");
  EXPECT_EQ(ShortNumber(2.5e6), "2.5M");
  EXPECT_EQ(ShortDuration(std::nullopt), "-");
  EXPECT_EQ(ShortDuration(0.00085), "850us");
  EXPECT_EQ(ShortDuration(0.00996), "10ms");
  EXPECT_EQ(ShortDuration(0.9996), "1.0s");
  EXPECT_EQ(ShortDuration(600), "10m");
}

TEST(TopRecords, JsonAndCsvHaveWhatIsNotKnownEmpty) {
  const auto json = nlohmann::json::parse(TopJson(Loaded(), "2026-01-02T03:04:05Z"));
  EXPECT_EQ(json["time"], "2026-01-02T03:04:05Z");
  EXPECT_EQ(json["server"]["uptime_s"], 11530);
  EXPECT_EQ(json["models"][0]["requests_per_s"], 123.4);
  EXPECT_EQ(json["models"][0]["latency_p99_s"], 75);
  EXPECT_TRUE(json["models"][1]["latency_p99_s"].is_null());
  EXPECT_EQ(json["replicas"][1]["up"], false);
  EXPECT_EQ(json["devices"][0]["bytes"]["weights"], 1 << 20);
  std::ostringstream out;
  Output output(out, OutputFormat::kCsv, Style());
  PrintTopRows(Loaded(), "t", output);
  PrintTopRows(ServerView(), "t", output);
  EXPECT_EQ(
      out.str(),
      "time,model,requests_per_s,errors_per_s,generated_tokens_per_s,encoded_tokens_per_s,"
      "prompt_tokens_per_s,waiting_requests,running_sequences,mean_batch_sequences,"
      "cache_blocks_used,cache_blocks,queue_p50_s,queue_p99_s,first_token_p50_s,"
      "first_token_p99_s,latency_p50_s,latency_p99_s\r\n"
      "t,write-en,123.4,0.5,12345,0,,3,16,7.25,2112,8448,0.00085,0.0123,0.0021,0.5,0.25,75\r\n"
      "t,none,0.5,,,,,,,,,,,,,,,\r\n");
}

}  // namespace
}  // namespace beamline::cli::layout_test
