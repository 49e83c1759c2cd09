// The load tester's own accuracy: percentiles against those of a server whose delays are known.
//
// The server draws its delays from a list of seeded random numbers and notes what each request
// really took of it, since a thread may wake up late. What the tester reports may be more by what
// gRPC and the two processes' threads take, and that only by 1% and the median of a run without
// delays. A busy machine can hold any thread up, so the test may be repeated; a tester that is
// wrong by more is so every time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "loadtest/run.h"
#include "loadtest/workload/random.h"
#include "nlohmann/json.hpp"
#include "tests/loadtest/scripted_server.h"
#include "tests/sanitized.h"
#include "tests/scratch_path.h"

namespace beamline::loadtest::accuracy_test {
namespace {

constexpr int kTokens = 3;
constexpr int kAttempts = 5;
constexpr double kTolerance = 0.01;
constexpr double kHistogram = 0.001;  // the width of its buckets

struct Percentile {
  const char* key;  // in the results
  double quantile;
};
constexpr Percentile kPercentiles[] = {{"p50_ms", 0.5}, {"p90_ms", 0.9}, {"p99_ms", 0.99}};

struct Measured {
  nlohmann::json total;      // as the tester reports it
  std::vector<Waits> waits;  // as the server took them
};

Measured Measure(const Script& script, int num_requests) {
  ScriptedServer server(script);
  RunFlags flags;
  flags.target = server.target();
  flags.arrivals = "constant";
  flags.rate = 150;
  flags.duration_s = 60;
  flags.num_requests = static_cast<uint64_t>(num_requests);
  flags.requests.tokens = "8";
  flags.requests.max_new_tokens = std::to_string(kTokens);
  flags.json_file = ScratchPath("accuracy.json");
  const auto succeeded = RunLoadTest(flags, "test");
  EXPECT_TRUE(succeeded.ok() && *succeeded) << succeeded.status();
  std::ifstream file(flags.json_file);
  Measured measured{.total = nlohmann::json::parse(file)["total"], .waits = server.waits()};
  EXPECT_EQ(measured.waits.size(), static_cast<size_t>(num_requests));
  return measured;
}

// As Histogram defines it: the value that a share of the values does not exceed.
double WaitsAt(const std::vector<Waits>& waits, std::chrono::nanoseconds Waits::*part,
               double quantile) {
  std::vector<double> ms;
  for (const Waits& one : waits) {
    ms.push_back(std::chrono::duration<double, std::milli>(one.*part).count());
  }
  std::sort(ms.begin(), ms.end());
  const auto rank = static_cast<size_t>(std::ceil(quantile * static_cast<double>(ms.size())));
  return ms[std::max<size_t>(rank, 1) - 1];
}

// 100 to 400 ms, each of its own.
std::vector<Delays> DrawDelays(uint64_t seed, int count) {
  Random random(seed);
  std::vector<Delays> delays;
  const auto draw = [&random] {
    return std::chrono::microseconds(random.UniformInt(100'000, 400'000));
  };
  for (int i = 0; i < count; ++i) delays.push_back({.first = draw(), .between = draw()});
  return delays;
}

struct Part {
  const char* key;
  std::chrono::nanoseconds Waits::*waits;
  // The tester's time begins before the server's and ends after it, so that no percentile can be
  // smaller.
  bool contains;
};
constexpr Part kParts[] = {{"time_to_first_token", &Waits::first, true},
                           {"time_per_output_token", &Waits::between, false},
                           {"end_to_end", &Waits::whole, true}};

// What is not as it should be; empty: nothing.
std::string Deviations(const Measured& base, const Measured& delayed) {
  std::string text;
  for (const Part& part : kParts) {
    const double cost =
        base.total[part.key]["p50_ms"].get<double>() - WaitsAt(base.waits, part.waits, 0.5);
    for (const Percentile& percentile : kPercentiles) {
      const double reported = delayed.total[part.key][percentile.key];
      const double injected = WaitsAt(delayed.waits, part.waits, percentile.quantile);
      const double most = injected * (1 + kTolerance) + std::max(0.0, cost);
      const double least = injected * (1 - (part.contains ? kHistogram : kTolerance));
      if (reported >= least && reported <= most) continue;
      text += fmt::format("{} {}: {:.3f} ms reported, {:.3f} ms injected, {:.3f} ms of base cost\n",
                          part.key, percentile.key, reported, injected, cost);
    }
  }
  return text;
}

TEST(AccuracyTest, PercentilesAreThoseOfTheInjectedDelays) {
  const int num_requests = kSanitized ? 300 : 1000;
  std::string deviations;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const Measured base = Measure({}, num_requests / 5);
    const Measured delayed =
        Measure({.delays = DrawDelays(static_cast<uint64_t>(attempt), num_requests)}, num_requests);
    // The delays are what they should be, however late a thread woke up.
    EXPECT_GE(WaitsAt(delayed.waits, &Waits::first, 0.001), 100);
    EXPECT_GE(WaitsAt(delayed.waits, &Waits::first, 0.99), 390);
    EXPECT_GE(WaitsAt(delayed.waits, &Waits::whole, 0.5), 700);
    deviations = Deviations(base, delayed);
    if (deviations.empty()) return;
  }
  ADD_FAILURE() << deviations;
}

// The comparison itself sees an error of 2%.
TEST(AccuracyTest, AnErrorIsADeviation) {
  Measured exact;
  exact.waits = std::vector<Waits>(100, {.first = std::chrono::milliseconds(200),
                                         .between = std::chrono::milliseconds(100),
                                         .whole = std::chrono::milliseconds(400)});
  for (const Percentile& percentile : kPercentiles) {
    exact.total["time_to_first_token"][percentile.key] = 200.1;
    exact.total["time_per_output_token"][percentile.key] = 100.1;
    exact.total["end_to_end"][percentile.key] = 400.1;
  }
  EXPECT_EQ(Deviations(exact, exact), "");
  for (const Part& part : kParts) {
    for (const double factor : {0.98, 1.02}) {
      Measured wrong = exact;
      nlohmann::json& value = wrong.total[part.key]["p99_ms"];
      value = value.get<double>() * factor;
      EXPECT_THAT(Deviations(exact, wrong), testing::HasSubstr(part.key)) << factor;
    }
  }
}

}  // namespace
}  // namespace beamline::loadtest::accuracy_test
