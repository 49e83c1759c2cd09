#include "loadtest/traffic/metrics_scraper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

namespace beamline::loadtest::metrics_scraper_test {
namespace {

using ::testing::HasSubstr;

constexpr char kMetrics[] = R"(# HELP beamline_waiting_requests ...
# TYPE beamline_waiting_requests gauge
beamline_waiting_requests{model="a"} 3
beamline_waiting_requests{model="b } 9"} 4
beamline_waiting_requests_more{model="a"} 100
beamline_running_sequences{model="a"} 2
beamline_batch_sequences_count{model="a"} 10
beamline_batch_sequences_sum{model="a"} 35
beamline_batch_sequences_bucket{model="a",le="1"} 7
beamline_generated_tokens_total{model="a"} 1e3
beamline_generated_tokens_total{model="b"} NaN
beamline_generated_tokens_total 11
)";

TEST(MetricsScraperTest, SumsOverModels) {
  const auto counters = ParseServerCounters(kMetrics);
  ASSERT_TRUE(counters.ok()) << counters.status();
  EXPECT_EQ(counters->waiting, 7);
  EXPECT_EQ(counters->running, 2);
  EXPECT_EQ(counters->steps, 10);
  EXPECT_EQ(counters->step_sequences, 35);
  EXPECT_EQ(counters->tokens, 1011);
  for (const char* other : {"", "go_threads 7\n", "<html>beamline_x</html>"}) {
    EXPECT_EQ(ParseServerCounters(other).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(ParseServerCounters("beamline_waiting_requests{\nbeamline_waiting_requests").ok());
}

TEST(MetricsScraperTest, RatesAreBetweenSamples) {
  const ServerCounters before{.steps = 10, .step_sequences = 35, .tokens = 100};
  const ServerCounters now{
      .waiting = 1, .running = 2, .steps = 14, .step_sequences = 45, .tokens = 400};
  const ServerSample sample = SampleBetween(before, now, 7, 2);
  EXPECT_EQ(sample.time_s, 7);
  EXPECT_EQ(sample.waiting, 1);
  EXPECT_EQ(sample.step_sequences, 2.5);
  EXPECT_EQ(sample.tokens_per_s, 150);
  EXPECT_FALSE(SampleBetween(std::nullopt, now, 7, 2).tokens_per_s.has_value());
  EXPECT_FALSE(SampleBetween(before, before, 7, 2).step_sequences.has_value());
  EXPECT_EQ(SampleBetween(before, before, 7, 2).tokens_per_s, 0);
  // The server has begun anew.
  EXPECT_FALSE(SampleBetween(now, before, 7, 2).tokens_per_s.has_value());
  EXPECT_FALSE(SampleBetween(now, before, 7, 2).step_sequences.has_value());
}

TEST(MetricsScraperTest, AddressesAreChecked) {
  for (const char* url : {"http://127.0.0.1:9/metrics", "http://localhost/metrics",
                          "https://[::1]:9/metrics", "http://[::1]/m"}) {
    EXPECT_TRUE(CheckMetricsUrl("--metrics", url, false).ok()) << url;
  }
  for (const char* url : {"127.0.0.1:9/metrics", "file:///etc/passwd", "http://", "http:///x",
                          "http://127.0.0.1@example.org/", "http://127.0.0.1:9/a b",
                          "http://127.0.0.1\\@example.org/", "http://127.0.0.1:1:2.example.org/",
                          "http://127.0.0.1:port/metrics"}) {
    const absl::Status status = CheckMetricsUrl("--metrics", url, true);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << url;
    EXPECT_THAT(std::string(status.message()), HasSubstr("; accepted: http://HOST:PORT/PATH"));
  }
  for (const char* url : {"http://example.org:9/metrics", "http://10.0.0.1/metrics",
                          "http://127.0.0.1.example.org/"}) {
    EXPECT_EQ(CheckMetricsUrl("--metrics", url, false).code(), absl::StatusCode::kPermissionDenied)
        << url;
    EXPECT_TRUE(CheckMetricsUrl("--metrics", url, true).ok()) << url;
  }
}

// Answers every connection with one text, and closes it.
class TextServer {
 public:
  explicit TextServer(std::string text) : text_(std::move(text)) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    if (bind(fd_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(fd_, 8) != 0 ||
        getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      std::abort();
    }
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/metrics";
    thread_ = std::thread([this] { Serve(); });
  }
  ~TextServer() {
    stop_ = true;
    thread_.join();
    close(fd_);
  }
  const std::string& url() const { return url_; }

 private:
  void Serve() {
    while (!stop_) {
      pollfd waiting{.fd = fd_, .events = POLLIN};
      if (poll(&waiting, 1, 20) <= 0) continue;
      const int client = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
      char request[4096];
      if (recv(client, request, sizeof(request), 0) > 0) {
        send(client, text_.data(), text_.size(), MSG_NOSIGNAL);
      }
      shutdown(client, SHUT_WR);
      close(client);
    }
  }

  const std::string text_;
  std::string url_;
  int fd_ = -1;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(MetricsScraperTest, ScrapesOnceASecond) {
  const TextServer server("HTTP/1.0 200 OK\r\n\r\n" + std::string(kMetrics));
  auto scraper = MetricsScraper::Open(server.url());
  ASSERT_TRUE(scraper.ok()) << scraper.status();
  (*scraper)->Start();
  std::this_thread::sleep_for(std::chrono::milliseconds(2700));
  const ServerSeries series = (*scraper)->Stop();
  EXPECT_EQ(series.url, server.url());
  EXPECT_EQ(series.num_failed, 0) << series.last_failure;
  ASSERT_EQ(series.samples.size(), 4U);  // at 0, 1, 2 and at the end
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(series.samples[i].time_s, static_cast<double>(i), 0.4);
    EXPECT_EQ(series.samples[i].waiting, 7);
  }
}

TEST(MetricsScraperTest, WhatIsNoServerIsSaid) {
  const TextServer other("HTTP/1.0 200 OK\r\n\r\nhello\n");
  EXPECT_THAT(std::string(MetricsScraper::Open(other.url()).status().message()),
              HasSubstr("/metrics: there is no metric of a Beamline server"));
  const TextServer missing("HTTP/1.0 404 Not Found\r\n\r\n" + std::string(kMetrics));
  EXPECT_THAT(std::string(MetricsScraper::Open(missing.url()).status().message()),
              HasSubstr("404"));
  const TextServer endless("HTTP/1.0 200 OK\r\n\r\n" + std::string(size_t{17} << 20, 'a'));
  EXPECT_FALSE(MetricsScraper::Open(endless.url()).ok());
  EXPECT_EQ(MetricsScraper::Open("http://127.0.0.1:1/metrics").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace beamline::loadtest::metrics_scraper_test
