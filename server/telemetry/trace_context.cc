#include "server/telemetry/trace_context.h"

#include <random>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr size_t kVersionEnd = 2;
constexpr size_t kTraceBegin = 3;
constexpr size_t kTraceDigits = 32;
constexpr size_t kSpanBegin = 36;
constexpr size_t kSpanDigits = 16;
constexpr size_t kFlagsBegin = 53;
constexpr size_t kLength = 55;

int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Has no early exit, so that the compiler can vectorize it.
bool IsHex(std::string_view text) {
  unsigned char others = 0;
  for (const char c : text) {
    const auto digit = static_cast<unsigned char>(c - '0');
    const auto letter = static_cast<unsigned char>(c - 'a');
    others |= static_cast<unsigned char>(digit > 9) & static_cast<unsigned char>(letter > 5);
  }
  return others == 0;
}

bool IsZero(std::string_view text) { return text.find_first_not_of('0') == text.npos; }

}  // namespace

std::optional<TraceContext> ParseTraceParent(std::string_view text) {
  if (text.size() < kLength) return std::nullopt;
  for (const size_t dash : {kVersionEnd, kSpanBegin - 1, kFlagsBegin - 1}) {
    if (text[dash] != '-') return std::nullopt;
  }
  const std::string_view version = text.substr(0, kVersionEnd);
  const std::string_view trace = text.substr(kTraceBegin, kTraceDigits);
  const std::string_view span = text.substr(kSpanBegin, kSpanDigits);
  const std::string_view flags = text.substr(kFlagsBegin, 2);
  if (!IsHex(version) || !IsHex(trace) || !IsHex(span) || !IsHex(flags)) return std::nullopt;
  if (version == "ff" || IsZero(trace) || IsZero(span)) return std::nullopt;
  // Version 00 ends here. Later versions may continue after a dash.
  if (text.size() > kLength && (version == "00" || text[kLength] != '-')) return std::nullopt;
  return TraceContext{std::string(trace), std::string(span), DigitOf(flags[1]) % 2 == 1};
}

std::string TraceParentOf(const TraceContext& trace) {
  return fmt::format("00-{}-{}-{}", trace.trace_id, trace.span_id, trace.sampled ? "01" : "00");
}

uint64_t NewId() {
  static thread_local std::mt19937_64 engine{std::random_device{}()};
  uint64_t id = 0;
  while (id == 0) id = engine();
  return id;
}

std::string NewSpanId() { return fmt::format("{:016x}", NewId()); }

}  // namespace beamline
