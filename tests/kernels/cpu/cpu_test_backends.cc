// The CPU backend with one and with several threads, and once for each vector extension that this
// machine has.
#include "hwy/highway.h"
#include "hwy/targets.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/op_test.h"

namespace beamline {
namespace {

// A backend on one Highway target, whatever the machine's best is. Tests run one after another.
BackendCase OnTarget(int64_t target, int num_threads) {
  std::string name = hwy::TargetName(target);
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  name += "On" + std::to_string(num_threads);
  return {name, [target, num_threads] {
            hwy::SetSupportedTargetsForTest(target);
            hwy::GetChosenTarget().Update(hwy::SupportedTargets());
            return MakeCpuBackend({.num_threads = num_threads});
          }};
}

}  // namespace

std::vector<BackendCase> TestBackends() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  const int64_t best = targets & -targets;  // the lower the bit, the better
  std::vector<BackendCase> cases = {OnTarget(best, 1)};
  for (int64_t rest = targets; rest != 0; rest &= rest - 1) {
    cases.push_back(OnTarget(rest & -rest, 3));
  }
  return cases;
}

}  // namespace beamline
