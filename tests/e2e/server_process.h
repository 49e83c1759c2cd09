// Programs of the build as child processes, ended by their ids and never left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace beamline {

// A child process with its standard output and error.
class ChildProcess {
 public:
  // max_open_files: its limit of descriptors, soft and hard; 0: as this process's.
  ChildProcess(const std::string& program, const std::vector<std::string>& arguments,
               const std::string& input = "", int max_open_files = 0);
  ~ChildProcess();  // kills what still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // The first line of standard output; what came until then when the process ends or time is up.
  std::string ReadLine(std::chrono::seconds timeout = std::chrono::seconds(60));
  // The exit status, 128 + N after signal N; -1 when it still runs after `timeout`. Reads the rest
  // of both outputs.
  int Wait(std::chrono::seconds timeout = std::chrono::seconds(60));

  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

 private:
  // Reads what is there, waiting a moment for it. False when both outputs have ended.
  bool Pump();

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string out_;
  std::string err_;
};

// beamline-server on free loopback ports.
class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& arguments = {}, int max_open_files = 0);

  ChildProcess& process() { return process_; }
  // The line that tells where it serves.
  const std::string& start_line() const { return start_line_; }
  const std::string& address() const { return address_; }
  const std::string& metrics_url() const { return metrics_url_; }
  // Empty when off.
  const std::string& admin_address() const { return admin_address_; }
  const std::string& http_address() const { return http_address_; }
  int http_port() const { return PortOf(http_address_); }
  int port() const { return PortOf(address_); }
  int metrics_port() const { return PortOf(metrics_url_); }
  // The body of /metrics.
  std::string Scrape() const;
  // The value of a series, written as a scrape writes it: "name{label=\"value\"}". -1: none.
  double Metric(const std::string& series) const;

 private:
  // "host:PORT" and "http://host:PORT/metrics".
  static int PortOf(const std::string& address);

  ChildProcess process_;
  std::string start_line_;
  std::string address_;
  std::string metrics_url_;
  std::string admin_address_;
  std::string http_address_;
};

// One server with the demo models for all tests of a program.
ServerProcess& SharedServer();

}  // namespace beamline
