// W3C Trace Context, level 1 (https://www.w3.org/TR/trace-context/): what a caller's `traceparent`
// says about the trace that a request belongs to.
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
  std::string span_id;   // 16 of them: the caller's span
  bool sampled = false;  // the caller records its part of the trace
};

// Nothing where the text is no traceparent; the caller begins a trace of its own then, and its
// request is served as any other. Of versions to come the fields of version 00 are read.
std::optional<TraceContext> ParseTraceParent(std::string_view text);

// "00-TRACE-SPAN-01".
std::string TraceParentOf(const TraceContext& trace);

// A random one, not 0; any thread.
uint64_t NewId();
// The same as 16 digits.
std::string NewSpanId();

}  // namespace beamline
