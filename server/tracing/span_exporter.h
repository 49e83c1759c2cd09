// Sends a span for each traced request to an OpenTelemetry collector, by OTLP over gRPC.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "opentelemetry/trace_service.grpc.pb.h"  // how gRPC reads its messages
#include "server/telemetry/call_record.h"
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
  void Add(const CallRecord& record);

 private:
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
  // Of one message to the collector.
  struct Batch {
    std::string spans;  // as SpanBytes are, one behind the other
    size_t num_spans = 0;
  };

  // Makes the span of a request of a sampled trace.
  void AddSpan(const CallRecord& record, std::chrono::system_clock::time_point end);
  void Append(std::string_view span);
  void Run();
  // Logs when the collector begins to take them, or to take them no more.
  void Send(const Batch& batch);

  const Options options_;
  SpanStats& stats_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, Response> stub_;
  bool is_failing_ = false;  // of the thread alone
  std::mutex mutex_;         // guards all below
  std::condition_variable wake_;
  std::condition_variable answered_;    // the message under way
  std::deque<Batch> waiting_;           // all but the last one are full
  std::atomic<size_t> num_waiting_{0};  // spans; may be read without the lock
  std::string spare_;                   // whose memory the next batch takes
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace beamline
