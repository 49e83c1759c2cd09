// Tells `beamline-server --health` that a server is still loading its models. It does not listen
// yet, but has not ended.
#pragma once

#include <string>

namespace beamline {

// While it lives, IsLoading(address) is true within this network namespace. No mark is made for
// port 0, or if another server loads for the same port.
class LoadingMark {
 public:
  explicit LoadingMark(const std::string& address);  // host:port; only the port counts
  ~LoadingMark();
  LoadingMark(const LoadingMark&) = delete;
  LoadingMark& operator=(const LoadingMark&) = delete;

 private:
  int socket_ = -1;
};

bool IsLoading(const std::string& address);

}  // namespace beamline
