// The program's own side of its calls, without a server.
#include "client/cli/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/thread_limit.h"

namespace beamline::cli::cli_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct Result {
  int status = 0;
  std::string out, err;
};

Result RunWith(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "beamline");
  std::ostringstream out, err;
  Result result;
  result.status = Run(static_cast<int>(arguments.size()), arguments.data(), {-1, out, err});
  result.out = out.str();
  result.err = err.str();
  return result;
}

TEST(GlobalOptions, AShortTimeoutIsNotNone) {
  GlobalOptions options;
  options.timeout_seconds = 1e-6;
  EXPECT_EQ(options.call().timeout.count(), 1);
  options.timeout_seconds = 1.5;
  EXPECT_EQ(options.call().timeout.count(), 1500);
  options.timeout_seconds = 0;
  EXPECT_EQ(options.call().timeout.count(), 0);
}

TEST(Run, HelpIsForTheCommandThatIsGiven) {
  const Result all = RunWith({"--help"});
  EXPECT_EQ(all.status, 0);
  for (const char* command : {"generate", "translate", "encode", "score", "tokenize", "detokenize",
                              "models", "load", "unload", "health", "Examples:"}) {
    EXPECT_THAT(all.out, HasSubstr(command));
  }
  const Result one = RunWith({"encode", "--help"});
  EXPECT_THAT(one.out, HasSubstr("beamline encode"));
  EXPECT_THAT(one.out, HasSubstr("--pooling"));
  EXPECT_THAT(RunWith({"--version"}).out, StartsWith("beamline "));
}

TEST(Run, WrongUseIsTwoAndOneLine) {
  for (const std::vector<const char*>& arguments : {std::vector<const char*>{},
                                                    {"nothing"},
                                                    {"--address", "nowhere", "health"},
                                                    {"encode", "--pooling", "median", "x"},
                                                    {"encode", "--dimensions", "many", "x"},
                                                    {"generate", "--file", "/", "x"},
                                                    {"generate", "--file", "/"},
                                                    {"generate", "--n", "2", "x"},
                                                    {"generate", "x\xFF"},
                                                    {"score"}}) {
    const Result result = RunWith(arguments);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.err, StartsWith("beamline: "));
    EXPECT_THAT(result.err, HasSubstr(" (see 'beamline --help')\n"));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
}

// What the environment has is not put down to a flag that nobody gave.
TEST(Run, AWrongValueIsNamedAsItWasGiven) {
  setenv("BEAMLINE_ADDRESS", "nowhere", /*replace=*/1);
  setenv("BEAMLINE_TOKEN_FILE", "/nonexistent/token", /*replace=*/1);
  setenv("BEAMLINE_METRICS", "ftp://a", /*replace=*/1);
  const Result address = RunWith({"health"});
  const Result address_of_flag = RunWith({"--address", "elsewhere", "health"});
  const Result token = RunWith({"--address", "127.0.0.1:1", "health"});
  unsetenv("BEAMLINE_ADDRESS");
  unsetenv("BEAMLINE_TOKEN_FILE");
  const Result metrics = RunWith({"top", "--once"});
  const Result metrics_of_flag = RunWith({"top", "--once", "--metrics", "ftp://b"});
  unsetenv("BEAMLINE_METRICS");
  EXPECT_THAT(address.err, StartsWith("beamline: BEAMLINE_ADDRESS is 'nowhere'; accepted: "));
  EXPECT_THAT(address_of_flag.err, StartsWith("beamline: --address is 'elsewhere'; accepted: "));
  EXPECT_THAT(token.err, StartsWith("beamline: BEAMLINE_TOKEN_FILE"));
  EXPECT_THAT(metrics.err, StartsWith("beamline: BEAMLINE_METRICS is 'ftp://a'; accepted: "));
  EXPECT_THAT(metrics_of_flag.err, StartsWith("beamline: --metrics"));
}

// It is refused as the command line is, before anything is asked: the server has no part in it.
TEST(Run, AMetricsAddressThatIsNoneIsAWrongUse) {
  for (const char* nonsense : {"nonsense", "127.0.0.1:50052", "http://127.0.0.1:port/metrics"}) {
    setenv("BEAMLINE_METRICS", nonsense, /*replace=*/1);
    const Result result = RunWith({"top", "--once"});
    unsetenv("BEAMLINE_METRICS");
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, StartsWith(std::string("beamline: BEAMLINE_METRICS is '") + nonsense +
                                       "'; accepted: http://HOST:PORT/PATH"));
  }
}

TEST(Run, ACallThatFailsIsOneAndOneLine) {
  for (const std::vector<const char*>& arguments : {std::vector<const char*>{"models"},
                                                    {"models", "a"},
                                                    {"health"},
                                                    {"generate", "x"},
                                                    {"encode", "x"},
                                                    {"score", "x", "y"},
                                                    {"tokenize", "x"},
                                                    {"detokenize", "1"}}) {
    std::vector<const char*> all = {"--address", "127.0.0.1:1", "--timeout", "5"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result result = RunWith(all);
    EXPECT_EQ(result.status, 1) << arguments[0];
    EXPECT_THAT(result.err, StartsWith("beamline: UNAVAILABLE: ")) << arguments[0];
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

// gRPC would never let it end.
TEST(Run, TooFewThreadsAreOneAndOneLine) {
  const ThreadLimit limit(5);
  const Result result = RunWith({"--address", "127.0.0.1:1", "--json", "health"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, StartsWith("beamline: RESOURCE_EXHAUSTED: the limit of threads (ulimit "
                                     "-u, or pids of a control group) leaves room for 5 more; "));
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  EXPECT_THAT(result.out, StartsWith("{\"error\":{\"code\":8"));
}

}  // namespace
}  // namespace beamline::cli::cli_test
