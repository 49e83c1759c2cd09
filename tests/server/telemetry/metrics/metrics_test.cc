// Every series of the server, by hand-made observations. Long because each kind has its test.
#include "server/telemetry/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <thread>

#include "base/build_info.h"
#include "fmt/format.h"
#include "server/telemetry/metrics/build_metrics.h"
#include "server/telemetry/metrics/process_metrics.h"
#include "tests/server/fake_engine.h"

namespace beamline::metrics_test {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;

std::vector<ModelOptions> TwoModels() {
  std::vector<ModelOptions> models(2);
  models[0].name = "a";
  models[1].name = "b";
  return models;
}

const MetricFamily& Find(const std::vector<MetricFamily>& families, std::string_view name) {
  for (const MetricFamily& family : families) {
    if (family.name == name) return family;
  }
  ADD_FAILURE() << "no family " << name;
  return families.front();
}

std::string Label(const ClientMetric& metric, const std::string& name) {
  for (const auto& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return "";
}

TEST(Histogram, EdgesGrowAsDocumented) {
  const auto& edges = LatencyEdges();
  EXPECT_EQ(edges.front(), 0.0001);
  EXPECT_EQ(edges.back(), 600);
  EXPECT_LE(edges.size(), 40u);
  for (size_t i = 1; i < edges.size(); ++i) {
    EXPECT_GE(edges[i] / edges[i - 1], 1.3);
    EXPECT_LE(edges[i] / edges[i - 1], 2 + 1e-9);
  }
  // Objectives count what is below an edge: these stay edges.
  for (const double edge : {0.001, 0.01, 0.1, 0.2, 0.5, 1.0, 5.0, 50.0}) {
    EXPECT_THAT(edges, testing::Contains(edge));
  }
  EXPECT_EQ(TokenEdges().front(), 1);
  EXPECT_EQ(TokenEdges().back(), 1048576);
}

TEST(Histogram, LongTimesAreToldWithinAFactorOfTwo) {
  for (const double seconds : {2.5, 5.0, 6.0, 12.0, 50.0, 60.0, 120.0, 290.0, 590.0}) {
    Histogram histogram(LatencyEdges());
    histogram.Observe(seconds);
    double lower = 0;
    for (const auto& bucket : histogram.Snapshot().bucket) {
      if (bucket.cumulative_count == 1) {
        EXPECT_GE(bucket.upper_bound, seconds);
        EXPECT_LE(bucket.upper_bound, 2 * lower) << seconds;
        break;
      }
      lower = bucket.upper_bound;
    }
  }
}

TEST(Histogram, CountsCumulatively) {
  Histogram histogram(SizeEdges());
  for (const double value : {1.0, 2.0, 2.5, 8192.0, 8193.0}) histogram.Observe(value);
  const auto snapshot = histogram.Snapshot();
  EXPECT_EQ(snapshot.sample_count, 5u);
  EXPECT_DOUBLE_EQ(snapshot.sample_sum, 16390.5);
  EXPECT_EQ(snapshot.bucket[0].cumulative_count, 1u);  // <= 1
  EXPECT_EQ(snapshot.bucket[1].cumulative_count, 2u);  // <= 2
  EXPECT_EQ(snapshot.bucket[2].cumulative_count, 3u);  // <= 4
  EXPECT_EQ(snapshot.bucket[snapshot.bucket.size() - 2].cumulative_count, 4u);
  EXPECT_EQ(snapshot.bucket.back().cumulative_count, 5u);
  EXPECT_TRUE(std::isinf(snapshot.bucket.back().upper_bound));
}

TEST(Histogram, ManyThreadsLoseNothing) {
  Histogram histogram(LatencyEdges());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&histogram] {
      for (int i = 0; i < 10000; ++i) histogram.Observe(0.001);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(histogram.Snapshot().sample_count, 40000u);
  EXPECT_NEAR(histogram.Snapshot().sample_sum, 40.0, 1e-6);
}

TEST(Metrics, RecordsCallsByModelRpcAndCode) {
  Metrics metrics(TwoModels());
  CallRecord record;
  record.rpc = Rpc::kGenerate;
  record.model = "b";
  record.duration = std::chrono::milliseconds(30);
  record.timing = {.queue = std::chrono::milliseconds(1),
                   .expected_queue = std::chrono::milliseconds(3),
                   .first_token = std::chrono::milliseconds(11),
                   .total = std::chrono::milliseconds(29)};
  record.usage.prompt_tokens = 300;
  record.usage.generated_tokens = 10;
  metrics.RecordCall(record);
  metrics.RecordCall(record);
  metrics.RecordCall(
      {.rpc = Rpc::kEncode, .model = "no such model", .code = absl::StatusCode::kInvalidArgument});
  metrics.RecordRejection(Rejection::kDraining);
  const auto families = metrics.Collect();

  std::map<std::string, double> calls;
  for (const auto& metric : Find(families, "beamline_requests_total").metric) {
    calls[fmt::format("{}/{}/{}", Label(metric, "rpc"), Label(metric, "model"),
                      Label(metric, "code"))] = metric.counter.value;
  }
  const std::map<std::string, double> expected = {{"Generate/b/OK", 2},
                                                  {"Encode/none/INVALID_ARGUMENT", 1}};
  EXPECT_EQ(calls, expected);
  const auto sum = [&families](const char* name) {
    const auto& family = Find(families, name);
    EXPECT_EQ(family.metric.size(), 1u);
    return family.metric.at(0).histogram.sample_sum;
  };
  EXPECT_NEAR(sum("beamline_time_to_first_token_seconds"), 0.022, 1e-9);
  EXPECT_NEAR(sum("beamline_inter_token_seconds"), 0.004, 1e-9);
  EXPECT_NEAR(sum("beamline_queue_seconds"), 0.002, 1e-9);
  EXPECT_NEAR(sum("beamline_expected_queue_seconds"), 0.006, 1e-9);
  EXPECT_NEAR(sum("beamline_prefill_seconds"), 0.020, 1e-9);
  EXPECT_EQ(sum("beamline_request_prompt_tokens"), 600);
  EXPECT_EQ(sum("beamline_request_generated_tokens"), 20);
  for (const auto& metric : Find(families, "beamline_rejected_total").metric) {
    EXPECT_EQ(metric.counter.value, Label(metric, "reason") == "draining" ? 1 : 0);
  }
  const auto& durations = Find(families, "beamline_request_duration_seconds");
  ASSERT_EQ(durations.metric.size(), 2u);
  EXPECT_EQ(Label(durations.metric[0], "model"), "b");
  EXPECT_EQ(durations.metric[0].histogram.sample_count, 2u);
  EXPECT_NEAR(durations.metric[0].histogram.sample_sum, 0.060, 1e-9);
}

TEST(Metrics, TotalsAreThoseOfEveryRpcThatComputes) {
  for (size_t i = 0; i < kRpcNames.size(); ++i) {
    Metrics metrics(TwoModels());
    metrics.RecordCall({.rpc = static_cast<Rpc>(i), .model = "b"});
    const std::string_view name = kRpcNames[i];
    // The calls that answer of a model's outputs; others tell, load, or turn texts into tokens.
    bool computes = false;
    for (const std::string_view word : {"Generate", "Encode", "Score", "Classify", "Rerank",
                                        "FillMask", "Infer", "Embed", "Predict"}) {
      computes = computes || name.find(word) != std::string_view::npos;
    }
    EXPECT_EQ(metrics.Totals("b").success.count, computes ? 1u : 0u) << name;
  }
}

TEST(Metrics, TellNothingOfNoEngine) {
  const Metrics metrics(TwoModels());
  const auto none = metrics.Collect();
  EXPECT_TRUE(std::none_of(none.begin(), none.end(), [](const MetricFamily& family) {
    return family.name == "beamline_generated_tokens_total";
  }));
}

// Every number of the engine's statistics, none of them the same, under its own name.
TEST(Metrics, TellWhatTheEngineCounts) {
  FakeEngine engine;
  ModelStats stats;
  stats.waiting_requests = 1;
  stats.running_sequences = 2;
  stats.used_blocks = 3;
  stats.total_blocks = 10;
  stats.prompt_tokens = 11;
  stats.cached_prompt_tokens = 12;
  stats.generated_tokens = 13;
  stats.encoded_tokens = 14;
  stats.preemptions = 15;
  stats.cancelled = 16;
  stats.rerun = 19;
  stats.waiting_tokens = 23;
  stats.oldest_waiting_seconds = 24;
  stats.expected_queue_seconds = 25;
  stats.hopeless = 26;
  stats.replicas = {{.phase = ReplicaPhase::kRestarting,
                     .restarts = 20,
                     .steps = 21,
                     .expected_wait_seconds = 22}};
  stats.speculative_proposed = 17;
  stats.speculative_accepted = 18;
  engine.SetStats(stats);
  engine.OnFault([](const ModelInfo&, const absl::Status&) {});
  engine.Break("embedder", absl::UnavailableError("it broke"));
  Metrics metrics(TwoModels());
  metrics.SetEngine(&engine);
  std::map<std::string, double> values;
  for (const auto& family : metrics.Collect()) {
    for (const auto& metric : family.metric) {
      if (Label(metric, "model") != "writer" && family.name != "beamline_replica_up") continue;
      std::string name = family.name;
      for (const auto& label : metric.label) {
        if (label.name != "model" || label.value != "writer") name += "/" + label.value;
      }
      const bool counts = family.type == prometheus::MetricType::Counter;
      values[name] = counts ? metric.counter.value : metric.gauge.value;
    }
  }
  const std::map<std::string, double> expected = {
      {"beamline_waiting_requests", 1},
      {"beamline_running_sequences", 2},
      {"beamline_kv_blocks/used", 3},
      {"beamline_kv_blocks/free", 7},
      {"beamline_prompt_tokens_total/computed", 11},
      {"beamline_prompt_tokens_total/cached", 12},
      {"beamline_prefix_cache_hit_tokens_total", 12},
      {"beamline_generated_tokens_total", 13},
      {"beamline_encoded_tokens_total", 14},
      {"beamline_preemptions_total", 15},
      {"beamline_cancelled_total", 16},
      {"beamline_reruns_total", 19},
      {"beamline_waiting_tokens", 23},
      {"beamline_oldest_waiting_seconds", 24},
      {"beamline_expected_wait_seconds", 25},
      {"beamline_hopeless_total", 26},
      {"beamline_replica_restarting/0/fake:0/1", 1},
      {"beamline_replica_restarts_total/0/fake:0/1", 20},
      {"beamline_replica_steps_total/0/fake:0/1", 21},
      {"beamline_replica_expected_wait_seconds/0/fake:0/1", 22},
      {"beamline_speculative_tokens_total/proposed", 17},
      {"beamline_speculative_tokens_total/accepted", 18},
      {"beamline_model_info/FakeLMHeadModel/fake:0/1", 1},
      {"beamline_replica_up/0/fake:0/1", 1},
      {"beamline_replica_up/embedder/0/fake:0/1", 0}};
  EXPECT_EQ(values, expected);
}

// Those that gateways and autoscalers read, on request alone, labelled as vLLM labels them.
TEST(Metrics, HaveVllmsNamesOnRequest) {
  FakeEngine engine;
  ModelStats stats;
  stats.waiting_requests = 3;
  stats.running_sequences = 5;
  stats.used_blocks = 30;
  stats.total_blocks = 120;
  engine.SetStats(stats);
  Metrics metrics(TwoModels());
  metrics.SetEngine(&engine);
  const auto read = [&metrics] {
    std::map<std::string, double> values;
    for (const auto& family : metrics.Collect()) {
      if (!family.name.starts_with("vllm:")) continue;
      EXPECT_EQ(family.type, prometheus::MetricType::Gauge) << family.name;
      for (const auto& metric : family.metric) {
        std::string name = family.name;
        for (const auto& label : metric.label)
          name += fmt::format("/{}={}", label.name, label.value);
        values[name] = metric.gauge.value;
      }
    }
    return values;
  };
  EXPECT_TRUE(read().empty());
  metrics.AddVllmNames();
  auto values = read();
  const std::string lora =
      "vllm:lora_requests_info/max_lora=0/running_lora_adapters=/waiting_lora_adapters=";
  EXPECT_NEAR(values[lora], static_cast<double>(std::time(nullptr)), 600);
  values.erase(lora);
  std::map<std::string, double> expected;
  for (const std::string model : {"model_name=writer", "model_name=embedder"}) {
    expected["vllm:num_requests_waiting/" + model] = 3;
    expected["vllm:num_requests_running/" + model] = 5;
    expected["vllm:kv_cache_usage_perc/" + model] = 0.25;
    expected["vllm:cache_config_info/" + model + "/block_size=16/num_gpu_blocks=120"] = 1;
  }
  EXPECT_EQ(values, expected);

  stats.used_blocks = stats.total_blocks = 0;  // as an embedder's, which has no cache
  engine.SetStats(stats);
  values = read();
  EXPECT_EQ(values["vllm:kv_cache_usage_perc/model_name=embedder"], 0);
  EXPECT_FALSE(
      values.contains("vllm:cache_config_info/model_name=embedder/block_size=16/"
                      "num_gpu_blocks=0"));
}

TEST(Metrics, TellWhatTheAcceptorCounts) {
  Metrics metrics({});
  ConnectionStats& stats = metrics.connections();
  stats.accepted = 21;
  stats.accept_errors = 22;
  stats.silent = 23;
  stats.open = 24;
  stats.paced = 26;
  metrics.guard().state[static_cast<size_t>(GuardedKind::kTls)] = GuardState::kFails;
  for (int i = 0; i < 3; ++i) stats.Count(Refusal::kTimeout);
  stats.Count(Refusal::kLimit);
  metrics.http().Count(200);
  metrics.http().Count(418);
  metrics.http().connections.Count(Refusal::kLimit);
  metrics.http().connections.open = 25;
  std::map<std::string, double> values;
  const auto read = [&] {
    for (const auto& family : metrics.Collect()) {
      if (family.name.find("connection") == std::string::npos &&
          family.name.find("accept") == std::string::npos) {
        continue;
      }
      const bool counts = family.type == prometheus::MetricType::Counter;
      for (const auto& metric : family.metric) {
        const std::string label = metric.label.empty() ? "" : "/" + metric.label[0].value;
        values[family.name + label] = counts ? metric.counter.value : metric.gauge.value;
      }
    }
  };
  read();
  const std::map<std::string, double> expected = {
      {"beamline_connections_accepted_total", 21},
      {"beamline_accept_errors_total", 22},
      {"beamline_connections_paced_total", 26},
      {"beamline_connection_guard/tls", 0},
      {"beamline_connections_open/silent", 23},
      {"beamline_connections_open/speaking", 24},
      {"beamline_connections_refused_total/limit", 1},
      {"beamline_connections_refused_total/peer_limit", 0},
      {"beamline_connections_refused_total/timeout", 3},
      {"beamline_connections_refused_total/displaced", 0},
      {"beamline_connections_refused_total/flood", 0},
      {"beamline_connections_refused_total/protocol", 0},
      {"beamline_http_connections_open", 25},
      {"beamline_http_connections_refused_total/limit", 1},
      {"beamline_http_connections_refused_total/peer_limit", 0},
      {"beamline_http_connections_refused_total/timeout", 0},
      {"beamline_http_connections_refused_total/displaced", 0},
      {"beamline_http_connections_refused_total/flood", 0},
      {"beamline_http_connections_refused_total/protocol", 0},
      {"beamline_accepting", 1}};
  EXPECT_EQ(values, expected);
  for (const auto& family : metrics.Collect()) {
    if (family.name != "beamline_http_answers_total") continue;
    double sum = 0;
    for (const auto& metric : family.metric) {
      const std::string& status = metric.label[0].value;
      EXPECT_EQ(metric.counter.value, status == "200" || status == "other" ? 1 : 0) << status;
      sum += metric.counter.value;
    }
    EXPECT_EQ(sum, 2);
  }
  stats.accepting = false;
  read();
  EXPECT_EQ(values.at("beamline_accepting"), 0);
}

TEST(Metrics, RecordsSteps) {
  Metrics metrics(TwoModels());
  metrics.OnStep("a", {.phase = StepReport::Phase::kMixed,
                       .duration = std::chrono::microseconds(300),
                       .num_tokens = 12,
                       .num_sequences = 3});
  const auto families = metrics.Collect();
  const auto& steps = Find(families, "beamline_step_seconds");
  ASSERT_EQ(steps.metric.size(), 1u);
  EXPECT_EQ(Label(steps.metric[0], "phase"), "mixed");
  EXPECT_EQ(Label(steps.metric[0], "model"), "a");
  EXPECT_NEAR(steps.metric[0].histogram.sample_sum, 0.0003, 1e-12);
  EXPECT_EQ(Find(families, "beamline_batch_tokens").metric[0].histogram.sample_sum, 12);
  EXPECT_EQ(Find(families, "beamline_batch_sequences").metric[0].histogram.sample_sum, 3);
}

TEST(Metrics, DeviceMemoryIsByModelAndUseAndWhatIsLeftByDevice) {
  FakeEngine engine;  // two models of one device
  ModelStats stats;
  stats.memory = {{"weights", 1000}, {"cache", 0}};
  stats.unused_device_bytes = 0;  // full, which is worth a sample
  engine.SetStats(stats);
  Metrics metrics(TwoModels());
  metrics.SetEngine(&engine);
  auto families = metrics.Collect();
  std::map<std::string, double> bytes;
  for (const auto& metric : Find(families, "beamline_device_memory_bytes").metric) {
    bytes[fmt::format("{}/{}/{}", Label(metric, "device"), Label(metric, "model"),
                      Label(metric, "use"))] = metric.gauge.value;
  }
  const std::map<std::string, double> expected = {{"fake:0/writer/weights", 1000},
                                                  {"fake:0/writer/cache", 0},
                                                  {"fake:0/embedder/weights", 1000},
                                                  {"fake:0/embedder/cache", 0}};
  EXPECT_EQ(bytes, expected);
  const auto unused = Find(families, "beamline_device_memory_unused_bytes");
  ASSERT_EQ(unused.metric.size(), 1u);
  EXPECT_EQ(Label(unused.metric[0], "device"), "fake:0");
  EXPECT_EQ(unused.metric[0].gauge.value, 0);

  stats.unused_device_bytes = std::nullopt;  // as on a CPU
  engine.SetStats(stats);
  families = metrics.Collect();
  EXPECT_TRUE(Find(families, "beamline_device_memory_unused_bytes").metric.empty());
}

TEST(BuildMetrics, AreThisBuild) {
  std::vector<prometheus::MetricFamily> families;
  CollectBuildMetrics(families);
  ASSERT_EQ(families.size(), 1u);
  EXPECT_EQ(families[0].name, "beamline_build_info");
  ASSERT_EQ(families[0].metric.size(), 1u);
  EXPECT_EQ(families[0].metric[0].gauge.value, 1);
  std::map<std::string, std::string> labels;
  for (const auto& label : families[0].metric[0].label) labels[label.name] = label.value;
  EXPECT_EQ(labels,
            (std::map<std::string, std::string>{{"version", std::string(ThisBuild().version)},
                                                {"revision", std::string(ThisBuild().revision)},
                                                {"build_type", std::string(ThisBuild().build_type)},
                                                {"compiler", std::string(ThisBuild().compiler)},
                                                {"cuda", ThisBuild().cuda ? "true" : "false"}}));
}

TEST(ProcessMetrics, AreThisProcess) {
  std::vector<MetricFamily> families;
  CollectProcessMetrics(families);
  const auto gauge = [&families](const char* name) {
    return Find(families, name).metric.at(0).gauge.value;
  };
  EXPECT_GT(gauge("process_resident_memory_bytes"), 1e6);
  EXPECT_GE(gauge("process_threads"), 1);
  EXPECT_GE(gauge("process_open_fds"), 3);
  EXPECT_GE(gauge("process_max_fds"), gauge("process_open_fds"));
  const double now = static_cast<double>(std::time(nullptr));
  EXPECT_NEAR(gauge("process_start_time_seconds"), now, 600);
}

// Counters stay when a model is loaded again; what it held goes with it.
TEST(Metrics, FollowModelsThatComeAndGo) {
  FakeEngine engine;
  Metrics metrics({});
  metrics.SetEngine(&engine);
  metrics.AddModel("late");
  metrics.AddModel("late");
  const CallRecord call = {.rpc = Rpc::kEncode, .model = "late"};
  metrics.RecordCall(call);
  const auto has = [&metrics](const char* name, const std::string& model) {
    const auto families = metrics.Collect();
    const auto& samples = Find(families, name).metric;
    return std::ranges::count_if(
        samples, [&](const ClientMetric& metric) { return Label(metric, "model") == model; });
  };
  EXPECT_EQ(has("beamline_requests_total", "late"), 1);
  EXPECT_EQ(has("beamline_requests_total", "none"), 0);
  EXPECT_EQ(has("beamline_model_info", "late"), 0);
  ModelOptions options;
  options.name = "late";
  ASSERT_TRUE(engine.Load(options).ok());
  EXPECT_EQ(has("beamline_model_info", "late"), 1);
  EXPECT_EQ(has("beamline_replica_up", "late"), 1);
  ASSERT_TRUE(engine.Unload("late", 1, std::chrono::milliseconds(0)).ok());
  EXPECT_EQ(has("beamline_model_info", "late"), 0);
  EXPECT_EQ(has("beamline_replica_up", "late"), 0);
  EXPECT_EQ(has("beamline_generated_tokens_total", "late"), 0);
  metrics.RecordCall(call);
  const auto families = metrics.Collect();
  EXPECT_EQ(Find(families, "beamline_requests_total").metric[0].counter.value, 2);
}

// What a model's histograms add to a scrape at most, whatever requests it gets of one RPC.
TEST(Metrics, HistogramsOfAModelAreBounded) {
  Metrics metrics(TwoModels());
  for (const auto phase : {StepReport::Phase::kPrefill, StepReport::Phase::kDecode,
                           StepReport::Phase::kMixed, StepReport::Phase::kEncode}) {
    metrics.OnStep("a", {.phase = phase, .num_tokens = 1, .num_sequences = 1});
  }
  for (int tokens = 1; tokens < 3000; ++tokens) {
    CallRecord record = {.rpc = Rpc::kGenerate, .model = "a"};
    record.duration = std::chrono::milliseconds(tokens);
    record.timing = {.expected_queue = std::chrono::milliseconds(tokens),
                     .first_token = std::chrono::milliseconds(tokens),
                     .total = std::chrono::seconds(tokens)};
    record.usage = {.prompt_tokens = tokens, .generated_tokens = tokens};
    metrics.RecordCall(record);
  }
  size_t histograms = 0, samples = 0;
  for (const MetricFamily& family : metrics.Collect()) {
    if (family.type != prometheus::MetricType::Histogram) continue;
    for (const ClientMetric& metric : family.metric) {
      ++histograms;
      samples += metric.histogram.bucket.size() + 2;
    }
  }
  EXPECT_EQ(histograms, 14u);  // one RPC, five times, four phases, four sizes
  EXPECT_LE(samples, 560u);
}

TEST(Metrics, HaveRoomForSoManyNames) {
  Metrics metrics({});
  for (size_t i = 0; i <= Metrics::kMostModels; ++i) metrics.AddModel(fmt::format("m{}", i));
  for (const char* name : {"m0", "m1023", "m1024"}) metrics.RecordCall({.model = name});
  const auto families = metrics.Collect();
  std::vector<std::string> names;
  for (const auto& metric : Find(families, "beamline_requests_total").metric) {
    names.push_back(Label(metric, "model"));
  }
  EXPECT_THAT(names, testing::ElementsAre("m0", "m1023", "none"));
}

}  // namespace
}  // namespace beamline::metrics_test
