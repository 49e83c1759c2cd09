#include "server/http/scraper.h"

#include <chrono>
#include <iterator>
#include <string>
#include <utility>

namespace beamline {

void Scraper::Answer(const std::shared_ptr<Exchange>& exchange) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(exchange);
    if (waiting_.size() > 1) return;
  }
  thread_.Post([this] { Scrape(); });
}

void Scraper::Scrape() {
  using Clock = std::chrono::steady_clock;
  std::vector<std::shared_ptr<Exchange>> asking;
  {
    std::lock_guard lock(mutex_);
    asking = std::move(waiting_);
    waiting_.clear();
  }
  const auto begin = Clock::now();
  std::vector<prometheus::MetricFamily> families = metrics_->Collect();
  std::vector<prometheus::MetricFamily> own = registry_.Collect();
  std::move(own.begin(), own.end(), std::back_inserter(families));
  const std::string text = serializer_.Serialize(families);
  for (const auto& exchange : asking) {
    scrapes_.Increment();
    bytes_.Increment(static_cast<double>(text.size()));
    exchange->Answer({.body = text, .content_type = "text/plain; version=0.0.4; charset=utf-8"},
                     nullptr);
    const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
    times_.Observe(time.count());
  }
}

}  // namespace beamline
