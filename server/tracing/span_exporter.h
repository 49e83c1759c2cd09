// Sends a span for each traced request to an OpenTelemetry collector, by OTLP over gRPC.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "opentelemetry/trace_service.grpc.pb.h"
#include "server/metrics/metrics.h"
#include "server/tracing/span_stats.h"

namespace beamline {

// A request never waits for it: spans for which there is no place, or that the collector does not
// take within two seconds, are dropped and counted.
class SpanExporter {
 public:
  static constexpr size_t kMostWaiting = 8192;  // spans
  static constexpr size_t kMostAtOnce = 512;    // in one message

  struct Options {
    std::string collector;  // host:port, in plain text
    // Of the requests whose callers do not say whether they trace them, how many begin a trace.
    double fraction = 0;
    std::chrono::milliseconds interval{1000};  // the longest that a span waits for others
    std::chrono::milliseconds timeout{2000};   // of a message
  };

  SpanExporter(Options options, SpanStats& stats);
  // Sends what waits, if the collector takes it.
  ~SpanExporter();

  // Any thread; at the end of the request. Takes no lock for requests that are not traced.
  void Add(CallRecord record);

 private:
  // A request that is over, of which a span is made where nobody waits for it.
  struct Ended {
    CallRecord record;
    std::chrono::system_clock::time_point when;
  };

  void Run();
  // Logs when the collector begins to take them, or to take them no more.
  void Send(const std::vector<Ended>& requests);

  const Options options_;
  SpanStats& stats_;
  std::unique_ptr<opentelemetry::proto::collector::trace::v1::TraceService::Stub> stub_;
  // Of the thread alone. The request's messages and texts are filled again and again: a span has
  // some thirty of them.
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest request_;
  bool is_failing_ = false;
  std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::vector<Ended> waiting_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace beamline
