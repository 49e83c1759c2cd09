// A trace of any bytes: what is read as one is read as the same again when it has been written.
#include <chrono>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "loadtest/workload/trace.h"
#include "tests/fuzz/checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  const auto trace = loadtest::ParseTrace("--trace t.csv", AsText(data, size));
  if (!trace.ok()) {
    CheckRefusal(trace.status(), "--trace t.csv");
    return 0;
  }
  BEAMLINE_CHECK(!trace->empty());
  std::chrono::nanoseconds before{0};
  for (const loadtest::TraceEntry& entry : *trace) {
    BEAMLINE_CHECK(entry.time >= before);
    before = entry.time;
    for (const int32_t tokens : {entry.prompt_tokens, entry.output_tokens}) {
      BEAMLINE_CHECK(tokens >= 0 && tokens <= loadtest::kMostTraceTokens);
    }
  }
  const std::string written = loadtest::TraceCsv(*trace);
  const auto again = loadtest::ParseTrace("written", written);
  // Times of a date may lie further apart than those of the written form.
  constexpr std::chrono::seconds kMost{1'000'000'000};
  BEAMLINE_CHECK(again.ok() || before > kMost);
  if (again.ok() && before < std::chrono::hours(24)) {
    BEAMLINE_CHECK(loadtest::TraceCsv(*again) == written);
  }
  return 0;
}
