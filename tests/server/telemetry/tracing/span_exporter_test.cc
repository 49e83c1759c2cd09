#include "server/telemetry/tracing/span_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "beamline/v1/models.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/server/service_fixture.h"

namespace beamline::span_exporter_test {
namespace {

namespace otlp = opentelemetry::proto::collector::trace::v1;
using testing::Contains;
using testing::ElementsAre;
using testing::Pair;

// What a collector is to a server of spans.
class Collector final : public otlp::TraceService::Service {
 public:
  Collector() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Collector() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Export(grpc::ServerContext*, const otlp::ExportTraceServiceRequest* request,
                      otlp::ExportTraceServiceResponse* response) override {
    std::lock_guard lock(mutex_);
    if (!refusal_.ok()) return refusal_;
    if (rejected_ > 0) response->mutable_partial_success()->set_rejected_spans(rejected_);
    for (const auto& resource : request->resource_spans()) {
      for (const auto& attribute : resource.resource().attributes()) {
        if (attribute.key() == "service.name") service_ = attribute.value().string_value();
      }
      for (const auto& scope : resource.scope_spans()) {
        spans_.insert(spans_.end(), scope.spans().begin(), scope.spans().end());
        sizes_.push_back(static_cast<size_t>(scope.spans_size()));
      }
    }
    return grpc::Status::OK;
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::vector<otlp::Span> spans() {
    std::lock_guard lock(mutex_);
    return spans_;
  }
  std::vector<size_t> sizes() {
    std::lock_guard lock(mutex_);
    return sizes_;
  }
  std::string service() {
    std::lock_guard lock(mutex_);
    return service_;
  }
  void Refuse(const grpc::Status& refusal) {
    std::lock_guard lock(mutex_);
    refusal_ = refusal;
  }
  void Reject(int64_t num_spans) {
    std::lock_guard lock(mutex_);
    rejected_ = num_spans;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::mutex mutex_;
  std::vector<otlp::Span> spans_;
  std::vector<size_t> sizes_;
  std::string service_;
  grpc::Status refusal_;
  int64_t rejected_ = 0;
};

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";

CallRecord Record(bool sampled = true) {
  CallRecord record{.rpc = Rpc::kGenerate, .model = "writer"};
  record.duration = std::chrono::milliseconds(20);
  record.timing = {.queue = std::chrono::milliseconds(2),
                   .first_token = std::chrono::milliseconds(5),
                   .total = std::chrono::milliseconds(19)};
  record.usage = {.prompt_tokens = 7, .cached_tokens = 3, .generated_tokens = 11};
  record.request_id = "a7";
  record.client = "team-a";
  record.is_identity = true;
  record.trace = {.trace_id = kTrace, .span_id = kSpan, .sampled = sampled};
  return record;
}

std::map<std::string, std::string> Attributes(const otlp::Span& span) {
  std::map<std::string, std::string> found;
  for (const auto& attribute : span.attributes()) {
    const otlp::AnyValue& value = attribute.value();
    found[attribute.key()] =
        value.has_int_value() ? std::to_string(value.int_value()) : value.string_value();
  }
  return found;
}

TEST(SpanExporter, ASpanTellsTheRequest) {
  Collector collector;
  SpanStats stats;
  const auto before = std::chrono::system_clock::now();
  { SpanExporter({.collector = collector.address()}, stats).Add(Record()); }
  const std::vector<otlp::Span> spans = collector.spans();
  ASSERT_EQ(spans.size(), 1u);
  const otlp::Span& span = spans[0];
  EXPECT_EQ(absl::BytesToHexString(span.trace_id()), kTrace);
  EXPECT_EQ(absl::BytesToHexString(span.parent_span_id()), kSpan);
  EXPECT_EQ(span.span_id().size(), 8u);
  EXPECT_NE(span.span_id(), span.parent_span_id());
  EXPECT_EQ(span.name(), "beamline/Generate");
  EXPECT_EQ(span.kind(), otlp::SPAN_KIND_SERVER);
  EXPECT_EQ(span.end_time_unix_nano() - span.start_time_unix_nano(), 20'000'000u);
  EXPECT_GE(span.end_time_unix_nano(),
            static_cast<uint64_t>(std::chrono::nanoseconds(before.time_since_epoch()).count()));
  ASSERT_EQ(span.events_size(), 2);
  EXPECT_EQ(span.events(0).name(), "first step");
  EXPECT_EQ(span.events(0).time_unix_nano() - span.start_time_unix_nano(), 2'000'000u);
  EXPECT_EQ(span.events(1).name(), "first token");
  EXPECT_EQ(span.events(1).time_unix_nano() - span.start_time_unix_nano(), 5'000'000u);
  const auto attributes = Attributes(span);
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"rpc.system", "grpc"},
                                          {"rpc.method", "Generate"},
                                          {"rpc.grpc.status_code", "0"},
                                          {"gen_ai.request.model", "writer"},
                                          {"gen_ai.usage.input_tokens", "7"},
                                          {"gen_ai.usage.output_tokens", "11"},
                                          {"beamline.cached_tokens", "3"},
                                          {"beamline.request_id", "a7"},
                                          {"enduser.id", "team-a"}}) {
    EXPECT_THAT(attributes, Contains(Pair(key, value)));
  }
  EXPECT_EQ(span.status().code(), otlp::STATUS_CODE_UNSET);
  EXPECT_EQ(collector.service(), "beamline");
  EXPECT_EQ(stats.exported, 1u);
  EXPECT_EQ(stats.dropped, 0u);
}

TEST(SpanExporter, OnlyFaultsOfTheServerAreErrors) {
  Collector collector;
  SpanStats stats;
  {
    SpanExporter exporter({.collector = collector.address()}, stats);
    for (const auto code : {absl::StatusCode::kInvalidArgument, absl::StatusCode::kCancelled,
                            absl::StatusCode::kResourceExhausted, absl::StatusCode::kInternal,
                            absl::StatusCode::kUnavailable}) {
      CallRecord record = Record();
      record.code = code;
      record.timing = {};
      exporter.Add(record);
    }
  }
  std::vector<bool> errors;
  for (const otlp::Span& span : collector.spans()) {
    errors.push_back(span.status().code() == otlp::STATUS_CODE_ERROR);
    EXPECT_EQ(span.events_size(), 0);
  }
  EXPECT_THAT(errors, ElementsAre(false, false, false, true, true));
}

TEST(SpanExporter, TracesWhatItsCallersTraceAndAFractionOfTheRest) {
  constexpr int kCalls = 2000;
  Collector collector;
  SpanStats stats;
  {
    SpanExporter exporter({.collector = collector.address(), .fraction = 0.25}, stats);
    for (int i = 0; i < 100; ++i) exporter.Add(Record(/*sampled=*/false));
    CallRecord untraced = Record();
    untraced.trace = {};
    for (int i = 0; i < kCalls; ++i) exporter.Add(untraced);
  }
  const std::vector<otlp::Span> spans = collector.spans();
  EXPECT_NEAR(static_cast<double>(spans.size()), 0.25 * kCalls, 0.06 * kCalls);  // 6 deviations
  std::map<std::string, int> traces;
  for (const otlp::Span& span : spans) {
    EXPECT_EQ(span.trace_id().size(), 16u);
    EXPECT_EQ(span.parent_span_id(), "");
    EXPECT_EQ(++traces[span.trace_id()], 1);
  }
}

TEST(SpanExporter, NoneArriveTwiceAndMessagesAreBounded) {
  constexpr int kThreads = 4;
  constexpr int kEach = 1500;
  Collector collector;
  SpanStats stats;
  {
    SpanExporter exporter({.collector = collector.address()}, stats);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&exporter] {
        for (int i = 0; i < kEach; ++i) exporter.Add(Record());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::map<std::string, int> seen;
  for (const otlp::Span& span : collector.spans()) EXPECT_EQ(++seen[span.span_id()], 1);
  EXPECT_EQ(seen.size(), static_cast<size_t>(kThreads * kEach));
  EXPECT_EQ(stats.exported, static_cast<uint64_t>(kThreads * kEach));
  for (const size_t size : collector.sizes()) EXPECT_LE(size, SpanExporter::kMostAtOnce);
}

TEST(SpanExporter, TextsOfClientsNeverBreakAMessage) {
  Collector collector;
  SpanStats stats;
  CallRecord record = Record();
  record.request_id = std::string("\xFF\xC3\0\n", 4) + std::string(100000, '\xE2');
  { SpanExporter({.collector = collector.address()}, stats).Add(record); }
  const std::vector<otlp::Span> spans = collector.spans();
  ASSERT_EQ(spans.size(), 1u);
  const std::string id = Attributes(spans[0]).at("beamline.request_id");
  EXPECT_THAT(id, testing::StartsWith("\\377\\303\\000\\n"));
  EXPECT_LT(id.size(), 2000u);
}

TEST(SpanExporter, WhatACollectorDoesNotTakeIsCounted) {
  Collector collector;
  SpanStats stats;
  collector.Refuse(grpc::Status(grpc::StatusCode::UNAVAILABLE, "full"));
  { SpanExporter({.collector = collector.address()}, stats).Add(Record()); }
  EXPECT_EQ(stats.dropped, 1u);
  collector.Refuse(grpc::Status::OK);
  collector.Reject(1);
  {
    SpanExporter exporter({.collector = collector.address()}, stats);
    for (int i = 0; i < 3; ++i) exporter.Add(Record());
  }
  EXPECT_EQ(stats.dropped, 2u);
  EXPECT_EQ(stats.exported, 2u);
}

// Nobody listens: requests go on, what has no place is dropped, and the end does not wait long.
TEST(SpanExporter, RequestsDoNotWaitForACollector) {
  constexpr size_t kCalls = SpanExporter::kMostWaiting + 5000;
  SpanStats stats;
  const auto begin = std::chrono::steady_clock::now();
  {
    SpanExporter exporter({.collector = "127.0.0.1:1"}, stats);
    for (size_t i = 0; i < kCalls; ++i) exporter.Add(Record());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(stats.exported, 0u);
  EXPECT_EQ(stats.dropped, kCalls);
}

class TracedServer : public ServiceTest {};

TEST_F(TracedServer, SendsASpanForACallWhoseCallerTracesIt) {
  Collector collector;
  ServerConfig config;
  config.otlp_endpoint = collector.address();
  Serve(config);
  const auto stub = v1::Models::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  for (const char* flags : {"-01", "-00"}) {
    grpc::ClientContext context;
    context.AddMetadata("traceparent", std::string("00-") + kTrace + "-" + kSpan + flags);
    v1::ListModelsResponse response;
    EXPECT_TRUE(stub->ListModels(&context, {}, &response).ok());
  }
  EXPECT_TRUE(CounterReaches("beamline_requests_total", "rpc=ListModels model=none code=OK", 2));
  client_.reset();
  server_.reset();
  const std::vector<otlp::Span> spans = collector.spans();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].name(), "beamline/ListModels");
  EXPECT_EQ(absl::BytesToHexString(spans[0].trace_id()), kTrace);
  EXPECT_EQ(Counter("beamline_spans_total", "outcome=exported"), 1);
  metrics_->spans().dropped = 7;
  EXPECT_EQ(Counter("beamline_spans_total", "outcome=dropped"), 7);
}

}  // namespace
}  // namespace beamline::span_exporter_test
