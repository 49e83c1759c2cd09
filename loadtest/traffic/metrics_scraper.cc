#include "loadtest/traffic/metrics_scraper.h"

#include <curl/curl.h>

#include <charconv>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "loadtest/traffic/address.h"

namespace beamline::loadtest {
namespace {

using std::chrono::seconds;

constexpr size_t kMaxBodyBytes = size_t{16} << 20;
constexpr long kTimeoutMs = 2'000;   // a scrape that takes longer says nothing of its second
constexpr double kLeastGap_s = 0.5;  // between scrapes; rates over less would be noise

size_t Append(char* data, size_t size, size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kMaxBodyBytes) return 0;  // libcurl ends the transfer
  text.append(data, size * count);
  return size * count;
}

// The value of a line `name{labels} value` or `name value`, whose labels may hold anything.
std::optional<double> ValueOf(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return std::nullopt;
  line.remove_prefix(name.size());
  if (line.starts_with('{')) {
    const size_t end = line.rfind('}');
    if (end == std::string_view::npos) return std::nullopt;
    line.remove_prefix(end + 1);
  }
  if (!line.starts_with(' ')) return std::nullopt;  // a longer name
  line.remove_prefix(1);
  double value = 0;
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), value);
  if (parsed.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string_view HostOf(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  return url.substr(0, url.find_first_of("/?#"));
}

}  // namespace

absl::StatusOr<ServerCounters> ParseServerCounters(std::string_view text) {
  ServerCounters counters;
  const std::pair<std::string_view, double*> fields[] = {
      {"beamline_waiting_requests", &counters.waiting},
      {"beamline_running_sequences", &counters.running},
      {"beamline_batch_sequences_count", &counters.steps},
      {"beamline_batch_sequences_sum", &counters.step_sequences},
      {"beamline_generated_tokens_total", &counters.tokens}};
  bool is_beamline = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    is_beamline = is_beamline || line.starts_with("beamline_");
    for (const auto& [name, sum] : fields) *sum += ValueOf(line, name).value_or(0);
  }
  if (!is_beamline) return absl::InvalidArgumentError("there is no metric of a Beamline server");
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
  const bool is_http = url.starts_with("http://") || url.starts_with("https://");
  // '@' would make what looks like the host a user's name.
  if (!is_http || !IsPlainText(url) || HostOf(url).empty() ||
      url.find_first_of("@ \\") != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{} is '{}'; accepted: http://HOST:PORT/PATH", what, Shorten(url)));
  }
  const std::string host(HostOf(url));
  const bool has_port = host.find_last_of(':') != std::string::npos && !host.ends_with(']');
  if (!allow_remote && !IsLoopback(has_port ? host : host + ":80")) {
    return absl::PermissionDeniedError(fmt::format(
        "{} {} is not on this machine; --allow-remote reads it all the same", what, Shorten(url)));
  }
  return absl::OkStatus();
}

// Kept open from scrape to scrape. One thread at a time.
class MetricsScraper::Connection {
 public:
  explicit Connection(const std::string& url) {
    static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialized != CURLE_OK || (curl_ = curl_easy_init()) == nullptr) return;
    curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl_, CURLOPT_PROXY, "");     // the server itself, not the environment's
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);  // threads
    curl_easy_setopt(curl_, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS, kTimeoutMs);
    curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, error_);
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, &Append);
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &body_);
  }
  ~Connection() { curl_easy_cleanup(curl_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::StatusOr<ServerCounters> Read() {
    if (curl_ == nullptr) return absl::InternalError("libcurl cannot be used");
    body_.clear();
    error_[0] = '\0';
    const CURLcode code = curl_easy_perform(curl_);
    if (code == CURLE_OK) return ParseServerCounters(body_);
    return absl::UnavailableError(error_[0] != '\0' ? error_ : curl_easy_strerror(code));
  }

 private:
  CURL* curl_ = nullptr;
  std::string body_;
  char error_[CURL_ERROR_SIZE] = {};
};

MetricsScraper::MetricsScraper(const std::string& url)
    : connection_(std::make_unique<Connection>(url)) {
  series_.url = url;
}

absl::StatusOr<std::unique_ptr<MetricsScraper>> MetricsScraper::Open(const std::string& url) {
  std::unique_ptr<MetricsScraper> scraper(new MetricsScraper(url));
  const auto counters = scraper->connection_->Read();
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
    // A slow scrape leaves its seconds out instead of being followed by a burst.
    while (next <= RunClock::Steady::now()) next += seconds(1);
    wake_.wait_until(lock, next, [this] { return stopping_; });
  }
  const double now_s = std::chrono::duration<double>(clock_.Now()).count();
  if (now_s - before_s_ >= kLeastGap_s) Scrape();
}

void MetricsScraper::Scrape() {
  const auto counters = connection_->Read();
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
