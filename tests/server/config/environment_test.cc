#include "server/config/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/config/flags.h"
#include "server/config/server_config.h"
#include "tests/scratch_path.h"

namespace beamline::environment_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<CommandLine> ParseIn(const Environment& environment,
                                    std::vector<const char*> arguments = {}) {
  arguments.insert(arguments.begin(), "beamline-server");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data(), environment);
}

std::string ErrorIn(const Environment& environment) {
  return std::string(ParseIn(environment).status().message());
}

// A value of the setting that is not its default.
std::string OtherValue(const Setting& setting) {
  if (setting.is_address) return "127.0.0.2:7";
  const auto& choices = setting.choices;
  if (!choices.empty()) {
    const std::string& choice = choices[ToText(setting) == choices[0] ? 1 : 0];
    return choice.substr(0, choice.find(" to "));  // of a range its begin
  }
  if (std::holds_alternative<std::string*>(setting.value)) return "/a/b";
  if (std::holds_alternative<bool*>(setting.value)) {
    return ToText(setting) == "true" ? "false" : "true";
  }
  return ToText(setting) == "1" ? "2"
         : setting.max <= 1     ? "0.5"
         : setting.max > 2000   ? "1025"
                                : "3";
}

TEST(Environment, SetsEverySettingOfTheTableAndNoOther) {
  ServerConfig defaults;
  std::map<std::string, std::string> before;
  for (const Setting& setting : Settings(defaults)) before[setting.name] = ToText(setting);
  for (const Setting& setting : Settings(defaults)) {
    const std::string value = OtherValue(setting);
    ASSERT_NE(value, before[setting.name]) << setting.name;
    Environment environment = {{VariableName(setting.name), value}};
    // The address of the administrators needs the root, and files of TLS need each other.
    std::set<std::string> needed;
    if (setting.name == "admin_listen") needed = {"model_root"};
    if (setting.name.starts_with("tls_") && setting.name.ends_with("_file")) {
      needed = {"tls_certificate_file", "tls_key_file"};
    }
    needed.erase(setting.name);
    for (const std::string& name : needed) environment[VariableName(name)] = "/a/b";
    auto line = ParseIn(environment);
    ASSERT_TRUE(line.ok()) << line.status();
    for (const Setting& set : Settings(line->config)) {
      if (needed.contains(set.name)) continue;
      EXPECT_EQ(ToText(set), set.name == setting.name ? value : before[set.name])
          << set.name << " after " << setting.name;
    }
  }
}

TEST(Environment, GoesBeforeTheFileAndBehindTheFlags) {
  const std::string file = ScratchPath("environment.yaml");
  std::ofstream(file) << "threads: 1\nwriter_threads: 2\ntokenizer_threads: 3\n"
                         "models: [{name: f, folder: f}]\n";
  const Environment environment = {{"BEAMLINE_CONFIG", file},
                                   {"BEAMLINE_WRITER_THREADS", "12"},
                                   {"BEAMLINE_TOKENIZER_THREADS", "13"}};
  auto line = ParseIn(environment, {"--tokenizer-threads", "23"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.threads, 1);
  EXPECT_EQ(line->config.writer_threads, 12);
  EXPECT_EQ(line->config.tokenizer_threads, 23);
  ASSERT_EQ(line->config.models.size(), 1u);
  EXPECT_EQ(line->config.models[0].name, "f");

  const std::string other = ScratchPath("other.yaml");
  std::ofstream(other) << "threads: 7\n";
  line = ParseIn(environment, {"--config", other.c_str()});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.threads, 7);
  EXPECT_EQ(line->config.tokenizer_threads, 13);
}

TEST(Environment, NamesModelsInPlaceOfTheFilesAndBehindTheFlags) {
  const std::string file = ScratchPath("models.yaml");
  std::ofstream(file) << "models: [{name: f, folder: f}]\n";
  const Environment environment = {{"BEAMLINE_CONFIG", file},
                                   {"BEAMLINE_MODEL", "a=/m/a;b=/m/b,dtype=float16"}};
  auto line = ParseIn(environment);
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->config.models.size(), 2u);
  EXPECT_EQ(line->config.models[0].folder, "/m/a");
  EXPECT_EQ(line->config.models[1].name, "b");
  EXPECT_EQ(line->config.models[1].dtype, DType::kFloat16);
  line = ParseIn(environment, {"--model", "c=/m/c"});
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_EQ(line->config.models.size(), 1u);
  EXPECT_EQ(line->config.models[0].name, "c");
}

