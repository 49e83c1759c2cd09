#include "tests/e2e/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

namespace beamline {
namespace {

using Clock = std::chrono::steady_clock;

// Appends what can be read; false at the end.
bool ReadSome(int fd, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t size = read(fd, buffer.data(), buffer.size());
  if (size > 0) text.append(buffer.data(), static_cast<size_t>(size));
  return size > 0;
}

// This process's environment without what tests alone read, of which a server says that it sets
// nothing. Points into it.
std::vector<char*> ChildEnvironment() {
  constexpr std::array<std::string_view, 5> kOfTests = {
      "BEAMLINE_REQUIRE_GPU=", "BEAMLINE_SMALL_CASES=", "BEAMLINE_SOAK_REQUESTS=",
      "BEAMLINE_SOAK_ROUNDS=", "BEAMLINE_TEST_DEVICE="};
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const auto begins = [&](std::string_view name) {
      return std::string_view(*variable).starts_with(name);
    };
    if (std::none_of(kOfTests.begin(), kOfTests.end(), begins)) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

// What tests do not say: servers run beside each other, on one GPU too.
std::vector<std::string> WithFreePorts(std::vector<std::string> arguments) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kDefaults = {
      {{"--listen", "127.0.0.1:0"},
       {"--metrics-listen", "127.0.0.1:0"},
       {"--http-listen", "off"},
       {"--gpu-memory-fraction", "0.2"}}};
  for (const auto& [flag, value] : kDefaults) {
    if (std::ranges::find(arguments, flag) != arguments.end()) continue;
    arguments.insert(arguments.end(), {flag, value});
  }
  return arguments;
}

// What stands between two marks.
std::string Between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  const size_t to = text.find_first_of(end, from + begin.size());
  return text.substr(from + begin.size(), to - from - begin.size());
}

}  // namespace

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& arguments,
                           const std::string& input, int max_open_files) {
  std::array<int, 2> in, out, err;
  if (pipe(in.data()) != 0 || pipe(out.data()) != 0 || pipe(err.data()) != 0) std::abort();
  std::vector<const char*> argv = {program.c_str()};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  const std::vector<char*> environment = ChildEnvironment();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // never outlives the test
    setpgid(0, 0);                     // with what a shell starts
    const auto limit = static_cast<rlim_t>(max_open_files);
    const rlimit limits = {limit, limit};
    if (max_open_files > 0) setrlimit(RLIMIT_NOFILE, &limits);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const auto& ends : {in, out, err}) {
      close(ends[0]);
      close(ends[1]);
    }
    execve(program.c_str(), const_cast<char* const*>(argv.data()), environment.data());
    _exit(127);
  }
  setpgid(pid_, pid_);  // whoever comes first
  for (const int fd : {in[0], out[1], err[1]}) close(fd);
  if (!input.empty() && write(in[1], input.data(), input.size()) < 0) std::abort();
  close(in[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
  for (const int fd : {out_fd_, err_fd_}) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {out_fd_, err_fd_}) {
    if (fd >= 0) close(fd);
  }
}

void ChildProcess::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

bool ChildProcess::Pump() {
  std::array<pollfd, 2> fds = {pollfd{out_fd_, POLLIN, 0}, pollfd{err_fd_, POLLIN, 0}};
  poll(fds.data(), fds.size(), 100);
  const auto read_one = [](const pollfd& ready, int& fd, std::string& text) {
    if (fd < 0 || ready.revents == 0 || ReadSome(fd, text)) return;
    close(fd);
    fd = -1;
  };
  read_one(fds[0], out_fd_, out_);
  read_one(fds[1], err_fd_, err_);
  return out_fd_ >= 0 || err_fd_ >= 0;
}

std::string ChildProcess::ReadLine(std::chrono::seconds timeout) {
  const auto until = Clock::now() + timeout;
  while (out_.find('\n') == std::string::npos && Clock::now() < until && Pump()) {
  }
  return out_.substr(0, out_.find('\n'));
}

int ChildProcess::Wait(std::chrono::seconds timeout) {
  const auto until = Clock::now() + timeout;
  while (Clock::now() < until && Pump()) {
  }
  while (pid_ > 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (Clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return -1;
}

ServerProcess::ServerProcess(const std::vector<std::string>& arguments, int max_open_files)
    : process_(BEAMLINE_SERVER_BINARY, WithFreePorts(arguments), "", max_open_files) {
  start_line_ = process_.ReadLine();
  address_ = Between(start_line_, "serving on ", " :");
  address_ += ":" + Between(start_line_, address_ + ":", " ");
  metrics_url_ = Between(start_line_, "(metrics ", ",)");
  admin_address_ = Between(start_line_, "admin ", ",)");
  http_address_ = Between(start_line_, "http ", ")");
}

std::string ServerProcess::Scrape() const {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(metrics_port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string response;
  const std::string request =
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
    while (ReadSome(fd, response)) {
    }
  }
  close(fd);
  return response;
}

double ServerProcess::Metric(const std::string& series) const {
  const std::string text = Scrape();
  const size_t at = text.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::atof(text.c_str() + at + series.size() + 2);
}

int ServerProcess::PortOf(const std::string& address) {
  return std::atoi(address.c_str() + address.rfind(':') + 1);
}

ServerProcess& SharedServer() {
  // Static, so that it ends with the program; a killed program takes it along.
  static const auto server = std::make_unique<ServerProcess>();
  return *server;
}

}  // namespace beamline
