// Tells `beamline-server --health` that a server which does not listen yet is loading its models,
// and has not ended.
#pragma once

#include <string>

namespace beamline {

// While it lives, IsLoading is true of its address within this network namespace. A mark that
// cannot be made is none: of port 0, or of a port that another server loads for.
class LoadingMark {
 public:
  explicit LoadingMark(const std::string& address);  // host:port; the port counts
  ~LoadingMark();
  LoadingMark(const LoadingMark&) = delete;
  LoadingMark& operator=(const LoadingMark&) = delete;

 private:
  int socket_ = -1;
};

bool IsLoading(const std::string& address);

}  // namespace beamline
