// Reads the server's metrics once a second while a run is under way.
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

// What a run follows of a scrape; sums over the server's models.
struct ServerCounters {
  double waiting = 0;
  double running = 0;
  double steps = 0;
  double step_sequences = 0;  // summed over the steps
  double tokens = 0;
};

// Of Prometheus' text; InvalidArgument when it has no metric of a Beamline server.
absl::StatusOr<ServerCounters> ParseServerCounters(std::string_view text);

// The sample of a scrape at `time_s`, `seconds` after `before`. A server that began anew in
// between, whose counters fell, has no rates.
ServerSample SampleBetween(const std::optional<ServerCounters>& before, const ServerCounters& now,
                           double time_s, double seconds);

// InvalidArgument "WHAT is 'URL'; accepted: ..." for what is no http URL of a host; of another
// machine's host PermissionDenied unless `allow_remote`.
absl::Status CheckMetricsUrl(std::string_view what, const std::string& url, bool allow_remote);

class MetricsScraper {
 public:
  // Scrapes once, so that an address that cannot work is an error before the run.
  static absl::StatusOr<std::unique_ptr<MetricsScraper>> Open(const std::string& url);
  ~MetricsScraper();

  // The run's time 0 is now.
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