TEST(Environment, ErrorsNameTheVariableTheValueAndWhatIsAccepted) {
  EXPECT_EQ(ErrorIn({{"BEAMLINE_THREADS", "many"}}),
            "BEAMLINE_THREADS is 'many'; accepted: 0 to 4096");
  EXPECT_EQ(ErrorIn({{"BEAMLINE_LISTEN", "here"}}),
            "BEAMLINE_LISTEN is 'here'; accepted: host:port");
  EXPECT_EQ(ErrorIn({{"BEAMLINE_METRICS_LISTEN", "on"}}),
            "BEAMLINE_METRICS_LISTEN is 'on'; accepted: host:port, off");
  EXPECT_EQ(ErrorIn({{"BEAMLINE_LOG_LEVEL", "all"}}),
            "BEAMLINE_LOG_LEVEL is 'all'; accepted: debug, info, warn, error, off");
  EXPECT_EQ(ErrorIn({{"BEAMLINE_MODEL", "m=f;"}}),
            "BEAMLINE_MODEL '': accepted: [name=]folder[,setting=value...]");
  EXPECT_EQ(ErrorIn({{"BEAMLINE_MODEL", "m=f,max_sequences=0"}}),
            "BEAMLINE_MODEL 'm=f,max_sequences=0': max_sequences is '0'; accepted: 1 to 65535");
  EXPECT_THAT(ErrorIn({{"BEAMLINE_CONFIG", "/"}}), HasSubstr("BEAMLINE_CONFIG is '/', a folder"));
  EXPECT_THAT(ErrorIn({{"BEAMLINE_CONFIG", "/nonexistent.yaml"}}),
              testing::StartsWith("BEAMLINE_CONFIG is '/nonexistent.yaml'"));
  const std::string file = ScratchPath("wrong.yaml");
  std::ofstream(file) << "thread: 1\n";
  EXPECT_EQ(
      ErrorIn({{"BEAMLINE_CONFIG", file}}),
      "BEAMLINE_CONFIG " + file + ":1: there is no setting 'thread'; did you mean 'threads'?");
}

TEST(Environment, OfAProcessIsReadAsItIs) {
  const char* const variables[] = {
      "PATH=/bin",        "BEAMLINE_THREADS=2", "BEAMLINE_LISTEN=",    "BEAMLINE_MODEL=a=b",
      "BEAMLINE_NOTHING", "BEAMLINE=1",         "XBEAMLINE_THREADS=3", nullptr};
  const Environment environment = ReadEnvironment(variables);
  EXPECT_EQ(environment, (Environment{{"BEAMLINE_THREADS", "2"}, {"BEAMLINE_MODEL", "a=b"}}));
  EXPECT_THAT(ReadEnvironment(nullptr), IsEmpty());
}

