// A model whose ranks are processes, served by one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "fmt/format.h"
#include "tests/e2e/server_process.h"
#include "tests/rank_door.h"
#include "tests/scratch_path.h"

namespace beamline::rank_processes_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr CallOptions kSoon = {.timeout = seconds(100)};
constexpr int kRanks = 3;

std::string SecretFile(const std::string& name, const std::string& secret) {
  const std::string path = ScratchPath(name);
  std::ofstream(path) << secret << "\n";
  return path;
}

std::vector<std::string> Arguments(const RankDoor& door, int rank, const std::string& secret_file,
                                   int timeout_ms = 60000) {
  return {"--rank-address",
          fmt::format("{}:{}", door.host, door.port),
          "--rank-secret-file",
          secret_file,
          "--rank",
          std::to_string(rank),
          "--rank-timeout-ms",
          std::to_string(timeout_ms),
          "--threads",
          "1",
          "--model",
          fmt::format("write-en={}/models/write-en,device=cpu,tensor_parallel={}",
                      BEAMLINE_SOURCE_DIR, kRanks)};
}

v1::GenerateRequest Request(int number) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("Package: lib" + std::to_string(number) + "\nVersion: 1.0\n");
  request.mutable_limits()->set_max_new_tokens(100);
  request.mutable_limits()->set_ignore_eos(true);
  return request;
}

TEST(RankProcessesE2e, AKilledFollowerIsToldOfAndComesBack) {
  const RankDoor door = DoorFor(kRanks);
  const std::string secret = SecretFile("secret", kRankSecret);
  const auto follow = [&](int rank) {
    return std::make_unique<ChildProcess>(BEAMLINE_SERVER_BINARY, Arguments(door, rank, secret));
  };
  auto one = follow(1);
  const auto two = follow(2);
  ServerProcess front(Arguments(door, 0, secret));
  ASSERT_THAT(front.start_line(), HasSubstr("serving on "));
  Client client({.address = front.address()});
  ASSERT_TRUE(client.Generate(Request(0), kSoon).ok());

  std::vector<std::future<absl::StatusOr<v1::GenerateResponse>>> answers;
  for (int i = 0; i < 30; ++i) {
    answers.push_back(
        std::async(std::launch::async, [&, i] { return client.Generate(Request(i), kSoon); }));
  }
  std::this_thread::sleep_for(milliseconds(30));
  one->Signal(SIGKILL);
  int num_lost = 0;
  for (auto& answer : answers) {
    const auto result = answer.get();
    if (result.ok()) continue;
    ++num_lost;
    EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
  }
  if (num_lost == 0) {  // all had been answered: the next one finds it
    EXPECT_TRUE(absl::IsUnavailable(client.Generate(Request(0), kSoon).status()));
  }
  ChildProcess check(BEAMLINE_SERVER_BINARY, {"--health", front.address()});
  EXPECT_EQ(check.Wait(seconds(15)), 1);

  one = follow(1);
  const auto begin = Clock::now();
  while (!client.Generate(Request(0), kSoon).ok()) {
    ASSERT_LT(Clock::now() - begin, seconds(90));
    std::this_thread::sleep_for(milliseconds(100));
  }
  front.process().Signal(SIGTERM);
  EXPECT_EQ(front.process().Wait(), 0);
  EXPECT_THAT(front.process().err(), HasSubstr("failed: rank 1 at 127."));
  two->Signal(SIGTERM);
  EXPECT_EQ(two->Wait(), 0);
  EXPECT_THAT(two->err() + two->out(), HasSubstr("rank 2 of 3 computes for the rank 0 at "));
}

TEST(RankProcessesE2e, WhoDoesNotComeOrDoesNotBelongIsNamed) {
  const RankDoor door = DoorFor(kRanks);
  const std::string secret = SecretFile("secret", kRankSecret);
  ChildProcess front(BEAMLINE_SERVER_BINARY, Arguments(door, 0, secret, 3000));
  ChildProcess stranger(
      BEAMLINE_SERVER_BINARY,
      Arguments(door, 1, SecretFile("other", "the secret of somebody else"), 30000));
  ChildProcess one(BEAMLINE_SERVER_BINARY, Arguments(door, 1, secret, 500));
  EXPECT_EQ(stranger.Wait(), 1);
  EXPECT_THAT(stranger.err(), HasSubstr("sends rank 1 away: its secret is another one"));
  EXPECT_EQ(front.Wait(), 1);
  EXPECT_THAT(front.err(), HasSubstr("rank 2 of 3 did not come to 127."));
  EXPECT_THAT(front.err(), HasSubstr("its secret is another one"));
  EXPECT_EQ(one.Wait(), 1);  // its front has ended, and no other one comes
  EXPECT_THAT(one.err(), HasSubstr("the front did not come to 127."));
}

}  // namespace
}  // namespace beamline::rank_processes_test
