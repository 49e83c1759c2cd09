#include "server/telemetry/tracing/span_wire.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "base/build_info.h"
#include "base/check.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "opentelemetry/trace_service.pb.h"

namespace beamline {
namespace {

namespace otlp = opentelemetry::proto::collector::trace::v1;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

constexpr uint32_t kSampledFlag = 1;
constexpr std::string_view kNamePrefix = "beamline/";
constexpr size_t kIdBytes = 8;

// Size of a field with its tag and length. The field's number is below 16.
size_t FieldSize(size_t num_bytes) {
  return 1 + CodedOutputStream::VarintSize32(static_cast<uint32_t>(num_bytes)) + num_bytes;
}

// Writes fields one after the other, without bounds checks.
class FieldWriter {
 public:
  explicit FieldWriter(uint8_t* place) : place_(place) {}

  uint8_t* place() const { return place_; }
  void Integer(int field, uint64_t value) {
    Tag(field, WireFormatLite::WIRETYPE_VARINT);
    place_ = CodedOutputStream::WriteVarint64ToArray(value, place_);
  }
  void Fixed32(int field, uint32_t value) {
    Tag(field, WireFormatLite::WIRETYPE_FIXED32);
    place_ = CodedOutputStream::WriteLittleEndian32ToArray(value, place_);
  }
  void Fixed64(int field, uint64_t value) {
    Tag(field, WireFormatLite::WIRETYPE_FIXED64);
    place_ = CodedOutputStream::WriteLittleEndian64ToArray(value, place_);
  }
  void Bytes(int field, std::string_view bytes) {
    Begin(field, bytes.size());
    Raw(bytes);
  }
  // Decodes pairs of hexadecimal digits, '0' to '9' and 'a' to 'f' only.
  void Hex(int field, std::string_view digits) {
    const auto value = [](char digit) { return (digit & 0xF) + (digit > '9' ? 9 : 0); };
    Begin(field, digits.size() / 2);
    for (size_t i = 0; i + 1 < digits.size(); i += 2) {
      *place_++ = static_cast<uint8_t>(16 * value(digits[i]) + value(digits[i + 1]));
    }
  }
  // Starts a message of `num_bytes`, whose fields follow.
  void Begin(int field, size_t num_bytes) {
    Tag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    place_ = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(num_bytes), place_);
  }
  void Raw(std::string_view bytes) {
    std::memcpy(place_, bytes.data(), bytes.size());
    place_ += bytes.size();
  }

  void Text(std::string_view key, std::string_view text) {
    BeginAttribute(key, FieldSize(text.size()));
    Bytes(otlp::AnyValue::kStringValueFieldNumber, text);
  }
  void Number(std::string_view key, int64_t number) {
    const auto value = static_cast<uint64_t>(number);
    BeginAttribute(key, 1 + CodedOutputStream::VarintSize64(value));
    Integer(otlp::AnyValue::kIntValueFieldNumber, value);
  }
  // OTLP accepts only UTF-8, and client-supplied strings may have any bytes.
  void ClientText(std::string_view key, std::string_view text) {
    text = text.substr(0, SpanBytes::kMostTextBytes);
    if (text.empty()) return;
    if (std::all_of(text.begin(), text.end(), [](char c) { return c >= ' '; })) {
      return Text(key, text);
    }
    Text(key, absl::CEscape({text.data(), text.size()}));
  }
  void Event(std::string_view name, uint64_t when) {
    Begin(otlp::Span::kEventsFieldNumber, 1 + sizeof(when) + FieldSize(name.size()));
    Fixed64(otlp::Span_Event::kTimeUnixNanoFieldNumber, when);
    Bytes(otlp::Span_Event::kNameFieldNumber, name);
  }

 private:
  void Tag(int field, WireFormatLite::WireType type) {
    place_ = CodedOutputStream::WriteTagToArray(WireFormatLite::MakeTag(field, type), place_);
  }
  // Starts an attribute. Its value of `value_bytes` follows.
  void BeginAttribute(std::string_view key, size_t value_bytes) {
    Begin(otlp::Span::kAttributesFieldNumber, FieldSize(key.size()) + FieldSize(value_bytes));
    Bytes(otlp::KeyValue::kKeyFieldNumber, key);
    Begin(otlp::KeyValue::kValueFieldNumber, value_bytes);
  }

