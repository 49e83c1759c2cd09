// What each metric of /metrics says after requests whose tokens and times are known, and of the
// process itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"

namespace beamline::metrics_test {
namespace {

using Samples = std::map<std::string, double>;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};

std::string Model(const std::string& name, const std::string& settings = "") {
  return name + "=" + BEAMLINE_SOURCE_DIR + "/models/" + name + settings;
}

// The samples of a scrape by their series, as they are written.
Samples Scrape(const ServerProcess& server) {
  Samples samples;
  std::istringstream lines(server.Scrape());
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.rfind(' ');
    if (line.starts_with("#") || space == std::string::npos) continue;
    samples[line.substr(0, space)] = std::atof(line.c_str() + space + 1);
  }
  return samples;
}

bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + duration.nanos() * 1e-9;
}

class MetricsTest : public testing::Test {
 protected:
  void Start(const std::vector<std::string>& models) {
    std::vector<std::string> arguments = {"--device", "cpu"};
    for (const std::string& model : models) arguments.insert(arguments.end(), {"--model", model});
    server_ = std::make_unique<ServerProcess>(arguments);
    client_ = std::make_unique<Client>(ClientOptions{.address = server_->address()});
    before_ = Scrape(*server_);
  }
  // How much a series has grown since the last call of Moved, or since the start.
  double Growth(const std::string& series) const {
    const Samples now = Scrape(*server_);
    const auto value = [&series](const Samples& samples) {
      const auto found = samples.find(series);
      return found == samples.end() ? 0 : found->second;
    };
    return value(now) - value(before_);
  }
  // Each series comes to have grown by its amount: a call is counted after its answer was sent.
  void ExpectMoved(const Samples& expected) {
    for (const auto& [series, amount] : expected) {
      EXPECT_TRUE(Eventually([&] { return std::abs(Growth(series) - amount) < 1e-6; }))
          << series << " has grown by " << Growth(series) << " instead of " << amount;
    }
    before_ = Scrape(*server_);
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  Samples before_;
};

v1::GenerateRequest Write(const std::string& prompt, int tokens) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text(prompt);
  request.mutable_greedy();
  request.mutable_limits()->set_max_new_tokens(tokens);
  request.mutable_limits()->set_ignore_eos(true);
  return request;
}

TEST_F(MetricsTest, OfOneAnswerAreItsTokensStepsAndTimes) {
  Start({Model("write-en")});
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = client_->Generate(Write("Package: vim\nSynopsis:", 10), kSoon);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(answer.ok()) << answer.status();
  const v1::Timing& timing = answer->timing();
  const double prompt = answer->usage().prompt_tokens();
  const double first = Seconds(timing.first_token()), queue = Seconds(timing.queue());
  EXPECT_TRUE(Eventually([&] {
    return Growth("beamline_request_duration_seconds_count{rpc=\"Generate\",model=\"write-en\"}") ==
           1;
  }));
  const double duration =
      Growth("beamline_request_duration_seconds_sum{rpc=\"Generate\",model=\"write-en\"}");
  EXPECT_GE(duration, Seconds(timing.total()));
  EXPECT_LE(duration, wall.count() + 1);  // what follows the last byte
  const auto of = [](const std::string& name) {
    return "beamline_" + name + "{model=\"write-en\"}";
  };
  const auto steps = [](const char* phase) {
    return std::string("beamline_step_seconds_count{model=\"write-en\",phase=\"") + phase + "\"}";
  };
  ExpectMoved({
      {"beamline_requests_total{rpc=\"Generate\",model=\"write-en\",code=\"OK\"}", 1},
      {of("time_to_first_token_seconds_count"), 1},
      {of("time_to_first_token_seconds_sum"), first},
      {of("queue_seconds_count"), 1},
      {of("queue_seconds_sum"), queue},
      {of("prefill_seconds_count"), 1},
      {of("prefill_seconds_sum"), first - queue},
      {of("inter_token_seconds_count"), 1},
      {of("inter_token_seconds_sum"), (Seconds(timing.total()) - first) / 9},
      {of("request_prompt_tokens_count"), 1},
      {of("request_prompt_tokens_sum"), prompt},
      {of("request_generated_tokens_count"), 1},
      {of("request_generated_tokens_sum"), 10},
      {steps("prefill"), 1},
      {steps("decode"), 9},
      {steps("mixed"), 0},
      {steps("encode"), 0},
      {of("batch_tokens_count"), 10},
      {of("batch_tokens_sum"), prompt + 9},
      {of("batch_sequences_sum"), 10},
      {of("generated_tokens_total"), 10},
      {of("encoded_tokens_total"), 0},
      {of("cancelled_total"), 0},
      {of("preemptions_total"), 0},
      {"beamline_prompt_tokens_total{model=\"write-en\",source=\"computed\"}", prompt},
      {"beamline_prompt_tokens_total{model=\"write-en\",source=\"cached\"}", 0},
      {"beamline_speculative_tokens_total{model=\"write-en\",outcome=\"proposed\"}", 0},
  });
}

