// Serializes request spans to OTLP (the wire format of proto/opentelemetry) without protobuf
// messages, as those would need about thirty objects per span.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/telemetry/call_record.h"

namespace beamline {

// The serialized span of a finished request.
class SpanBytes {
 public:
  // Client-supplied strings are cut to this many bytes.
  static constexpr size_t kMostTextBytes = 256;

  // A child of the span in record.trace, with a new id, ended at `end`.
  SpanBytes(const CallRecord& record, std::chrono::system_clock::time_point end);

  // An element of ScopeSpans.spans, with its tag. Valid as long as this object.
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes_.data()), size_}; }

 private:
  // Room for three client-supplied strings, each byte escaped by up to four, and for the bounded
  // rest.
  std::array<uint8_t, 3 * 4 * kMostTextBytes + 1024> bytes_;
  size_t size_ = 0;
};

// Header of an ExportTraceServiceRequest for `num_bytes` of spans, with this server's resource and
// scope.
std::string SpansPrefix(size_t num_bytes);

}  // namespace beamline
