// `beamline-server --health`: status 0 for a server that is SERVING, 1 for all others, soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "fmt/format.h"
#include "server/net/unique_fd.h"
#include "server/process/loading_mark.h"
#include "tests/e2e/server_process.h"

namespace beamline::health_flag_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Takes connections and says nothing.
class SilentListener {
 public:
  SilentListener() {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address_), size), 0);
    EXPECT_EQ(listen(fd_.get(), 8), 0);
    EXPECT_EQ(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address_), &size), 0);
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", ntohs(address_.sin_port)); }
  UniqueFd Accept() const { return UniqueFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  UniqueFd fd_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address_{};
};

struct Check {
  int status = 0;
  std::string out;
  std::string err;
};

Check RunCheck(const std::vector<std::string>& arguments) {
  ChildProcess process(BEAMLINE_SERVER_BINARY, arguments);
  // Three seconds for an answer; the rest is for a loaded machine.
  const int status = process.Wait(std::chrono::seconds(15));
  return {status, process.out(), process.err()};
}

void ExpectFailure(const Check& check, const std::string& text) {
  EXPECT_EQ(check.status, 1);
  EXPECT_EQ(check.out, "");
  EXPECT_THAT(check.err, StartsWith("beamline-server: "));
  EXPECT_THAT(check.err, HasSubstr(text));
  EXPECT_EQ(check.err.find('\n'), check.err.size() - 1) << check.err;
}

TEST(HealthFlag, AServerThatServes) {
  const Check check = RunCheck({"--health", SharedServer().address()});
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_EQ(check.out, "SERVING\n");
  EXPECT_EQ(check.err, "");
}

TEST(HealthFlag, AsksWhereTheSettingsSayThatItListens) {
  const Check check =
      RunCheck({"--health", "--listen", fmt::format("0.0.0.0:{}", SharedServer().port())});
  EXPECT_EQ(check.status, 0) << check.err;
  EXPECT_EQ(check.out, "SERVING\n");
}

TEST(HealthFlag, PassesProxiesBy) {
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const Check check = RunCheck({"--health", SharedServer().address()});
  unsetenv("http_proxy");
  EXPECT_EQ(check.status, 0) << check.err;
}

TEST(HealthFlag, AServerThatStops) {
  ServerProcess server({"--model", "write-en=" BEAMLINE_SOURCE_DIR "/models/write-en"});
  Client client({.address = server.address()});
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("Package: ");
  request.mutable_sampling()->set_num_sequences(64);
  request.mutable_limits()->set_max_new_tokens(500);
  request.mutable_limits()->set_ignore_eos(true);
  const std::vector<v1::GenerateRequest> many(200, request);
  auto answers = std::async(std::launch::async, [&] {
    return client.GenerateMany(many, {.timeout = std::chrono::seconds(60)});
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (server.Metric("beamline_running_sequences{model=\"write-en\"}") < 1 &&
         std::chrono::steady_clock::now() < until) {
  }
  server.process().Signal(SIGTERM);
  Check check;
  do {
    check = RunCheck({"--health", server.address()});
  } while (check.status == 0 && std::chrono::steady_clock::now() < until);
  EXPECT_EQ(check.status, 1);
  EXPECT_EQ(check.out, "NOT_SERVING\n");
  EXPECT_EQ(check.err, "");
  server.process().Signal(SIGKILL);
  EXPECT_FALSE(answers.get().back().ok());
}

TEST(HealthFlag, NobodyListens) {
  ExpectFailure(RunCheck({"--health", "127.0.0.1:1"}), "no health from 127.0.0.1:1: UNAVAILABLE");
}

// A server that does not listen yet is told from one that has ended.
TEST(HealthFlag, AServerThatLoads) {
  const std::string listening = SharedServer().address();
  std::string address;
  {
    const SilentListener unused;  // whose port nothing listens at when it is gone
    address = unused.address();
  }
  {
    const LoadingMark mark("0.0.0.0:" + address.substr(address.rfind(':') + 1));
    const Check check = RunCheck({"--health", address});
    EXPECT_EQ(check.status, 1);
    EXPECT_EQ(check.out, "LOADING\n");
    EXPECT_EQ(check.err, "");
    EXPECT_TRUE(IsLoading(address));
    const LoadingMark second(address);  // of one that will not get the port
  }
  ExpectFailure(RunCheck({"--health", address}), "no health from " + address + ": UNAVAILABLE");
  EXPECT_FALSE(IsLoading(address));
  EXPECT_FALSE(IsLoading(listening));
  EXPECT_FALSE(IsLoading("127.0.0.1:0"));
  EXPECT_FALSE(IsLoading("off"));
}

// The mark is there while models are read, and goes with the process.
TEST(HealthFlag, AServerWhoseModelsTakeLong) {
  std::string address;
  {
    const SilentListener unused;
    address = unused.address();
  }
  std::vector<std::string> arguments = {"--listen", address, "--metrics-listen", "off"};
  for (int i = 0; i < 40; ++i) {
    arguments.insert(arguments.end(),
                     {"--model", fmt::format("m{}={}/models/write-en,cache_bytes=1048576", i,
                                             BEAMLINE_SOURCE_DIR)});
  }
  ChildProcess server(BEAMLINE_SERVER_BINARY, arguments);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!IsLoading(address) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(RunCheck({"--health", address}).out, "LOADING\n");
  server.Signal(SIGKILL);
  server.Wait(std::chrono::seconds(15));
  EXPECT_FALSE(IsLoading(address));
}

TEST(HealthFlag, ASilentListener) {
  const SilentListener listener;
  ExpectFailure(RunCheck({"--health", listener.address()}), "no health from " + listener.address());
}

TEST(HealthFlag, AListenerThatSpeaksAnotherProtocol) {
  ExpectFailure(RunCheck({"--health", fmt::format("127.0.0.1:{}", SharedServer().metrics_port())}),
                "no health from 127.0.0.1:");
}

TEST(HealthFlag, AWrongAddress) {
  const Check check = RunCheck({"--health", "nowhere"});
  EXPECT_EQ(check.status, 2);
  EXPECT_EQ(check.err,
            "beamline-server: --health is 'nowhere'; accepted: host:port, as 127.0.0.1:50051\n");
}

// A supervisor that gives up must not read it as health.
TEST(HealthFlag, ASignalIsNoHealth) {
  const SilentListener listener;
  ChildProcess process(BEAMLINE_SERVER_BINARY, {"--health", listener.address()});
  const UniqueFd connection = listener.Accept();
  process.Signal(SIGTERM);  // now that it waits for the answer
  EXPECT_EQ(process.Wait(std::chrono::seconds(10)), 128 + SIGTERM);
}

}  // namespace
}  // namespace beamline::health_flag_test
