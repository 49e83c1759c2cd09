// The requests of a stream that run, so that they can be cancelled together.
#pragma once

#include <memory>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "engine/api/engine.h"

namespace beamline {

// Thread safe. A request is known by its address.
class RunningRequests {
 public:
  void Add(const void* request);
  // What the engine gave for it. Cancelled at once when all were; nothing of one that was removed.
  void Keep(const void* request, const std::shared_ptr<RequestHandle>& handle);
  void Remove(const void* request);
  void Cancel(const void* request);
  // Those that run, and those that are kept from now on.
  void CancelAll();

 private:
  std::mutex mutex_;
  // Null until it is kept; guarded by mutex_.
  absl::flat_hash_map<const void*, std::shared_ptr<RequestHandle>> handles_;
  bool all_cancelled_ = false;  // guarded by mutex_
};

}  // namespace beamline
