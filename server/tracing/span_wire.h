// The spans of requests as bytes of OTLP, protobuf's wire format of proto/opentelemetry: as
// messages of protobuf's each span would be some thirty objects first.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/telemetry/call_record.h"

namespace beamline {

// The span of one request that is over.
class SpanBytes {
 public:
  // Of the texts that clients name, so much of each is told.
  static constexpr size_t kMostTextBytes = 256;

  // A child of the span that record.trace names, under an id of its own, which ended at `end`.
  SpanBytes(const CallRecord& record, std::chrono::system_clock::time_point end);

  // An element of the field `spans` of ScopeSpans, with its tag. Valid as long as this object is.
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes_.data()), size_}; }

 private:
  // Three texts of clients', of which each byte may be escaped by four, and what is bounded.
  std::array<uint8_t, 3 * 4 * kMostTextBytes + 1024> bytes_;
  size_t size_ = 0;
};

// What stands before so many bytes of spans in an ExportTraceServiceRequest that names this server.
std::string SpansPrefix(size_t num_bytes);

}  // namespace beamline
