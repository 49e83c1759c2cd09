// How the program ends: what signals do while it loads and while it serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "client/client.h"
#include "tests/e2e/server_process.h"

namespace beamline {
namespace {

using testing::HasSubstr;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};

std::string DemoModel(const std::string& name) {
  return std::string(BEAMLINE_SOURCE_DIR) + "/models/" + name;
}

// Whoever starts the tests may ignore signals, which programs inherit.
class EndingSignal : public testing::TestWithParam<int> {
 protected:
  EndingSignal() { signal(GetParam(), SIG_DFL); }
};

// SIGHUP, too: there is nothing to be read anew, and a closed terminal ends no request.
TEST_P(EndingSignal, FinishesARunningStream) {
  ServerProcess server({"--model", "write-en=" + DemoModel("write-en")});
  Client client({.address = server.address()});
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("Package: ");
  request.mutable_sampling()->set_num_sequences(16);
  request.mutable_limits()->set_max_new_tokens(400);
  request.mutable_limits()->set_ignore_eos(true);
  std::promise<void> started;
  int messages = 0;
  auto end = std::async(std::launch::async, [&] {
    return client.GenerateStream(
        request,
        [&](const v1::GenerateStreamResponse&) {
          if (++messages == 1) started.set_value();
          return true;
        },
        kSoon);
  });
  ASSERT_EQ(started.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  server.process().Signal(GetParam());
  const auto result = end.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->usage().generated_tokens(), 16 * 400);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(server.process().err(), HasSubstr("every request was answered"));
}

INSTANTIATE_TEST_SUITE_P(Signals, EndingSignal, testing::Values(SIGTERM, SIGINT, SIGHUP));

// With connections, too, and whenever the signal comes.
TEST(Signals, AnIdleServerStopsAtOnce) {
  for (const int wait_ms : {0, 700}) {
    ServerProcess server({"--model", "write-en=" + DemoModel("write-en")});
    Client client({.address = server.address()});
    ASSERT_TRUE(client.Health("", kSoon).ok());
    EXPECT_THAT(server.Scrape(), HasSubstr("beamline_replica_up"));
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    const auto begin = std::chrono::steady_clock::now();
    server.process().Signal(SIGTERM);
    EXPECT_EQ(server.process().Wait(), 0);
    // It takes some 100 ms; the rest is for a loaded machine.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  }
}

TEST(Signals, DrainTimeoutCancelsWhatTakesTooLong) {
  ServerProcess server(
      {"--model", "write-en=" + DemoModel("write-en"), "--drain-timeout-ms", "50"});
  Client client({.address = server.address()});
  std::atomic<bool> stop{false};
  std::atomic<int> answers{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      v1::GenerateRequest request;
      request.mutable_prompt()->set_text("Package: ");
      request.mutable_sampling()->set_num_sequences(32);
      request.mutable_limits()->set_max_new_tokens(500);
      request.mutable_limits()->set_ignore_eos(true);
      while (!stop) {
        const auto answer = client.Generate(request, kSoon);
        if (!answer.ok()) break;
        ++answers;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto begin = std::chrono::steady_clock::now();
  server.process().Signal(SIGINT);
  EXPECT_EQ(server.process().Wait(std::chrono::seconds(20)), 0);
  // The 50 ms, a step that runs, and the time to close; the rest is for a loaded machine.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
  EXPECT_THAT(server.process().err(), HasSubstr("the drain timeout cancelled"));
  stop = true;
  for (std::thread& thread : clients) thread.join();
}

TEST(Signals, SecondSignalEndsAtOnce) {
  ServerProcess server({"--model", "write-en=" + DemoModel("write-en")});
  Client client({.address = server.address()});
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("Package: ");
  request.mutable_sampling()->set_num_sequences(64);
  request.mutable_limits()->set_max_new_tokens(500);
  request.mutable_limits()->set_ignore_eos(true);
  auto answer = std::async(std::launch::async, [&] { return client.Generate(request, kSoon); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server.process().Signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  server.process().Signal(SIGTERM);
  const int status = server.process().Wait(std::chrono::seconds(20));
  EXPECT_TRUE(status == 128 + SIGTERM || status == 0) << status;  // 0: it had finished already
  static_cast<void>(answer.get());
}

// Whether the process handles SIGTERM by now.
bool AwaitsSignals(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("SigBlk:", 0) == 0) {
      return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
    }
  }
  return false;
}

TEST_P(EndingSignal, WhileLoadingEndsAtOnce) {
  std::vector<std::string> arguments = {"--listen", "127.0.0.1:0", "--metrics-listen", "off"};
  for (int i = 0; i < 8; ++i) {  // for seconds
    arguments.insert(arguments.end(),
                     {"--model", "m" + std::to_string(i) + "=" + DemoModel("translate-en-de") +
                                     ",warm_up=true"});
  }
  ChildProcess process(BEAMLINE_SERVER_BINARY, arguments);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!AwaitsSignals(process.pid()) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto begin = std::chrono::steady_clock::now();
  process.Signal(GetParam());
  EXPECT_EQ(process.Wait(std::chrono::seconds(20)), 0) << process.err();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(1500));
  EXPECT_EQ(process.out(), "");
  EXPECT_THAT(process.err(), HasSubstr("info stopped before it served"));
}

TEST(Signals, HangUpStaysIgnoredUnderNohup) {
  signal(SIGHUP, SIG_IGN);
  ServerProcess server({"--model", "embed-en=" + DemoModel("embed-en")});
  signal(SIGHUP, SIG_DFL);
  server.process().Signal(SIGHUP);
  EXPECT_EQ(server.process().Wait(std::chrono::seconds(1)), -1);
  Client client({.address = server.address()});
  EXPECT_TRUE(client.Health("", kSoon).value_or(false));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
}

}  // namespace
}  // namespace beamline
