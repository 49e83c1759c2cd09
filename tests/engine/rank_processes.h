// Models whose ranks are processes, under a test: the front in the test's own, the followers that
// program with arguments, which its main hands to RunFollower.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/engine.h"
#include "engine/api/follower.h"
#include "tests/rank_door.h"

namespace beamline {

inline ModelOptions OnCpu(const std::string& name, int num_ranks, int num_stages = 1) {
  ModelOptions options;
  options.name = name;
  options.folder = std::string(BEAMLINE_SOURCE_DIR) + "/models/" + name;
  options.device = "cpu";
  options.tensor_parallel = num_ranks;
  options.pipeline_parallel = num_stages;
  return options;
}

inline EngineOptions AsProcess(const ModelOptions& model, const RankDoor& door, int rank = 0) {
  EngineOptions options;
  options.models = {model};
  options.num_threads = 1;
  options.processes = {.host = door.host,
                       .port = door.port,
                       .rank = rank,
                       .secret = door.secret,
                       .time_limit = std::chrono::seconds(60)};
  return options;
}

// A follower as a process: this program with its place.
class FollowerProcess {
 public:
  FollowerProcess(const ModelOptions& model, const RankDoor& door, int rank) {
    std::vector<std::string> arguments = {"follower",
                                          model.name,
                                          model.folder,
                                          model.dtype.has_value() ? Name(*model.dtype) : "auto",
                                          std::to_string(model.tensor_parallel),
                                          std::to_string(model.pipeline_parallel),
                                          std::to_string(rank),
                                          door.host,
                                          std::to_string(door.port)};
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&id_, "/proc/self/exe", nullptr, nullptr, argv.data(), environ), 0);
  }
  FollowerProcess(FollowerProcess&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  FollowerProcess& operator=(FollowerProcess&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~FollowerProcess() { Kill(); }
  void Kill() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
    id_ = 0;
  }
  bool is_running() const {
    siginfo_t ended = {};
    return id_ > 0 &&
           waitid(P_PID, static_cast<id_t>(id_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  }
  int Wait() {
    int status = 0;
    waitpid(id_, &status, 0);
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t id_ = 0;
};

// A front in this process, and its followers.
struct Processes {
  explicit Processes(const ModelOptions& of) : model(of), door(DoorFor(of.num_ranks())) {
    for (int rank = 1; rank < door.size; ++rank) followers.emplace_back(model, door, rank);
    auto created = Engine::Create(AsProcess(model, door));
    EXPECT_TRUE(created.ok()) << created.status();
    if (created.ok()) engine = *std::move(created);
  }

  const ModelOptions model;
  const RankDoor door;
  std::vector<FollowerProcess> followers;
  std::unique_ptr<Engine> engine;
};

inline int RunFollower(char** arguments) {
  ModelOptions model;
  model.name = arguments[1];
  model.folder = arguments[2];
  if (std::string(arguments[3]) == "bfloat16") model.dtype = DType::kBFloat16;
  model.device = "cpu";
  model.tensor_parallel = std::atoi(arguments[4]);
  model.pipeline_parallel = std::atoi(arguments[5]);
  const RankDoor door = {.host = arguments[7],
                         .port = std::atoi(arguments[8]),
                         .size = model.num_ranks(),
                         .secret = kRankSecret};
  const absl::Status status =
      FollowFronts(AsProcess(model, door, std::atoi(arguments[6])), [](const std::string&) {});
  return status.ok() ? 0 : 1;
}

// Whether these are the arguments of a follower.
inline bool IsFollower(int argc, char** argv) {
  return argc == 9 && std::string(argv[0]) == "follower";
}

}  // namespace beamline
