#include "server/calls/running_requests.h"

#include <vector>

namespace beamline {

void RunningRequests::Add(const void* request) {
  std::lock_guard lock(mutex_);
  handles_.emplace(request, nullptr);
}

void RunningRequests::Keep(const void* request, const std::shared_ptr<RequestHandle>& handle) {
  bool cancel = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = handles_.find(request);
    if (found == handles_.end()) return;
    found->second = handle;
    cancel = all_cancelled_;
  }
  if (cancel) handle->Cancel();
}

void RunningRequests::Remove(const void* request) {
  std::lock_guard lock(mutex_);
  handles_.erase(request);
}

void RunningRequests::Cancel(const void* request) {
  std::shared_ptr<RequestHandle> handle;
  {
    std::lock_guard lock(mutex_);
    const auto found = handles_.find(request);
    if (found != handles_.end()) handle = found->second;
  }
  if (handle != nullptr) handle->Cancel();
}

void RunningRequests::CancelAll() {
  std::vector<std::shared_ptr<RequestHandle>> handles;
  {
    std::lock_guard lock(mutex_);
    all_cancelled_ = true;
    for (const auto& [request, handle] : handles_) {
      if (handle != nullptr) handles.push_back(handle);
    }
  }
  for (const auto& handle : handles) handle->Cancel();
}

}  // namespace beamline
