// Settings that only a running server shows: what it logs, and its threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"

namespace beamline::settings_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(30)};

std::vector<std::string> WithModel(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--device", "cpu", "--model",
                                     "embed-en=" BEAMLINE_SOURCE_DIR "/models/embed-en"});
  return arguments;
}

// What a server of this level logs about an answered and a refused request, and about its end.
std::string LogOf(const std::string& level) {
  ServerProcess server(WithModel({"--log-level", level}));
  Client client({.address = server.address()});
  v1::EncodeRequest request;
  request.set_request_id("answered");
  request.add_inputs()->set_text("a text editor");
  EXPECT_TRUE(client.Encode(request, kSoon).ok());
  request.set_request_id("refused");
  request.set_dimensions(100000);
  EXPECT_EQ(client.Encode(request, kSoon).status().code(), absl::StatusCode::kInvalidArgument);
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  return server.process().err();
}

TEST(Settings, LogLevelCutsTheLog) {
  for (const char* level : {"warn", "error", "off"}) EXPECT_EQ(LogOf(level), "") << level;
  const std::string info = LogOf("info");
  EXPECT_THAT(info,
              HasSubstr(" info model 'embed-en' computes in float32, weights in bfloat16 on cpu"));
  EXPECT_THAT(info, HasSubstr("request_id=\"refused\" code=INVALID_ARGUMENT"));
  EXPECT_THAT(info, HasSubstr(" info stopped: every request was answered"));
  EXPECT_THAT(info, Not(HasSubstr("\"answered\"")));
  EXPECT_THAT(info, Not(HasSubstr(" debug ")));
  EXPECT_THAT(LogOf("debug"), HasSubstr(" debug request rpc=Encode model=\"embed-en\" "
                                        "request_id=\"answered\" code=OK"));
}

TEST(Settings, TheFirstLineOfTheLogSaysWhichBuildServes) {
  ChildProcess version(BEAMLINE_SERVER_BINARY, {"--version"});
  ASSERT_EQ(version.Wait(), 0);
  ServerProcess server(WithModel({}));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  const std::string& log = server.process().err();
  EXPECT_THAT(log.substr(0, log.find('\n') + 1), testing::EndsWith(" info " + version.out()));
}

TEST(Settings, ComeOfTheEnvironmentToo) {
  const char* const model = "from-environment=" BEAMLINE_SOURCE_DIR "/models/embed-en,device=cpu";
  setenv("BEAMLINE_MODEL", model, 1);
  setenv("BEAMLINE_LOG_LEVEL", "warn", 1);
  setenv("BEAMLINE_LOG_LEVELS", "info", 1);
  setenv("BEAMLINE_PORT", "tcp://10.0.0.1:50051", 1);
  ServerProcess server;
  for (const char* name : {"MODEL", "LOG_LEVEL", "LOG_LEVELS", "PORT"}) {
    unsetenv((std::string("BEAMLINE_") + name).c_str());
  }
  EXPECT_THAT(server.start_line(), testing::EndsWith(": from-environment"));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  // A line, with the level in front.
  EXPECT_THAT(server.process().err(),
              testing::MatchesRegex("[^\n]* warning the environment variable BEAMLINE_LOG_LEVELS "
                                    "sets nothing; did you mean 'BEAMLINE_LOG_LEVEL'\\?\n"));
}

// Each model may have a device of its own; the server's is for those that have none.
TEST(Settings, AModelsDeviceGoesBeforeTheServers) {
  ServerProcess server({"--device", "cuda:4000", "--model",
                        "embed-en=" BEAMLINE_SOURCE_DIR "/models/embed-en,device=cpu"});
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(server.process().err(),
              HasSubstr("model 'embed-en' computes in float32, weights in bfloat16 on cpu"));
  ChildProcess other(BEAMLINE_SERVER_BINARY,
                     {"--device", "cuda:4000", "--listen", "127.0.0.1:0", "--metrics-listen", "off",
                      "--model", "embed-en=" BEAMLINE_SOURCE_DIR "/models/embed-en"});
  EXPECT_EQ(other.Wait(), 1);
  EXPECT_THAT(other.err(), HasSubstr("device is 'cuda:4000'"));
}

TEST(Settings, ComputeThreadsAreAsManyAsAsked) {
  for (const char* threads : {"1", "3"}) {
    ServerProcess server(WithModel({"--threads", threads}));
    server.process().Signal(SIGTERM);
    EXPECT_EQ(server.process().Wait(), 0);
    const std::string words = *threads == '1' ? ", 1 thread," : ", 3 threads,";
    EXPECT_THAT(server.process().err(), HasSubstr(words));
  }
}

// The server tokenizes for Tokenize with the engine's threads.
TEST(Settings, TokenizerAndWriterThreadsAreAsManyAsAsked) {
  const auto threads = [](const char* tokenizer_threads, const char* writer_threads) {
    ServerProcess server(WithModel({"--threads", "1", "--tokenizer-threads", tokenizer_threads,
                                    "--writer-threads", writer_threads}));
    return server.Metric("process_threads");
  };
  constexpr double kNoise = 8;  // gRPC's own threads come and go
  const double few = threads("1", "1");
  EXPECT_GT(few, 0);
  EXPECT_NEAR(threads("41", "1"), few + 40, kNoise);
  EXPECT_NEAR(threads("1", "41"), few + 40, kNoise);
}

}  // namespace
}  // namespace beamline::settings_test
