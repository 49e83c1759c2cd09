// Reads the server's metrics once per second during a run.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/metrics/metrics_reader.h"
#include "loadtest/report/server_series.h"
#include "loadtest/traffic/call.h"

namespace beamline::loadtest {

// The metrics that a run records, summed over the server's models.
struct ServerCounters {
  double waiting = 0;
  double running = 0;
  double steps = 0;
  double step_sequences = 0;  // sum over the steps
  double tokens = 0;
};

// Parses Prometheus' text format. INVALID_ARGUMENT if there is no metric of a Beamline server.
absl::StatusOr<ServerCounters> ParseServerCounters(std::string_view text);

// The sample of a scrape at `time_s`, `seconds` after `before`. If the server restarted in between,
// so that counters fell, there are no rates.
ServerSample SampleBetween(const std::optional<ServerCounters>& before, const ServerCounters& now,
                           double time_s, double seconds);

// INVALID_ARGUMENT "WHAT is 'URL'; accepted: ..." unless it is an http(s) URL with a host.
// PERMISSION_DENIED for another machine's host unless `allow_remote`.
absl::Status CheckMetricsUrl(std::string_view what, const std::string& url, bool allow_remote);

class MetricsScraper {
 public:
  // Scrapes once, so that a wrong address is an error before the run.
  static absl::StatusOr<std::unique_ptr<MetricsScraper>> Open(const std::string& url);
  ~MetricsScraper();

  // Starts scraping; now is time 0 of the run.
  void Start();
  // The samples since Start. REQUIRES: called once.
  ServerSeries Stop();

 private:
  explicit MetricsScraper(const std::string& url);
  absl::StatusOr<ServerCounters> Read();
  void Loop();
  void Scrape();

  MetricsReader reader_;
  ServerSeries series_;
  std::optional<ServerCounters> before_;
  double before_s_ = 0;
  RunClock clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace beamline::loadtest
