#include "server/telemetry/tracing/span_wire.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "opentelemetry/trace_service.pb.h"
#include "tests/test_seed.h"

namespace beamline::span_wire_test {
namespace {

namespace otlp = opentelemetry::proto::collector::trace::v1;

// A message with these spans, as protobuf reads it; what protobuf would write is the same bytes.
otlp::ExportTraceServiceRequest Read(const std::string& spans) {
  const std::string bytes = SpansPrefix(spans.size()) + spans;
  otlp::ExportTraceServiceRequest request;
  EXPECT_TRUE(request.ParseFromString(bytes));
  EXPECT_EQ(request.SerializeAsString(), bytes);
  EXPECT_EQ(request.resource_spans_size(), 1);
  EXPECT_EQ(request.resource_spans(0).scope_spans_size(), 1);
  EXPECT_EQ(request.resource_spans(0).scope_spans(0).scope().name(), "beamline");
  return request;
}

std::string RandomText(std::mt19937_64& random) {
  std::string text(random() % 400, '\0');
  const bool is_plain = random() % 2 == 0;
  for (char& c : text) c = static_cast<char>(is_plain ? 'a' + random() % 26 : random() % 256);
  return text;
}

int32_t RandomNumber(std::mt19937_64& random) {
  return static_cast<int32_t>(random() >> (33 + random() % 31));
}

CallRecord RandomRecord(std::mt19937_64& random) {
  CallRecord record{.rpc = static_cast<Rpc>(random() % kRpcNames.size()),
                    .model = RandomText(random),
                    .code = static_cast<absl::StatusCode>(random() % 17)};
  record.duration = std::chrono::microseconds(RandomNumber(random));
  record.trace = {.trace_id = NewSpanId() + NewSpanId(), .span_id = NewSpanId(), .sampled = true};
  if (random() % 4 == 0) record.trace.span_id.clear();
  record.request_id = RandomText(random);
  record.client = RandomText(random);
  record.is_identity = random() % 2 == 0;
  if (random() % 4 == 0) return record;
  record.timing = {.queue = std::chrono::nanoseconds(random() % 1'000'000),
                   .first_token = std::chrono::nanoseconds(random() % 2 * 1'000'000),
                   .total = std::chrono::nanoseconds(1'000'000)};
  record.usage = {.prompt_tokens = RandomNumber(random),
                  .cached_tokens = RandomNumber(random),
                  .generated_tokens = RandomNumber(random)};
  return record;
}

TEST(SpanWire, IsWhatProtobufWrites) {
  constexpr int kMessages = 60;
  constexpr int kSpans = 30;
  std::mt19937_64 random(TestSeed());
  const auto end = std::chrono::system_clock::now();
  std::set<std::string> ids;
  for (int message = 0; message < kMessages; ++message) {
    std::string spans;
    const auto num_spans = static_cast<int>(random() % kSpans);
    for (int i = 0; i < num_spans; ++i) spans += SpanBytes(RandomRecord(random), end).view();
    const auto request = Read(spans);
    const auto& read = request.resource_spans(0).scope_spans(0).spans();
    ASSERT_EQ(read.size(), num_spans);
    for (const otlp::Span& span : read) {
      EXPECT_EQ(span.trace_id().size(), 16u);
      EXPECT_TRUE(ids.insert(span.span_id()).second);
      EXPECT_TRUE(span.parent_span_id().empty() || span.parent_span_id().size() == 8);
    }
  }
}

TEST(SpanWire, TheLargestSpanHasRoom) {
  CallRecord record{.rpc = Rpc::kTeiPredictPairStream,
                    .model = std::string(1000, '\xFF'),
                    .code = absl::StatusCode::kInternal};
  record.duration = std::chrono::nanoseconds::max();
  record.timing = {.queue = std::chrono::nanoseconds::max(),
                   .first_token = std::chrono::nanoseconds::max(),
                   .total = std::chrono::nanoseconds::max()};
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();  // of ten bytes
  record.usage = {.prompt_tokens = kLeast, .cached_tokens = kLeast, .generated_tokens = kLeast};
  record.request_id = record.client = record.model;
  record.is_identity = true;
  record.trace = {.trace_id = NewSpanId() + NewSpanId(), .span_id = NewSpanId(), .sampled = true};
  const SpanBytes span(record, std::chrono::system_clock::now());
  const auto request = Read(std::string(span.view()));
  const otlp::Span& read = request.resource_spans(0).scope_spans(0).spans(0);
  ASSERT_EQ(read.attributes_size(), 9);
  EXPECT_EQ(read.attributes(3).value().string_value().size(), 4 * SpanBytes::kMostTextBytes);
  EXPECT_EQ(read.attributes(8).value().int_value(), kLeast);
}

}  // namespace
}  // namespace beamline::span_wire_test
