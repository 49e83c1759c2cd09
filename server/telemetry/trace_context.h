// W3C Trace Context, level 1 (https://www.w3.org/TR/trace-context/): parses a caller's
// `traceparent`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace beamline {

// The metadata key.
inline constexpr char kTraceParentKey[] = "traceparent";

struct TraceContext {
  std::string trace_id;  // 32 lower-case hexadecimal digits, not all zero
  std::string span_id;   // 16 such digits: the caller's span
  bool sampled = false;  // the caller records this trace
};

// nullopt if the text is not a valid traceparent. The request is served as any other then. Of later
// versions the fields of version 00 are read.
std::optional<TraceContext> ParseTraceParent(std::string_view text);

// "00-TRACE-SPAN-01".
std::string TraceParentOf(const TraceContext& trace);

// A random id, not 0. Any thread.
uint64_t NewId();
// The same as 16 hexadecimal digits.
std::string NewSpanId();

}  // namespace beamline
