#include "client/cli/top/server_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace beamline::cli::server_state_test {
namespace {

using testing::DoubleEq;
using testing::Optional;
using testing::SizeIs;

ServerState StateOf(const std::string& text) {
  const auto samples = ParseExposition(text);
  EXPECT_TRUE(samples.ok()) << samples.status();
  return ReadServerState(*samples);
}

// Of a server whose model answers ten requests in a second, one of them with an error.
constexpr char kBefore[] = R"(
beamline_requests_total{rpc="Generate",model="m",code="OK"} 5
beamline_generated_tokens_total{model="m"} 100
beamline_encoded_tokens_total{model="m"} 0
beamline_waiting_requests{model="m"} 0
beamline_kv_blocks{model="m",state="used"} 1
beamline_kv_blocks{model="m",state="free"} 7
process_start_time_seconds 1000
process_cpu_seconds_total 10
)";
constexpr char kNow[] = R"(
beamline_requests_total{rpc="Generate",model="m",code="OK"} 12
beamline_requests_total{rpc="GenerateStream",model="m",code="OK"} 2
beamline_requests_total{rpc="Generate",model="m",code="INTERNAL"} 1
beamline_requests_total{rpc="ListModels",model="none",code="OK"} 3
beamline_request_duration_seconds_bucket{rpc="Generate",model="m",le="0.1"} 4
beamline_request_duration_seconds_bucket{rpc="Generate",model="m",le="0.2"} 8
beamline_request_duration_seconds_bucket{rpc="Generate",model="m",le="+Inf"} 8
beamline_request_duration_seconds_bucket{rpc="GenerateStream",model="m",le="0.1"} 0
beamline_request_duration_seconds_bucket{rpc="GenerateStream",model="m",le="0.2"} 0
beamline_request_duration_seconds_bucket{rpc="GenerateStream",model="m",le="+Inf"} 2
beamline_batch_sequences_sum{model="m"} 30
beamline_batch_sequences_count{model="m"} 10
beamline_generated_tokens_total{model="m"} 300
beamline_encoded_tokens_total{model="m"} 50
beamline_prompt_tokens_total{model="m",source="computed"} 40
beamline_prompt_tokens_total{model="m",source="cached"} 20
beamline_waiting_requests{model="m"} 4
beamline_running_sequences{model="m"} NaN
beamline_kv_blocks{model="m",state="used"} 6
beamline_kv_blocks{model="m",state="free"} 2
beamline_replica_up{model="m",replica="0",device="cuda:0",version="2"} 0
beamline_device_memory_bytes{device="cuda:0",model="m",use="weights"} 1000
beamline_device_memory_bytes{device="cuda:0",model="n",use="weights"} 500
beamline_device_memory_unused_bytes{device="cuda:0"} 9000
beamline_rejected_total{reason="capacity"} 4
process_start_time_seconds 1000
process_cpu_seconds_total 13
)";

TEST(ServerStateTest, RatesAreOfTheTimeBetween) {
  const ServerState before = StateOf(kBefore), now = StateOf(kNow);
  const ServerView view = Compare(&before, now, 2, 1060);
  EXPECT_FALSE(view.has_restarted);
  EXPECT_THAT(view.uptime_s, Optional(60));
  EXPECT_THAT(view.cpu_share, Optional(1.5));
  EXPECT_THAT(view.rejected_per_s, Optional(2));
  ASSERT_THAT(view.models, SizeIs(2));
  const ModelView& model = view.models[0];
  EXPECT_EQ(model.name, "m");
  EXPECT_THAT(model.requests_per_s, Optional(5));
  EXPECT_THAT(model.errors_per_s, Optional(0.5));
  EXPECT_THAT(model.tokens_per_s(), Optional(125));
  EXPECT_THAT(model.prompt_per_s, Optional(30));
  EXPECT_THAT(model.waiting, Optional(4));
  EXPECT_EQ(model.running, std::nullopt);  // NaN
  EXPECT_THAT(model.used_blocks, Optional(6));
  EXPECT_THAT(model.num_blocks, Optional(8));
  EXPECT_THAT(model.mean_batch, Optional(3));
  // Ten in all: four below 0.1, four below 0.2, two beyond.
  EXPECT_THAT(model.duration.p50, Optional(DoubleEq(0.125)));
  EXPECT_THAT(model.duration.p99, Optional(0.2));
  EXPECT_EQ(model.queue.p50, std::nullopt);
  EXPECT_EQ(view.models[1].name, "none");
  EXPECT_THAT(view.models[1].requests_per_s, Optional(1.5));
  ASSERT_THAT(view.replicas, SizeIs(1));
  EXPECT_FALSE(view.replicas[0].is_up);
  EXPECT_EQ(view.replicas[0].version, "2");
  EXPECT_EQ(view.memory.at("cuda:0").at("weights"), 1500);
  EXPECT_EQ(view.unused_memory.at("cuda:0"), 9000);
}

TEST(ServerStateTest, OneStateHasNoRates) {
  const ServerView view = Compare(nullptr, StateOf(kNow), 2, 1060);
  EXPECT_EQ(view.seconds, 0);
  EXPECT_EQ(view.models[0].requests_per_s, std::nullopt);
  EXPECT_EQ(view.models[0].duration.p50, std::nullopt);
  EXPECT_THAT(view.models[0].waiting, Optional(4));
}

TEST(ServerStateTest, CountsThatBeginAnewHaveNoRate) {
  const ServerState before = StateOf(kNow);
  const ServerView fell = Compare(&before, StateOf(kBefore), 2, 1060);
  EXPECT_FALSE(fell.has_restarted);
  EXPECT_EQ(fell.models[0].requests_per_s, std::nullopt);
  EXPECT_EQ(fell.models[0].tokens_per_s(), std::nullopt);
  EXPECT_EQ(fell.models[0].mean_batch, std::nullopt);
  ServerState other = StateOf(kNow);
  other.start_time = 1050;
  other.models["m"].calls += 100;
  const ServerView restarted = Compare(&before, other, 2, 1060);
  EXPECT_TRUE(restarted.has_restarted);
  EXPECT_EQ(restarted.models[0].requests_per_s, std::nullopt);
  EXPECT_EQ(restarted.rejected_per_s, std::nullopt);
}

TEST(ServerStateTest, QuantilesOfWhatCameBetween) {
  const double infinity = std::numeric_limits<double>::infinity();
  const HistogramState none;
  const HistogramState now = {{{1, 10}, {2, 30}, {4, 40}, {infinity, 40}}, 0, 40};
  EXPECT_THAT(QuantileBetween(none, now, 0.5), Optional(1.5));
  EXPECT_THAT(QuantileBetween(none, now, 0.25), Optional(1.0));
  EXPECT_THAT(QuantileBetween(none, now, 1), Optional(4));
  const HistogramState before = {{{1, 10}, {2, 20}, {4, 30}, {infinity, 30}}, 0, 30};
  EXPECT_THAT(QuantileBetween(before, now, 0.5), Optional(1.5));  // all ten are of 1 to 2
  EXPECT_EQ(QuantileBetween(now, now, 0.5), std::nullopt);
  EXPECT_EQ(QuantileBetween(now, before, 0.5), std::nullopt);
  EXPECT_EQ(QuantileBetween(none, none, 0.5), std::nullopt);
}

}  // namespace
}  // namespace beamline::cli::server_state_test
