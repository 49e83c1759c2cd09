// A `beamline` that a signal ends: the server hears of it, and what was printed stays.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/recording_server.h"
#include "tests/e2e/server_process.h"

namespace beamline::cli_signals_test {
namespace {

bool Eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return holds();
}

class CliSignals : public testing::TestWithParam<int> {
 protected:
  // Whoever starts the tests may ignore signals, which programs inherit.
  CliSignals() { signal(GetParam(), SIG_DFL); }
};

TEST_P(CliSignals, CancelTheCall) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"generate", "--model", "m", "--no-stream", "t"},
        {"generate", "--model", "m", "--stream", "t"},
        {"translate", "--model", "m", "--file", "-"},
        {"encode", "t"},
        {"score", "--model", "m", "p", "c"}}) {
    RecordingServer server;
    server.Hang();
    std::vector<std::string> arguments = {"--address", server.address(), "--timeout", "0"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    ChildProcess process(BEAMLINE_CLI_BINARY, arguments, "a line\n");
    ASSERT_TRUE(Eventually([&] { return !server.calls().empty(); })) << command[0];
    const bool streams = std::count(command.begin(), command.end(), "--stream") > 0;
    // The first part is written before the signal comes.
    if (streams) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    process.Signal(GetParam());
    EXPECT_EQ(process.Wait(), 128 + GetParam()) << command[0];
    EXPECT_EQ(process.out(), streams ? "<" : "") << command[0];
    EXPECT_TRUE(Eventually([&] { return server.num_cancelled() == 1; })) << command[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Signals, CliSignals, testing::Values(SIGINT, SIGTERM, SIGHUP));

}  // namespace
}  // namespace beamline::cli_signals_test
