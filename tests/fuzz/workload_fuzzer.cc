// The load tester's workload of any bytes, and the first requests of those that are one.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "loadtest/workload/request_factory.h"
#include "loadtest/workload/workload_file.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

using loadtest::Distribution;
using loadtest::RequestClass;

constexpr uint64_t kRequests = 4;
constexpr int64_t kMaxWords = 1000;  // of a prompt that is made here

bool IsSmall(const RequestClass& requests) {
  const auto small = [](const std::optional<Distribution>& length) {
    return !length.has_value() || length->high() <= kMaxWords;
  };
  return requests.batch <= 16 && requests.prompt.num_shared <= kMaxWords &&
         small(requests.prompt.words) && small(requests.prompt.tokens);
}

void CheckClass(const RequestClass& requests) {
  BEAMLINE_CHECK(requests.weight > 0 && requests.weight < 1e7);
  BEAMLINE_CHECK(requests.batch >= 1 && requests.batch <= loadtest::kMaxBatch);
  for (const auto& range : {requests.max_new_tokens, requests.beam_width}) {
    if (range.has_value()) BEAMLINE_CHECK(range->low() >= 1 && range->low() <= range->high());
  }
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  auto workload = loadtest::ParseWorkload(std::string(AsText(data, size)), "/nonexistent");
  if (!workload.ok()) {
    CheckRefusal(workload.status(), "");
    return 0;
  }
  bool small = true;
  for (RequestClass& requests : workload->classes) {
    CheckClass(requests);
    small &= IsSmall(requests);
    requests.vocab_size = 100;
  }
  if (!small) return 0;
  const loadtest::RequestFactory factory(*workload, /*seed=*/1);
  for (uint64_t i = 0; i < kRequests; ++i) {
    const loadtest::Request request = factory.Make(i);
    BEAMLINE_CHECK(request.class_index < workload->classes.size());
    BEAMLINE_CHECK(request.kind == workload->classes[request.class_index].kind);
  }
  return 0;
}
