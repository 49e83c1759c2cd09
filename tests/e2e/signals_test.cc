// How the program ends: what signals do while it loads and while it serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "client/client.h"
#include "tests/e2e/server_process.h"

namespace beamline::signals_test {
namespace {

using testing::HasSubstr;
using testing::Not;

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

// A server that computes for minutes what one stream of requests has asked for.
class BusyServer {
 public:
  explicit BusyServer(const std::string& drain_timeout_ms)
      : server_({"--model", "write-en=" + DemoModel("write-en"), "--drain-timeout-ms",
                 drain_timeout_ms}),
        client_({.address = server_.address()}) {
    v1::GenerateRequest request;
    request.mutable_prompt()->set_text("Package: ");
    request.mutable_sampling()->set_num_sequences(64);
    request.mutable_limits()->set_max_new_tokens(500);
    request.mutable_limits()->set_ignore_eos(true);
    answers_ = std::async(std::launch::async, [this, request] {
      const std::vector<v1::GenerateRequest> many(200, request);
      return client_.GenerateMany(many, {.timeout = std::chrono::seconds(60)});
    });
    const auto until = Now() + std::chrono::seconds(30);
    while (server_.Metric("beamline_running_sequences{model=\"write-en\"}") < 1) {
      if (Now() > until) ADD_FAILURE() << "nothing runs";
      if (Now() > until) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  ChildProcess& process() { return server_.process(); }
  // Whether the first signal has arrived: the server is no more what a balancer sends calls to.
  bool BecomesNotServing() const {
    Client other({.address = server_.address()});
    const auto until = Now() + std::chrono::seconds(10);
    while (Now() < until) {
      const auto health = other.Health("", kSoon);
      if (health.ok() && !*health) return true;
    }
    return false;
  }
  void ExpectThatTheRestFailed() {
    const auto answers = answers_.get();
    ASSERT_FALSE(answers.empty());
    EXPECT_FALSE(answers.back().ok());
  }

 private:
  static std::chrono::steady_clock::time_point Now() { return std::chrono::steady_clock::now(); }

  ServerProcess server_;
  Client client_;
  std::future<std::vector<absl::StatusOr<v1::GenerateResponse>>> answers_;
};

TEST(Signals, DrainTimeoutCancelsWhatTakesTooLong) {
  constexpr std::chrono::milliseconds kDrain{700};
  BusyServer server("700");
  const auto begin = std::chrono::steady_clock::now();
  server.process().Signal(SIGINT);
  EXPECT_EQ(server.process().Wait(std::chrono::seconds(20)), 0);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, kDrain);
  // A step that runs, and the time to close; the rest is for a loaded machine.
  EXPECT_LT(took, kDrain + std::chrono::milliseconds(3000));
  EXPECT_THAT(server.process().err(), HasSubstr("finishing what runs, at most 700 ms"));
  EXPECT_THAT(server.process().err(), HasSubstr("the drain timeout cancelled"));
  server.ExpectThatTheRestFailed();
}

TEST(Signals, SecondSignalEndsAtOnce) {
  BusyServer server("60000");
  server.process().Signal(SIGTERM);
  ASSERT_TRUE(server.BecomesNotServing());
  const auto begin = std::chrono::steady_clock::now();
  server.process().Signal(SIGINT);
  EXPECT_EQ(server.process().Wait(std::chrono::seconds(20)), 128 + SIGINT);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3000));
  EXPECT_THAT(server.process().err(), Not(HasSubstr("stopped")));
  server.ExpectThatTheRestFailed();
}

// Clients that know nothing of the end repeat what is UNAVAILABLE elsewhere, and nothing else: at
// the address of all, and at that of operators.
class StoppingServer : public testing::TestWithParam<bool> {};

TEST_P(StoppingServer, TellsWhoeverAsksToGoElsewhere) {
  const bool admin = GetParam();
  const std::string models = std::string(BEAMLINE_SOURCE_DIR) + "/models";
  for (int round = 0; round < 4; ++round) {
    std::vector<std::string> arguments = {"--model", "embed-en=" + DemoModel("embed-en")};
    if (admin)
      arguments.insert(arguments.end(), {"--admin-listen", "127.0.0.1:0", "--model-root", models});
    ServerProcess server(arguments);
    std::vector<std::future<absl::StatusCode>> ends;
    for (int i = 0; i < 24; ++i) {
      ends.push_back(std::async(std::launch::async, [&server, admin] {
        Client client({.address = admin ? server.admin_address() : server.address()});
        v1::TokenizeRequest request;
        request.set_model("embed-en");
        request.set_text("a mail server");
        const auto ask = [&] {
          return admin ? client.ListModels(kSoon).status().code()
                       : client.Tokenize(request, kSoon).status().code();
        };
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        int after_the_end = 0;
        while (std::chrono::steady_clock::now() < until) {
          const absl::StatusCode code = ask();
          if (code != absl::StatusCode::kOk && code != absl::StatusCode::kUnavailable) return code;
          if (code == absl::StatusCode::kUnavailable && ++after_the_end == 3000) break;
        }
        return absl::StatusCode::kOk;
      }));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    server.process().Signal(SIGTERM);
    EXPECT_EQ(server.process().Wait(), 0);
    for (auto& end : ends) EXPECT_EQ(end.get(), absl::StatusCode::kOk);
  }
}

INSTANTIATE_TEST_SUITE_P(Signals, StoppingServer, testing::Bool());

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
  std::vector<std::string> arguments = {"--listen", "127.0.0.1:0",   "--metrics-listen",
                                        "off",      "--http-listen", "off"};
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
}  // namespace beamline::signals_test