TEST(Environment, HealthAsksWhereItSaysThatTheServerListens) {
  const auto line = ParseIn({{"BEAMLINE_LISTEN", "0.0.0.0:7"}}, {"--health"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->health_address, "127.0.0.1:7");
}

TEST(PollStrategy, IsOneThatGrpcCanServeWith) {
  for (const char* const value :
       {static_cast<const char*>(nullptr), "", "all", "epoll1", "poll", "epoll1,poll"}) {
    EXPECT_TRUE(CheckPollStrategy(value).ok());
  }
  for (const char* const value : {"none", "epoll", "epoll1,none", "none,poll", ",", "poll,"}) {
    EXPECT_EQ(CheckPollStrategy(value).message(),
              std::string("the environment variable GRPC_POLL_STRATEGY is '") + value +
                  "'; accepted: all, epoll1, poll, or several of them with commas between");
  }
}

TEST(UnknownVariables, AreNamedWithTheNearestSetting) {
  EXPECT_THAT(UnknownVariables({{"BEAMLINE_THREAD", "2"}}),
              ElementsAre("the environment variable BEAMLINE_THREAD sets nothing; did you mean "
                          "'BEAMLINE_THREADS'?"));
  EXPECT_THAT(UnknownVariables({{"BEAMLINE_PORT", "50051"}}),
              ElementsAre(testing::StartsWith("the environment variable BEAMLINE_PORT sets")));
  EXPECT_THAT(UnknownVariables({{"BEAMLINE_A\nB", "2"}}),
              ElementsAre(testing::Not(HasSubstr("\n"))));
}

TEST(UnknownVariables, AreNoneOfThoseThatAreReadElsewhere) {
  EXPECT_THAT(UnknownVariables({{"BEAMLINE_THREADS", "2"},
                                {"BEAMLINE_CONFIG", "f"},
                                {"BEAMLINE_MODEL", "a=b"},
                                {"BEAMLINE_MODELS", "/models"},
                                {"BEAMLINE_ADDRESS", "a:1"},
                                {"BEAMLINE_METRICS", "nonsense"},  // the client's: it tells
                                {"BEAMLINE_TOKEN_FILE", "f"},
                                {"BEAMLINE_CUDA_MODULE", "f"},
                                {"BEAMLINE_NCCL_LIBRARY", "f"},
                                {"BEAMLINE_PEER_SUMS", "0"},
                                {"BEAMLINE_CUDA_ALGO_CACHE", "f"}}),
              IsEmpty());
}

// What a pod finds in a namespace with Services "beamline" and "beamline-metrics".
TEST(UnknownVariables, AreNoneOfThoseThatKubernetesMakes) {
  const Environment links = {{"BEAMLINE_SERVICE_HOST", "10.0.0.1"},
                             {"BEAMLINE_SERVICE_PORT", "50051"},
                             {"BEAMLINE_SERVICE_PORT_GRPC", "50051"},
                             {"BEAMLINE_PORT", "tcp://10.0.0.1:50051"},
                             {"BEAMLINE_PORT_50051_TCP", "tcp://10.0.0.1:50051"},
                             {"BEAMLINE_PORT_50051_TCP_PROTO", "tcp"},
                             {"BEAMLINE_PORT_50051_TCP_PORT", "50051"},
                             {"BEAMLINE_PORT_50051_TCP_ADDR", "10.0.0.1"},
                             {"BEAMLINE_PORT_53_UDP", "udp://10.0.0.1:53"},
                             {"BEAMLINE_METRICS_SERVICE_HOST", "10.0.0.2"},
                             {"BEAMLINE_METRICS_PORT", "tcp://10.0.0.2:50052"},
                             {"BEAMLINE_METRICS_PORT_50052_TCP_ADDR", "10.0.0.2"}};
  EXPECT_THAT(UnknownVariables(links), IsEmpty());
  EXPECT_TRUE(ParseIn(links).ok());
  for (const char* other :
       {"BEAMLINE_PORT_GRPC", "BEAMLINE_PORT_50051_TCPX", "BEAMLINE_PORT_50051"})
    EXPECT_EQ(UnknownVariables({{other, "tcp"}}).size(), 1u) << other;
}

// A setting must be none of the names that mean something else, or may come of a Service's name.
TEST(Environment, NoSettingHasAVariableThatMeansSomethingElse) {
  ServerConfig config;
  std::vector<std::string> taken = {"BEAMLINE_CONFIG",  "BEAMLINE_MODEL",      "BEAMLINE_MODELS",
                                    "BEAMLINE_ADDRESS", "BEAMLINE_TOKEN_FILE", "BEAMLINE_REVISION",
                                    "BEAMLINE_METRICS"};
  for (const Setting& setting : Settings(config)) {
    const std::string name = VariableName(setting.name);
    EXPECT_THAT(taken, testing::Not(testing::Contains(name)));
    taken.push_back(name);
    for (const char* part : {"_PORT", "_SERVICE_", "_TEST_", "_CUDA_", "_SOAK_", "_STAND_IN_"}) {
      EXPECT_THAT(name, testing::Not(HasSubstr(part)));
    }
  }
}

}  // namespace
}  // namespace beamline::environment_test
