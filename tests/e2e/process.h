// Real programs as a user starts them: the server in the background, the command line to its end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace beamline::e2e {

struct Finished {
  int status = -1;  // exit status; 128 + signal when a signal ended it
  std::string out;  // standard output
  std::string err;  // standard error
};

// Runs a program to its end; killed after `timeout`.
Finished RunProgram(const std::vector<std::string>& command,
                    std::chrono::seconds timeout = std::chrono::seconds(60));

// A beamline-server on free loopback ports; killed with the object.
class ServerProcess {
 public:
  // Waits until the server can answer. `arguments` go behind the addresses.
  explicit ServerProcess(const std::vector<std::string>& arguments = {});
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const std::string& address() const { return address_; }  // "127.0.0.1:40001"
  const std::string& metrics_url() const {
    return metrics_url_;
  }  // "http://127.0.0.1:40002/metrics"
  void Signal(int signal);
  // The exit status; 128 + signal when a signal ended it.
  int Wait(std::chrono::seconds timeout);
  int64_t ResidentKiB() const;
  int NumThreads() const;

 private:
  int64_t ReadStatus(const std::string& field) const;

  pid_t pid_ = -1;
  int out_ = -1;
  std::string address_;
  std::string metrics_url_;
};

}  // namespace beamline::e2e
