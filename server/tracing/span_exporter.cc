#include "server/tracing/span_exporter.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/build_info.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

namespace otlp = opentelemetry::proto::collector::trace::v1;

constexpr uint32_t kSampledFlag = 1;
constexpr size_t kMostTextBytes = 256;

otlp::AnyValue& Attribute(otlp::Span& span, const char* key) {
  otlp::KeyValue& attribute = *span.add_attributes();
  attribute.set_key(key);
  return *attribute.mutable_value();
}

// OTLP takes UTF-8 alone; what clients named is of any bytes.
void SetText(otlp::Span& span, const char* key, std::string_view text) {
  const std::string cut(text.substr(0, kMostTextBytes));
  const bool is_ascii = std::all_of(cut.begin(), cut.end(), [](char c) { return c >= ' '; });
  Attribute(span, key).set_string_value(is_ascii ? cut : absl::CEscape(cut));
}

// By OpenTelemetry's rules for servers of RPCs: what the client is to blame for is no error.
bool IsError(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

uint64_t Nanoseconds(std::chrono::system_clock::time_point time) {
  using std::chrono::nanoseconds;
  return static_cast<uint64_t>(
      std::chrono::duration_cast<nanoseconds>(time.time_since_epoch()).count());
}

void AddEvent(otlp::Span& span, const char* name, std::chrono::nanoseconds after) {
  otlp::Span::Event& event = *span.add_events();
  event.set_name(name);
  event.set_time_unix_nano(span.start_time_unix_nano() + static_cast<uint64_t>(after.count()));
}

// What the digits, two for each byte, say. abseil's function that returns it is deprecated in newer
// versions, and the one that replaces it is missing in older ones.
std::string BytesOfHex(std::string_view digits) {
  std::string bytes(digits.size() / 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    uint8_t byte = 0;
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, byte, /*base=*/16);
    bytes[i] = static_cast<char>(byte);
  }
  return bytes;
}

void WriteSpan(const CallRecord& record, std::chrono::system_clock::time_point when,
               otlp::Span& span) {
  span.set_trace_id(BytesOfHex(record.trace.trace_id));
  span.set_span_id(BytesOfHex(NewSpanId()));
  span.set_parent_span_id(BytesOfHex(record.trace.span_id));
  span.set_flags(kSampledFlag);
  const std::string rpc(kRpcNames[static_cast<size_t>(record.rpc)]);
  span.set_name("beamline/" + rpc);
  span.set_kind(otlp::SPAN_KIND_SERVER);
  const uint64_t end = Nanoseconds(when);
  span.set_end_time_unix_nano(end);
  span.set_start_time_unix_nano(end - static_cast<uint64_t>(record.duration.count()));
  Attribute(span, "rpc.system").set_string_value("grpc");
  Attribute(span, "rpc.method").set_string_value(rpc);
  Attribute(span, "rpc.grpc.status_code").set_int_value(static_cast<int64_t>(record.code));
  if (!record.model.empty()) SetText(span, "gen_ai.request.model", record.model);
  if (!record.request_id.empty()) SetText(span, "beamline.request_id", record.request_id);
  if (record.is_identity) SetText(span, "enduser.id", record.client);
  if (record.timing.total > std::chrono::nanoseconds::zero()) {
    Attribute(span, "gen_ai.usage.input_tokens").set_int_value(record.usage.prompt_tokens);
    Attribute(span, "gen_ai.usage.output_tokens").set_int_value(record.usage.generated_tokens);
    Attribute(span, "beamline.cached_tokens").set_int_value(record.usage.cached_tokens);
    AddEvent(span, "first step", record.timing.queue);
    if (record.timing.first_token > std::chrono::nanoseconds::zero()) {
      AddEvent(span, "first token", record.timing.first_token);
    }
  }
  if (IsError(record.code)) span.mutable_status()->set_code(otlp::STATUS_CODE_ERROR);
}

// Names the server, and has no spans yet.
otlp::ExportTraceServiceRequest EmptyRequest() {
  otlp::ExportTraceServiceRequest request;
  otlp::ResourceSpans& of = *request.add_resource_spans();
  otlp::KeyValue& name = *of.mutable_resource()->add_attributes();
  name.set_key("service.name");
  name.mutable_value()->set_string_value("beamline");
  otlp::KeyValue& version = *of.mutable_resource()->add_attributes();
  version.set_key("service.version");
  version.mutable_value()->set_string_value(std::string(ThisBuild().version));
  of.add_scope_spans()->mutable_scope()->set_name("beamline");
  return request;
}

std::mt19937_64& Random() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  return engine;
}

}  // namespace

SpanExporter::SpanExporter(Options options, SpanStats& stats)
    : options_(std::move(options)),
      stats_(stats),
      stub_(otlp::TraceService::NewStub(
          grpc::CreateChannel(options_.collector, grpc::InsecureChannelCredentials()))),
      request_(EmptyRequest()),
      thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void SpanExporter::Add(CallRecord record) {
  if (record.trace.trace_id.empty()) {
    if (options_.fraction <= 0) return;
    if (std::uniform_real_distribution<>(0, 1)(Random()) >= options_.fraction) return;
    record.trace = {.trace_id = NewSpanId() + NewSpanId(), .span_id = "", .sampled = true};
  } else if (!record.trace.sampled) {
    return;
  }
  for (std::string* const text : {&record.model, &record.request_id, &record.client}) {
    if (text->size() > kMostTextBytes) *text = text->substr(0, kMostTextBytes);
  }
  record.fault = {};  // may be long, and is in no span
  const auto now = std::chrono::system_clock::now();
  bool is_batch = false;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.size() >= kMostWaiting) {
      ++stats_.dropped;
      return;
    }
    waiting_.push_back({std::move(record), now});
    is_batch = waiting_.size() == kMostAtOnce;
  }
  if (is_batch) wake_.notify_one();
}

void SpanExporter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait_for(lock, options_.interval,
                   [&] { return ends_ || waiting_.size() >= kMostAtOnce; });
    const bool ends = ends_;
    if (waiting_.empty()) {
      if (ends) return;
      continue;
    }
    const size_t num_sent = std::min(waiting_.size(), kMostAtOnce);
    const auto end = waiting_.begin() + static_cast<ptrdiff_t>(num_sent);
    const std::vector<Ended> sent(std::make_move_iterator(waiting_.begin()),
                                  std::make_move_iterator(end));
    waiting_.erase(waiting_.begin(), end);
    lock.unlock();
    Send(sent);
    lock.lock();
    if (ends && is_failing_) {
      stats_.dropped += waiting_.size();
      return;
    }
  }
}

void SpanExporter::Send(const std::vector<Ended>& requests) {
  const size_t num_spans = requests.size();
  auto& spans = *request_.mutable_resource_spans(0)->mutable_scope_spans(0)->mutable_spans();
  spans.Clear();
  for (const Ended& one : requests) WriteSpan(one.record, one.when, *spans.Add());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + options_.timeout);
  otlp::ExportTraceServiceResponse response;
  const grpc::Status status = stub_->Export(&context, request_, &response);
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
        options_.collector, absl::CEscape(status.error_message().substr(0, kMostTextBytes)));
  } else {
    spdlog::info("the collector of spans at {} takes them again", options_.collector);
  }
}

}  // namespace beamline
