// 500 requests at a time of every kind, some of them cancelled or given deadlines too short to
// keep, in rounds: every answer that comes is the one that the request gets alone, nothing stays in
// use, and the server does not grow.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "loadtest/run.h"
#include "tests/e2e/server_process.h"
#include "tests/scratch_path.h"

namespace beamline::soak_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// BEAMLINE_SOAK_ROUNDS and BEAMLINE_SOAK_REQUESTS (a round) make the soak longer.
int FromEnvironment(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

constexpr int kConcurrency = 500;
// The first rounds bring caches, thread pools and malloc's arenas to their size.
constexpr int kWarmupRounds = 3;
// gRPC's pool adds threads when its work piles up and drops those that idle, by a handful.
constexpr int kThreadSlack = 4;
// Over the later half of the rounds, of what is left when the server has given memory back, which
// takes two looks of server/process/memory_trim.h. A round may take a new malloc arena or tear one
// apart, some 20 MiB for good. With three rounds of 600 requests, 19 KiB lost in each request would
// show.
constexpr int64_t kMemorySlackKib = 32 << 10;
constexpr std::chrono::seconds kTrimTime{12};
constexpr std::chrono::seconds kLongestTrimTime{40};  // with those that come after one in a round
// Small enough that the warm-up touches every block.
constexpr char kCache[] = ",cache_bytes=37748736";

struct Footprint {
  int64_t memory_kib = 0;
  int threads = 0;
};

Footprint FootprintOf(pid_t pid) {
  const fs::path folder = fs::path("/proc") / std::to_string(pid);
  Footprint footprint;
  std::ifstream status(folder / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) std::istringstream(line.substr(6)) >> footprint.memory_kib;
  }
  footprint.threads = static_cast<int>(
      std::distance(fs::directory_iterator(folder / "task"), fs::directory_iterator()));
  return footprint;
}

// Sum of a gauge over its models; what `label` names, if given.
double SumOf(const std::string& metrics, const std::string& name, const std::string& label = "") {
  double sum = 0;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + "{") || line.find(label) == std::string::npos) continue;
    sum += std::atof(line.substr(line.rfind(' ') + 1).c_str());
  }
  return sum;
}

// Waits until nothing runs, waits or holds a block.
testing::AssertionResult IsIdle(const ServerProcess& server) {
  std::string metrics;
  for (int i = 0; i < 300; ++i) {
    metrics = server.Scrape();
    if (metrics.find("beamline_kv_blocks{") != std::string::npos &&
        SumOf(metrics, "beamline_kv_blocks", "state=\"used\"") == 0 &&
        SumOf(metrics, "beamline_running_sequences") == 0 &&
        SumOf(metrics, "beamline_waiting_requests") == 0) {
      return testing::AssertionSuccess();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return testing::AssertionFailure() << "the server is not idle:\n" << metrics.substr(0, 4000);
}

struct Round {
  bool succeeded = false;
  json result;
};

Round RunRound(const ServerProcess& server, uint64_t seed) {
  loadtest::RunFlags flags;
  flags.target = server.address();
  flags.workload_file = std::string(BEAMLINE_SOURCE_DIR) + "/bench/workloads/soak.yaml";
  flags.concurrency = kConcurrency;
  flags.num_requests = static_cast<uint64_t>(FromEnvironment("BEAMLINE_SOAK_REQUESTS", 600));
  flags.num_distinct = 6;
  flags.duration_s = 600;
  flags.timeout_s = 600;
  flags.drain_s = 600;
  flags.seed = seed;
  flags.num_connections = 4;
  flags.num_threads = 2;
  flags.verify = true;
  flags.json_file = ScratchPath("soak.json");
  const auto succeeded = loadtest::RunLoadTest(flags, "soak_test");
  EXPECT_TRUE(succeeded.ok()) << succeeded.status();
  Round round{.succeeded = succeeded.ok() && *succeeded};
  if (std::ifstream file(flags.json_file); file) round.result = json::parse(file);
  fs::remove(flags.json_file);
  return round;
}

std::vector<std::string> Models() {
  std::vector<std::string> arguments;
  const std::string folder = std::string(BEAMLINE_SOURCE_DIR) + "/models/";
  for (const char* name : {"write-en", "translate-en-de", "embed-en"}) {
    arguments.emplace_back("--model");
    arguments.push_back(std::string(name) + "=" + folder + name + kCache);
  }
  return arguments;
}

// The least while an idle server gives memory back, for so long or until it is `enough`.
Footprint SettledFootprintOf(pid_t pid, std::chrono::seconds time, int64_t enough_kib = 0) {
  Footprint least = FootprintOf(pid);
  const auto end = std::chrono::steady_clock::now() + time;
  while (least.memory_kib > enough_kib && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const Footprint now = FootprintOf(pid);
    if (now.memory_kib < least.memory_kib) least = now;
  }
  return least;
}

TEST(Soak, FiveHundredImpatientRequestsOfEveryKind) {
  const int num_rounds = std::max(2, FromEnvironment("BEAMLINE_SOAK_ROUNDS", 6));
  ServerProcess server(Models());
  Footprint middle;
  for (int i = 0; i < kWarmupRounds + num_rounds; ++i) {
    SCOPED_TRACE("round " + std::to_string(i));
    const auto [succeeded, result] = RunRound(server, static_cast<uint64_t>(i) + 1);
    ASSERT_TRUE(succeeded) << result["verification"] << result["error_examples"];
    const json& endings = result["total"]["endings"];
    EXPECT_GT(endings.value("ok", 0), 0);
    EXPECT_GT(endings.value("cancelled", 0), 0);
    EXPECT_GT(endings.value("deadline", 0), 0);
    EXPECT_EQ(result["verification"]["mismatches"], 0);
    EXPECT_GE(result["verification"]["checked"], endings["ok"]);
    ASSERT_TRUE(IsIdle(server));
    const Footprint footprint = FootprintOf(server.process().pid());
    fmt::print("round {}: {} KiB, {} threads\n", i, footprint.memory_kib, footprint.threads);
    if (i == kWarmupRounds + num_rounds / 2 - 1) {
      middle = SettledFootprintOf(server.process().pid(), kTrimTime);
    }
  }
  const int64_t most_kib = middle.memory_kib + kMemorySlackKib;
  const Footprint end = SettledFootprintOf(server.process().pid(), kLongestTrimTime, most_kib);
  fmt::print("settled: {} KiB, at the end {} KiB\n", middle.memory_kib, end.memory_kib);
  EXPECT_LE(end.threads, middle.threads + kThreadSlack);
  EXPECT_LE(end.memory_kib, most_kib);
}

}  // namespace
}  // namespace beamline::soak_test
