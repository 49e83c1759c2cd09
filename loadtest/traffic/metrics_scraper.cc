#include "loadtest/traffic/metrics_scraper.h"

#include <utility>

#include "base/text.h"
#include "client/metrics/exposition.h"
#include "fmt/format.h"
#include "loadtest/traffic/address.h"

namespace beamline::loadtest {
namespace {

using std::chrono::seconds;

constexpr seconds kScrapeTimeout{2};  // longer scrapes do not describe their second
constexpr double kLeastGap_s = 0.5;   // between scrapes; rates over less time would be noise

}  // namespace

absl::StatusOr<ServerCounters> ParseServerCounters(std::string_view text) {
  ServerCounters counters;
  const std::pair<std::string_view, double*> fields[] = {
      {"beamline_waiting_requests", &counters.waiting},
      {"beamline_running_sequences", &counters.running},
      {"beamline_batch_sequences_count", &counters.steps},
      {"beamline_batch_sequences_sum", &counters.step_sequences},
      {"beamline_generated_tokens_total", &counters.tokens}};
  const auto samples = ParseExposition(text);
  if (!samples.ok()) return samples.status();
  for (const MetricSample& sample : *samples) {
    for (const auto& [name, sum] : fields) {
      if (sample.name == name) *sum += sample.value;
    }
  }
  return counters;
}

ServerSample SampleBetween(const std::optional<ServerCounters>& before, const ServerCounters& now,
                           double time_s, double seconds) {
  ServerSample sample{.time_s = time_s, .waiting = now.waiting, .running = now.running};
  if (!before || seconds <= 0) return sample;
  const double steps = now.steps - before->steps;
  const double sequences = now.step_sequences - before->step_sequences;
  if (steps > 0 && sequences >= 0) sample.step_sequences = sequences / steps;
  const double tokens = now.tokens - before->tokens;
  if (tokens >= 0) sample.tokens_per_s = tokens / seconds;
  return sample;
}

absl::Status CheckMetricsUrl(std::string_view what, const std::string& url, bool allow_remote) {
  if (absl::Status status = CheckHttpUrl(what, url); !status.ok()) return status;
  const std::string host(HostOfUrl(url));
  const bool has_port = host.find_last_of(':') != std::string::npos && !host.ends_with(']');
  if (!allow_remote && !IsLoopback(has_port ? host : host + ":80")) {
    return absl::PermissionDeniedError(fmt::format(
        "{} {} is not on this machine; --allow-remote reads it all the same", what, Shorten(url)));
  }
  return absl::OkStatus();
}

MetricsScraper::MetricsScraper(const std::string& url) : reader_(url, kScrapeTimeout) {
  series_.url = url;
}

absl::StatusOr<ServerCounters> MetricsScraper::Read() {
  const auto text = reader_.Read();
  if (!text.ok()) return text.status();
  return ParseServerCounters(*text);
}

absl::StatusOr<std::unique_ptr<MetricsScraper>> MetricsScraper::Open(const std::string& url) {
  std::unique_ptr<MetricsScraper> scraper(new MetricsScraper(url));
  const auto counters = scraper->Read();
  if (counters.ok()) return scraper;
  return absl::Status(
      counters.status().code(),
      fmt::format("--metrics {}: {}", Shorten(url), std::string(counters.status().message())));
}

MetricsScraper::~MetricsScraper() {
  if (thread_.joinable()) Stop();
}

void MetricsScraper::Start() {
  clock_ = RunClock();
  thread_ = std::thread([this] { Loop(); });
}

ServerSeries MetricsScraper::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  return std::move(series_);
}

void MetricsScraper::Loop() {
  std::unique_lock lock(mutex_);
  auto next = RunClock::Steady::now();
  while (!stopping_) {
    lock.unlock();
    Scrape();
    lock.lock();
    // After a slow scrape, skip the missed seconds instead of catching up.
    while (next <= RunClock::Steady::now()) next += seconds(1);
    wake_.wait_until(lock, next, [this] { return stopping_; });
  }
  const double now_s = std::chrono::duration<double>(clock_.Now()).count();
  if (now_s - before_s_ >= kLeastGap_s) Scrape();
}

void MetricsScraper::Scrape() {
  const auto counters = Read();
  const double now_s = std::chrono::duration<double>(clock_.Now()).count();
  if (!counters.ok()) {
    ++series_.num_failed;
    series_.last_failure = std::string(counters.status().message());
    return;
  }
  series_.samples.push_back(SampleBetween(before_, *counters, now_s, now_s - before_s_));
  before_ = *counters;
  before_s_ = now_s;
}

}  // namespace beamline::loadtest