TEST_F(MetricsTest, OfACachedPromptAreWhatWasFound) {
  Start({Model("write-en")});
  std::string prompt;
  for (int i = 0; i < 40; ++i) prompt += "Package: number " + std::to_string(i) + "\n";
  const auto first = client_->Generate(Write(prompt, 1), kSoon);
  const auto second = client_->Generate(Write(prompt, 1), kSoon);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  const double cached = second->usage().cached_tokens();
  EXPECT_GT(cached, 100);
  ExpectMoved({
      {"beamline_prompt_tokens_total{model=\"write-en\",source=\"computed\"}",
       2 * second->usage().prompt_tokens() - cached},
      {"beamline_prompt_tokens_total{model=\"write-en\",source=\"cached\"}", cached},
      {"beamline_prefix_cache_hit_tokens_total{model=\"write-en\"}", cached},
  });
}

TEST_F(MetricsTest, OfEmbeddingsAreTheirInputs) {
  Start({Model("embed-en")});
  v1::EncodeRequest request;
  for (const char* text : {"a text editor", "a small, fast web browser for the desktop"}) {
    request.add_inputs()->set_text(text);
  }
  const auto answer = client_->Encode(request, kSoon);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const double tokens = answer->embeddings(0).num_tokens() + answer->embeddings(1).num_tokens();
  EXPECT_GE(tokens, 10);
  ExpectMoved({
      {"beamline_requests_total{rpc=\"Encode\",model=\"embed-en\",code=\"OK\"}", 1},
      {"beamline_encoded_tokens_total{model=\"embed-en\"}", tokens},
      {"beamline_generated_tokens_total{model=\"embed-en\"}", 0},
      {"beamline_step_seconds_count{model=\"embed-en\",phase=\"encode\"}", 1},
      {"beamline_batch_tokens_sum{model=\"embed-en\"}", tokens},
      {"beamline_batch_sequences_sum{model=\"embed-en\"}", 2},
      {"beamline_queue_seconds_count{model=\"embed-en\"}", 1},
      {"beamline_time_to_first_token_seconds_count{model=\"embed-en\"}", 0},
      {"beamline_request_prompt_tokens_sum{model=\"embed-en\"}", tokens},
      {"beamline_request_generated_tokens_count{model=\"embed-en\"}", 0},
  });
}

// A step computes one token and those of its guesses that were right.
TEST_F(MetricsTest, OfGuessesAreTheStepsThatTheySaved) {
  Start({Model("write-en", ",speculative_tokens=8")});
  const auto answer = client_->Generate(Write("a b c a b c a b c a b c a b c", 80), kSoon);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(Eventually(
      [&] { return Growth("beamline_generated_tokens_total{model=\"write-en\"}") == 80; }));
  const auto outcome = [](const char* name) {
    return std::string("beamline_speculative_tokens_total{model=\"write-en\",outcome=\"") + name +
           "\"}";
  };
  const double accepted = Growth(outcome("accepted"));
  EXPECT_GT(accepted, 0);
  EXPECT_GE(Growth(outcome("proposed")), accepted);
  ExpectMoved({{"beamline_batch_tokens_count{model=\"write-en\"}", 80 - accepted}});
}

TEST_F(MetricsTest, OfTheBatchAreWhatRunsAndWhatWaits) {
  Start({Model("write-en", ",max_sequences=64")});
  const auto gauge = [&](const std::string& name) { return server_->Metric(name); };
  const std::string running = "beamline_running_sequences{model=\"write-en\"}";
  const std::string waiting = "beamline_waiting_requests{model=\"write-en\"}";
  const std::string used = "beamline_kv_blocks{model=\"write-en\",state=\"used\"}";
  const std::string free = "beamline_kv_blocks{model=\"write-en\",state=\"free\"}";
  EXPECT_EQ(gauge(running), 0);
  EXPECT_EQ(gauge(used), 0);
  const double blocks = gauge(free);
  EXPECT_GE(blocks, 64 * 32);  // 64 sequences of 512 positions
  v1::GenerateRequest many = Write("Package: ", 500);
  many.mutable_sampling()->set_num_sequences(64);
  std::atomic<bool> stop = false;
  auto stream = std::async(std::launch::async, [&] {
    const auto go_on = [&](const v1::GenerateStreamResponse&) { return !stop; };
    return client_->GenerateStream(many, go_on, kSoon).status();
  });
  EXPECT_TRUE(Eventually([&] { return gauge(running) == 64; }));
  auto next =
      std::async(std::launch::async, [&] { return client_->Generate(Write("a", 1), kSoon); });
  EXPECT_TRUE(Eventually([&] { return gauge(waiting) == 1; }));
  // Until their first step all sequences hold the prompt's block together.
  EXPECT_TRUE(Eventually([&] { return gauge(used) >= 64; }));
  const Samples now = Scrape(*server_);
  EXPECT_GE(now.at(used), 64);
  EXPECT_EQ(now.at(used) + now.at(free), blocks);
  stop = true;
  EXPECT_TRUE(absl::IsCancelled(stream.get()));
  EXPECT_TRUE(next.get().ok());
  EXPECT_TRUE(Eventually([&] { return gauge(running) + gauge(waiting) + gauge(used) == 0; }));
  ExpectMoved({
      {"beamline_cancelled_total{model=\"write-en\"}", 1},
      {"beamline_requests_total{rpc=\"GenerateStream\",model=\"write-en\",code=\"CANCELLED\"}", 1},
  });
}

