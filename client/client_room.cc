#include "client/client_room.h"

#include <algorithm>
#include <thread>

#include "base/process_room.h"
#include "base/status.h"

namespace beamline {

absl::Status CheckClientRoom(int num_more_threads, int num_more_descriptors) {
  constexpr int kThreads = 9;
  constexpr int kMostByCores = 16;  // of gRPC's
  constexpr int kDescriptors = 12;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  BEAMLINE_RETURN_IF_ERROR(
      CheckThreadRoom(kThreads + std::min(cores, kMostByCores) + num_more_threads));
  return CheckDescriptorRoom(kDescriptors + num_more_descriptors);
}

}  // namespace beamline
