#include "kernels/cpu/cpu_weight.h"

namespace beamline::cpu {

absl::Status SupportsBFloat16() { return absl::UnimplementedError("bfloat16 is not built in"); }

absl::StatusOr<std::unique_ptr<CpuWeight>> PackBFloat16Weight(std::span<const HostMatrix>, int) {
  return SupportsBFloat16();
}

}  // namespace beamline::cpu