TEST_F(MetricsTest, OfModelsAreTheirNamesAndDevices) {
  Start({Model("write-en"), Model("embed-en")});
  EXPECT_EQ(before_.at("beamline_model_info{model=\"embed-en\",architecture=\"BertModel\",device="
                       "\"cpu\",version=\"1\"}"),
            1);
  for (const std::string model : {"write-en", "embed-en"}) {
    EXPECT_EQ(before_.at("beamline_replica_up{model=\"" + model +
                         "\",replica=\"0\",device=\"cpu\",version=\"1\"}"),
              1);
    EXPECT_GT(before_.at("beamline_device_memory_bytes{device=\"cpu\",model=\"" + model +
                         "\",use=\"weights\"}"),
              8e6);
  }
}

// /proc/PID/stat behind the name of the program: field 3 is [0].
std::vector<std::string> StatFields(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::vector<std::string> fields;
  for (std::string field; rest >> field;) fields.push_back(field);
  return fields;
}

// Threads and memory: of a server that has just started they change for a while.
std::vector<std::string> Sizes(const std::vector<std::string>& stat) {
  return {stat[17], stat[20], stat[21]};
}

TEST_F(MetricsTest, OfTheProcessAreTheSystems) {
  server_ = std::make_unique<ServerProcess>(
      std::vector<std::string>{"--device", "cpu", "--model", Model("embed-en")},
      /*max_open_files=*/300);
  const pid_t pid = server_->process().pid();
  std::vector<std::string> before, after;
  Samples found;
  for (int i = 0; i == 0 || (i < 200 && Sizes(before) != Sizes(after)); ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    before = StatFields(pid);
    found = Scrape(*server_);
    after = StatFields(pid);
    ASSERT_GE(before.size(), 22u);
    ASSERT_GE(after.size(), 22u);
  }
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto cpu_seconds = [ticks](const std::vector<std::string>& stat) {
    return (std::stod(stat[11]) + std::stod(stat[12])) / ticks;
  };
  std::ifstream system("/proc/stat");
  double boot = 0;
  for (std::string word; system >> word;) {
    if (word == "btime") system >> boot;
  }
  // The system counts in ticks.
  EXPECT_GE(found.at("process_cpu_seconds_total"), cpu_seconds(before) - 2 / ticks);
  EXPECT_LE(found.at("process_cpu_seconds_total"), cpu_seconds(after) + 2 / ticks);
  EXPECT_NEAR(found.at("process_start_time_seconds"), boot + std::stod(after[19]) / ticks, 2);
  EXPECT_NEAR(found.at("process_threads"), std::stod(after[17]), 2);
  EXPECT_NEAR(found.at("process_virtual_memory_bytes") / std::stod(after[20]), 1, 0.01);
  EXPECT_NEAR(found.at("process_resident_memory_bytes"), std::stod(after[21]) * getpagesize(), 4e6);
  EXPECT_EQ(found.at("process_max_fds"), 300);
  const std::filesystem::directory_iterator fds("/proc/" + std::to_string(pid) + "/fd");
  EXPECT_NEAR(found.at("process_open_fds"),
              static_cast<double>(std::distance(begin(fds), end(fds))), 3);
  const Samples next = Scrape(*server_);
  EXPECT_EQ(next.at("exposer_scrapes_total") - found.at("exposer_scrapes_total"), 1);
  EXPECT_GT(next.at("exposer_transferred_bytes_total"), 4000);
  EXPECT_EQ(next.at("exposer_request_latencies_count"), next.at("exposer_scrapes_total"));
}

}  // namespace
}  // namespace beamline::metrics_test
