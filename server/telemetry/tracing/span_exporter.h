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
#include "server/telemetry/metrics/span_stats.h"

namespace beamline {

// Requests never wait for it. Spans are dropped and counted when the queue is full, or when the
// collector does not accept them within `timeout`.
class SpanExporter {
 public:
  static constexpr size_t kMostWaiting = 8192;  // spans
  static constexpr size_t kMostAtOnce = 512;    // in one message

  struct Options {
    std::string collector;  // host:port, plain text
    // Fraction of the requests without a traceparent that start a trace.
    double fraction = 0;
    std::chrono::milliseconds interval{1000};  // longest time that a span waits for others
    std::chrono::milliseconds timeout{2000};   // of a message
  };

  SpanExporter(Options options, SpanStats& stats);
  // Sends waiting spans, if the collector accepts them.
  ~SpanExporter();

  // Call at the end of a request, on any thread. Takes no lock for requests that are not traced.
  void Add(const CallRecord& record);

 private:
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
  // The spans of one message to the collector.
  struct Batch {
    std::string spans;  // concatenated SpanBytes
    size_t num_spans = 0;
  };

  // Adds the span of a request of a sampled trace.
  void AddSpan(const CallRecord& record, std::chrono::system_clock::time_point end);
  void Append(std::string_view span);
  void Run();
  // Logs when the collector starts or stops accepting spans.
  void Send(const Batch& batch);

  const Options options_;
  SpanStats& stats_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, Response> stub_;
  bool is_failing_ = false;  // used by the thread only
  std::mutex mutex_;         // guards all below
  std::condition_variable wake_;
  std::condition_variable answered_;    // the message in flight
  std::deque<Batch> waiting_;           // all but the last are full
  std::atomic<size_t> num_waiting_{0};  // spans; may be read without the lock
  std::string spare_;                   // its memory is reused by the next batch
  bool ends_ = false;
  std::thread thread_;  // last, as it uses the other members
};

}  // namespace beamline
