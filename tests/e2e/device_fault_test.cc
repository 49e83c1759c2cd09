// What the server does when a model's device breaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/scratch_path.h"

namespace beamline::device_fault_test {
namespace {

using testing::HasSubstr;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};
constexpr char kFault[] = "model 'broken' cannot answer: its device";

// Two models on breaking_device.cc, of which the one named "broken" breaks after ten steps of
// serving.
class BreakingServer {
 public:
  // `settings`: of both models, each with a comma before it.
  explicit BreakingServer(const std::vector<std::string>& arguments,
                          const std::string& settings = "")
      : server_(WithModels(arguments, settings)), client_({.address = server_.address()}) {
    std::ofstream(BreakFile()).put('\n');
    for (int i = 0; i < 1000 && std::filesystem::exists(BreakFile()); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_FALSE(std::filesystem::exists(BreakFile())) << "the device does not count";
  }

  ServerProcess& server() { return server_; }
  Client& client() { return client_; }

  static v1::GenerateRequest Request(const std::string& model, int tokens) {
    v1::GenerateRequest request;
    request.set_model(model);
    request.mutable_prompt()->set_text("Package: ");
    request.mutable_greedy();
    request.mutable_limits()->set_max_new_tokens(tokens);
    request.mutable_limits()->set_ignore_eos(true);
    return request;
  }
  void ExpectUnavailable() {
    const absl::Status status = client_.Generate(Request("broken", 60), kSoon).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kFault));
    EXPECT_THAT(std::string(status.message()), HasSubstr("the late device broke"));
  }
  // The log has told of the fault once, whatever the number of requests.
  void ExpectOneErrorLine() {
    const std::string& log = server_.process().err();
    const size_t line = log.find(kFault);
    ASSERT_NE(line, std::string::npos) << log;
    EXPECT_EQ(log.find(kFault, line + 1), std::string::npos) << log;
  }

 private:
  static std::string BreakFile() { return ScratchPath("break"); }
  static std::vector<std::string> WithModels(std::vector<std::string> arguments,
                                             const std::string& settings) {
    const std::string driver = std::filesystem::path(BEAMLINE_BREAKING_DEVICE).parent_path();
    setenv("LD_LIBRARY_PATH", driver.c_str(), 1);
    setenv("BEAMLINE_CUDA_MODULE", BEAMLINE_BREAKING_DEVICE, 1);
    std::filesystem::remove(BreakFile());
    setenv("BEAMLINE_TEST_BREAK_FILE", BreakFile().c_str(), 1);
    const std::string folder = std::string(BEAMLINE_SOURCE_DIR) + "/models/write-en";
    for (const std::string name : {"broken", "whole"}) {
      arguments.push_back("--model");
      // In float32, which the CPU that stands for the GPU computes everywhere.
      arguments.push_back(name + "=" + folder + ",max_batch_tokens=512,dtype=float32" + settings);
    }
    arguments.insert(arguments.end(), {"--device", "cuda"});
    return arguments;
  }

  ServerProcess server_;
  Client client_;
};

TEST(DeviceFault, OtherModelsFinishThenTheServerEndsWithStatus1) {
  BreakingServer breaking({});
  std::promise<void> started;
  int messages = 0;
  auto whole = std::async(std::launch::async, [&] {
    return breaking.client().GenerateStream(
        BreakingServer::Request("whole", 400),
        [&](const v1::GenerateStreamResponse&) {
          if (++messages == 1) started.set_value();
          return true;
        },
        kSoon);
  });
  ASSERT_EQ(started.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  breaking.ExpectUnavailable();
  const auto result = whole.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->usage().generated_tokens(), 400);
  EXPECT_EQ(breaking.server().process().Wait(), 1);
  breaking.ExpectOneErrorLine();
  EXPECT_THAT(breaking.server().process().err(), HasSubstr("was warmed up: "));  // as on a GPU
}

TEST(DeviceFault, StaysWhenToldTo) {
  BreakingServer breaking({"--on-device-fault", "stay"});
  Client& client = breaking.client();
  for (const char* name : {"", "broken", "whole"}) EXPECT_TRUE(*client.Health(name, kSoon)) << name;
  EXPECT_THAT(
      breaking.server().Scrape(),
      HasSubstr(
          "beamline_replica_up{model=\"broken\",replica=\"0\",device=\"cpu\",version=\"1\"} 1\n"));
  for (int i = 0; i < 3; ++i) breaking.ExpectUnavailable();
  EXPECT_FALSE(*client.Health("", kSoon));
  EXPECT_FALSE(*client.Health("broken", kSoon));
  EXPECT_TRUE(*client.Health("whole", kSoon));
  const std::string metrics = breaking.server().Scrape();
  EXPECT_THAT(
      metrics,
      HasSubstr(
          "beamline_replica_up{model=\"broken\",replica=\"0\",device=\"cpu\",version=\"1\"} 0\n"));
  EXPECT_THAT(
      metrics,
      HasSubstr(
          "beamline_replica_up{model=\"whole\",replica=\"0\",device=\"cpu\",version=\"1\"} 1\n"));
  const auto answer = client.Generate(BreakingServer::Request("whole", 20), kSoon);
  EXPECT_TRUE(answer.ok()) << answer.status();
  breaking.server().process().Signal(SIGTERM);
  EXPECT_EQ(breaking.server().process().Wait(), 0);
  breaking.ExpectOneErrorLine();
}

// One of two GPUs fails: its requests are begun again on the other one, the model stays SERVING,
// and the server goes on, whatever it does when the last one fails.
TEST(DeviceFault, TheOtherReplicaAnswers) {
  BreakingServer breaking({}, ",devices=cuda:0,cuda:1");
  Client& client = breaking.client();
  std::vector<std::future<absl::StatusOr<v1::GenerateResponse>>> answers;
  for (int i = 0; i < 24; ++i) {
    answers.push_back(std::async(std::launch::async, [&] {
      return client.Generate(BreakingServer::Request("broken", 30), kSoon);
    }));
  }
  std::string text;
  for (auto& answer : answers) {
    const auto got = answer.get();
    ASSERT_TRUE(got.ok()) << got.status();
    if (text.empty()) text = got->sequences(0).text();
    EXPECT_EQ(got->sequences(0).text(), text);
  }
  const auto series = [](const std::string& metric, int replica) {
    return "beamline_replica_" + metric + "{model=\"broken\",replica=\"" + std::to_string(replica) +
           "\",device=\"cpu\",version=\"1\"}";
  };
  EXPECT_EQ(breaking.server().Metric(series("up", 0)), 0);
  EXPECT_EQ(breaking.server().Metric(series("up", 1)), 1);
  EXPECT_EQ(breaking.server().Metric(series("restarts_total", 0)), 0);
  EXPECT_GE(breaking.server().Metric("beamline_reruns_total{model=\"broken\"}"), 1);
  for (const char* name : {"", "broken", "whole"}) EXPECT_TRUE(*client.Health(name, kSoon)) << name;
  const auto model = client.GetModel("broken", kSoon);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->replicas_size(), 2);
  EXPECT_EQ(model->replicas(0).state(), v1::REPLICA_STATE_FAILED);
  EXPECT_EQ(model->replicas(1).state(), v1::REPLICA_STATE_UP);
  breaking.server().process().Signal(SIGTERM);
  EXPECT_EQ(breaking.server().process().Wait(), 0);
  EXPECT_THAT(breaking.server().process().err(),
              HasSubstr("model 'broken' version 1: replica 0 has failed, and stays so"));
}

}  // namespace
}  // namespace beamline::device_fault_test
