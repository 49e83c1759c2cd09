#include "tests/e2e/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <regex>
#include <thread>

namespace beamline::e2e {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Starts a program with its output on the given descriptors. The child dies with this process.
pid_t Start(const std::vector<std::string>& command, int out, int err) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execv(arguments[0], arguments.data());
  _exit(127);
}

int ExitStatus(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The status, or -1 when the process still runs after `timeout`.
int WaitFor(pid_t pid, milliseconds timeout) {
  const auto deadline = SteadyClock::now() + timeout;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (SteadyClock::now() > deadline) return -1;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return ExitStatus(status);
}

std::string ReadAll(FILE* file) {
  std::string text;
  std::rewind(file);
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), file)) {
    text.append(buffer.data(), count);
  }
  std::fclose(file);
  return text;
}

}  // namespace

Finished RunProgram(const std::vector<std::string>& command, std::chrono::seconds timeout) {
  FILE* out = std::tmpfile();
  FILE* err = std::tmpfile();
  const pid_t pid = Start(command, fileno(out), fileno(err));
  Finished finished;
  finished.status = WaitFor(pid, timeout);
  if (finished.status < 0) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    ADD_FAILURE() << command[0] << " did not end within " << timeout.count() << " s";
  }
  finished.out = ReadAll(out);
  finished.err = ReadAll(err);
  return finished;
}

ServerProcess::ServerProcess(const std::vector<std::string>& arguments) {
  std::array<int, 2> pipe_ends;
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) std::abort();
  std::vector<std::string> command = {BEAMLINE_SERVER_BINARY, "--listen", "127.0.0.1:0",
                                      "--metrics-listen", "127.0.0.1:0"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  pid_ = Start(command, pipe_ends[1], STDERR_FILENO);
  close(pipe_ends[1]);
  out_ = pipe_ends[0];

  // The one line that says where it serves.
  std::string line;
  const auto deadline = SteadyClock::now() + std::chrono::seconds(60);
  while (line.find('\n') == std::string::npos && SteadyClock::now() < deadline) {
    pollfd readable = {out_, POLLIN, 0};
    if (poll(&readable, 1, 100) <= 0) continue;
    std::array<char, 512> buffer;
    const ssize_t count = read(out_, buffer.data(), buffer.size());
    if (count <= 0) break;
    line.append(buffer.data(), static_cast<size_t>(count));
  }
  std::smatch match;
  if (!std::regex_search(line, match, std::regex(R"(serving on (\S+) \(metrics (\S+)\))"))) {
    ADD_FAILURE() << "the server said: " << line;
    return;
  }
  address_ = match[1];
  metrics_url_ = match[2];
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(out_);
}

void ServerProcess::Signal(int signal) { kill(pid_, signal); }

int ServerProcess::Wait(std::chrono::seconds timeout) {
  const int status = WaitFor(pid_, timeout);
  if (status >= 0) pid_ = -1;
  return status;
}

int64_t ServerProcess::ReadStatus(const std::string& field) const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1));
  }
  return -1;
}

int64_t ServerProcess::ResidentKiB() const { return ReadStatus("VmRSS"); }
int ServerProcess::NumThreads() const { return static_cast<int>(ReadStatus("Threads")); }

}  // namespace beamline::e2e
