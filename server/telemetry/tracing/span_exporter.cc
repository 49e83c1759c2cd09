#include "server/telemetry/tracing/span_exporter.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "grpcpp/grpcpp.h"
#include "server/telemetry/tracing/span_wire.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

constexpr char kMethod[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
constexpr size_t kMostReasonBytes = 256;

std::mt19937_64& Random() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  return engine;
}

}  // namespace

SpanExporter::SpanExporter(Options options, SpanStats& stats)
    : options_(std::move(options)),
      stats_(stats),
      stub_(grpc::CreateChannel(options_.collector, grpc::InsecureChannelCredentials())),
      thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void SpanExporter::Add(const CallRecord& record) {
  const auto end = std::chrono::system_clock::now();
  if (record.trace.sampled) return AddSpan(record, end);
  if (!record.trace.trace_id.empty() || options_.fraction <= 0) return;
  if (std::uniform_real_distribution<>(0, 1)(Random()) >= options_.fraction) return;
  CallRecord begun = record;
  begun.trace = {.trace_id = NewSpanId() + NewSpanId(), .span_id = "", .sampled = true};
  AddSpan(begun, end);
}

void SpanExporter::AddSpan(const CallRecord& record, std::chrono::system_clock::time_point end) {
  if (num_waiting_.load(std::memory_order_relaxed) >= kMostWaiting) {
    ++stats_.dropped;
    return;
  }
  Append(SpanBytes(record, end).view());
}

void SpanExporter::Append(std::string_view span) {
  bool is_first_batch = false;
  {
    std::lock_guard lock(mutex_);
    if (num_waiting_ >= kMostWaiting) {
      ++stats_.dropped;
      return;
    }
    if (waiting_.empty() || waiting_.back().num_spans == kMostAtOnce) {
      waiting_.push_back({.spans = std::exchange(spare_, {})});
    }
    waiting_.back().spans.append(span);
    ++waiting_.back().num_spans;
    is_first_batch = ++num_waiting_ == kMostAtOnce;
  }
  if (is_first_batch) wake_.notify_one();
}

void SpanExporter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, options_.interval, [&] { return ends_ || num_waiting_ >= kMostAtOnce; });
    const bool ends = ends_;
    if (waiting_.empty()) {
      if (ends) return;
      continue;
    }
    Batch batch = std::move(waiting_.front());
    waiting_.pop_front();
    num_waiting_ -= batch.num_spans;
    lock.unlock();
    Send(batch);
    batch.spans.clear();
    lock.lock();
    spare_ = std::move(batch.spans);
    if (ends && is_failing_) {
      stats_.dropped += num_waiting_;
      return;
    }
  }
}

void SpanExporter::Send(const Batch& batch) {
  const size_t num_spans = batch.num_spans;
  const grpc::Slice slices[] = {SpansPrefix(batch.spans.size()), batch.spans};
  const grpc::ByteBuffer request(slices, std::size(slices));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + options_.timeout);
  Response response;
  grpc::Status status;
  bool is_answered = false;
  // Asynchronous: a thread that waits inside gRPC would join the threads that poll the server's
  // connections, and each request would wake it.
  stub_.UnaryCall(&context, kMethod, /*options=*/{}, &request, &response, [&](grpc::Status told) {
    std::lock_guard lock(mutex_);
    status = std::move(told);
    is_answered = true;
    answered_.notify_one();
  });
  {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [&] { return is_answered; });
  }
  const auto rejected = std::clamp<int64_t>(response.partial_success().rejected_spans(), 0,
                                            static_cast<int64_t>(status.ok() ? num_spans : 0));
  const size_t num_lost = status.ok() ? static_cast<size_t>(rejected) : num_spans;
  stats_.exported += num_spans - num_lost;
  stats_.dropped += num_lost;
  if (status.ok() == !is_failing_) return;
  is_failing_ = !status.ok();
  if (is_failing_) {
    spdlog::warn(
        "the collector of spans at {} does not take them, which are dropped until it does: {}",
        options_.collector, absl::CEscape(status.error_message().substr(0, kMostReasonBytes)));
  } else {
    spdlog::info("the collector of spans at {} takes them again", options_.collector);
  }
}

}  // namespace beamline
