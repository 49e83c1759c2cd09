// The running requests of a stream, so that they can be cancelled together.
#pragma once

#include <memory>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "engine/api/engine.h"

namespace beamline {

// Thread safe. A request is identified by its address.
class RunningRequests {
 public:
  void Add(const void* request);
  // Keeps the engine's handle of it. Cancels the handle at once after CancelAll. Ignores a removed
  // request.
  void Keep(const void* request, const std::shared_ptr<RequestHandle>& handle);
  void Remove(const void* request);
  void Cancel(const void* request);
  // Cancels all running requests, and all that Keep gets later.
  void CancelAll();

 private:
  std::mutex mutex_;
  // Null until Keep; guarded by mutex_.
  absl::flat_hash_map<const void*, std::shared_ptr<RequestHandle>> handles_;
  bool all_cancelled_ = false;  // guarded by mutex_
};

}  // namespace beamline