  uint8_t* place_;
};

// By OpenTelemetry's rules for RPC servers, client faults are not errors.
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

void WriteAttributes(const CallRecord& record, uint64_t start, FieldWriter& span) {
  span.Text("rpc.system", "grpc");
  span.Text("rpc.method", kRpcNames[static_cast<size_t>(record.rpc)]);
  span.Number("rpc.grpc.status_code", static_cast<int64_t>(record.code));
  span.ClientText("gen_ai.request.model", record.model);
  span.ClientText("beamline.request_id", record.request_id);
  if (record.is_identity) span.ClientText("enduser.id", record.client);
  if (record.timing.total <= std::chrono::nanoseconds::zero()) return;
  span.Number("gen_ai.usage.input_tokens", record.usage.prompt_tokens);
  span.Number("gen_ai.usage.output_tokens", record.usage.generated_tokens);
  span.Number("beamline.cached_tokens", record.usage.cached_tokens);
  span.Event("first step", start + static_cast<uint64_t>(record.timing.queue.count()));
  if (record.timing.first_token > std::chrono::nanoseconds::zero()) {
    span.Event("first token", start + static_cast<uint64_t>(record.timing.first_token.count()));
  }
}

std::string SpanId() {
  std::string id(kIdBytes, '\0');
  const uint64_t number = NewId();
  std::memcpy(id.data(), &number, kIdBytes);
  return id;
}

// The fields before the spans of each message: the process (resource) and the scope.
struct Names {
  Names() {
    otlp::ResourceSpans process;
    const auto add = [&](const char* key, std::string_view value) {
      otlp::KeyValue& attribute = *process.mutable_resource()->add_attributes();
      attribute.set_key(key);
      attribute.mutable_value()->set_string_value(std::string(value));
    };
    add("service.name", "beamline");
    add("service.version", ThisBuild().version);
    process_fields = process.SerializeAsString();
    otlp::ScopeSpans scope;
    scope.mutable_scope()->set_name("beamline");
    scope_fields = scope.SerializeAsString();
  }
  std::string process_fields, scope_fields;
};

}  // namespace

SpanBytes::SpanBytes(const CallRecord& record, std::chrono::system_clock::time_point end) {
  // The span's length comes before it, as a varint of variable size.
  uint8_t* const begin = bytes_.data() + FieldSize(bytes_.size()) - bytes_.size();
  FieldWriter span(begin);
  span.Hex(otlp::Span::kTraceIdFieldNumber, record.trace.trace_id);
  span.Bytes(otlp::Span::kSpanIdFieldNumber, SpanId());
  if (!record.trace.span_id.empty()) {
    span.Hex(otlp::Span::kParentSpanIdFieldNumber, record.trace.span_id);
  }
  const std::string_view rpc = kRpcNames[static_cast<size_t>(record.rpc)];
  span.Begin(otlp::Span::kNameFieldNumber, kNamePrefix.size() + rpc.size());
  span.Raw(kNamePrefix);
  span.Raw(rpc);
  span.Integer(otlp::Span::kKindFieldNumber, otlp::SPAN_KIND_SERVER);
  const uint64_t end_ns = Nanoseconds(end);
  const uint64_t start_ns = end_ns - static_cast<uint64_t>(record.duration.count());
  span.Fixed64(otlp::Span::kStartTimeUnixNanoFieldNumber, start_ns);
  span.Fixed64(otlp::Span::kEndTimeUnixNanoFieldNumber, end_ns);
  WriteAttributes(record, start_ns, span);
  if (IsError(record.code)) {
    span.Begin(otlp::Span::kStatusFieldNumber, 2);
    span.Integer(otlp::SpanStatus::kCodeFieldNumber, otlp::STATUS_CODE_ERROR);
  }
  span.Fixed32(otlp::Span::kFlagsFieldNumber, kSampledFlag);
  const auto body_size = static_cast<size_t>(span.place() - begin);
  BEAMLINE_CHECK(span.place() <= bytes_.data() + bytes_.size());
  FieldWriter head(bytes_.data());
  head.Begin(otlp::ScopeSpans::kSpansFieldNumber, body_size);
  // The length took fewer bytes than reserved, so the span moves up to it.
  std::memmove(head.place(), begin, body_size);
  size_ = static_cast<size_t>(head.place() - bytes_.data()) + body_size;
}

std::string SpansPrefix(size_t num_bytes) {
  static const auto* const names = new Names;
  constexpr size_t kMostHeadBytes = 16;  // of the two enclosing messages
  const size_t scope_size = names->scope_fields.size() + num_bytes;
  std::string prefix(kMostHeadBytes + names->process_fields.size() + names->scope_fields.size(),
                     '\0');
  auto* const begin = reinterpret_cast<uint8_t*>(prefix.data());
  FieldWriter fields(begin);
  fields.Begin(otlp::ExportTraceServiceRequest::kResourceSpansFieldNumber,
               names->process_fields.size() + FieldSize(scope_size));
  fields.Raw(names->process_fields);
  fields.Begin(otlp::ResourceSpans::kScopeSpansFieldNumber, scope_size);
  fields.Raw(names->scope_fields);
  prefix.resize(static_cast<size_t>(fields.place() - begin));
  return prefix;
}

}  // namespace beamline
