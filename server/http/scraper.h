// Answers Prometheus scrapes. One collection answers all scrapes that wait when it starts, so that
// many cost as much as one.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "base/worker_pool.h"
#include "prometheus/collectable.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "prometheus/summary.h"
#include "prometheus/text_serializer.h"
#include "server/http/exchange.h"

namespace beamline {

class Scraper {
 public:
  explicit Scraper(std::shared_ptr<prometheus::Collectable> metrics)
      : metrics_(std::move(metrics)) {}

  // Answers with all metrics, on a thread of its own. Any thread; returns at once.
  void Answer(const std::shared_ptr<Exchange>& exchange);

 private:
  void Scrape();

  const std::shared_ptr<prometheus::Collectable> metrics_;
  const prometheus::TextSerializer serializer_;
  // Metrics with the names of prometheus-cpp's own server.
  prometheus::Registry registry_;
  prometheus::Counter& bytes_ = prometheus::BuildCounter()
                                    .Name("exposer_transferred_bytes_total")
                                    .Help("Transferred bytes to metrics services")
                                    .Register(registry_)
                                    .Add({});
  prometheus::Counter& scrapes_ = prometheus::BuildCounter()
                                      .Name("exposer_scrapes_total")
                                      .Help("Number of times metrics were scraped")
                                      .Register(registry_)
                                      .Add({});
  prometheus::Summary& times_ =
      prometheus::BuildSummary()
          .Name("exposer_request_latencies")
          .Help("Latencies of serving scrape requests, in microseconds")
          .Register(registry_)
          .Add({}, prometheus::Summary::Quantiles{{0.5, 0.05}, {0.9, 0.01}, {0.99, 0.001}});
  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> waiting_;  // guarded by mutex_
  WorkerPool thread_{1};
};

}  // namespace beamline
