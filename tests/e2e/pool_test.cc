// A server whose models have two replicas, on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/scratch_path.h"

namespace beamline::pool_test {
namespace {

using testing::HasSubstr;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(120)};

std::string DemoFolder(const std::string& name) {
  return std::string(BEAMLINE_SOURCE_DIR) + "/models/" + name;
}

v1::GenerateRequest Request(int number, int tokens = 12) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("Package: lib" + std::to_string(number) + "\nVersion: 1.0\n");
  if (number % 3 == 1) request.mutable_sampling()->set_seed(static_cast<uint64_t>(number));
  if (number % 3 == 2) request.mutable_beam()->set_width(3);
  request.mutable_limits()->set_max_new_tokens(tokens);
  request.mutable_limits()->set_ignore_eos(true);
  return request;
}

std::string Series(const std::string& metric, int replica) {
  return "beamline_replica_" + metric + "{model=\"write-en\",replica=\"" + std::to_string(replica) +
         "\",device=\"cpu\",version=\"1\"}";
}

class PoolE2e : public testing::Test {
 protected:
  PoolE2e() {
    std::filesystem::create_directories(root_);
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--device", "cpu", "--replicas", "2", "--threads", "2", "--admin-listen", "127.0.0.1:0",
        "--model-root", root_.string(), "--model", "write-en=" + DemoFolder("write-en"), "--model",
        "embed-en=" + DemoFolder("embed-en") + ",replicas=1"});
    client_ = std::make_unique<Client>(ClientOptions{.address = server_->address()});
    admin_ = std::make_unique<Client>(ClientOptions{.address = server_->admin_address()});
  }
  absl::StatusOr<v1::Model> Restart(const std::string& name, int replica, int grace_seconds = 60) {
    v1::RestartReplicaRequest request;
    request.set_name(name);
    request.set_replica(replica);
    request.mutable_grace()->set_seconds(grace_seconds);
    return admin_->RestartReplica(request, kSoon);
  }

  const std::filesystem::path root_ = ScratchPath("pool_e2e");
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Client> admin_;
};

TEST_F(PoolE2e, BothReplicasAnswerAsOneDoes) {
  constexpr int kRequests = 30;
  Client one({.address = SharedServer().address()});
  std::vector<std::future<absl::StatusOr<v1::GenerateResponse>>> answers;
  for (int i = 0; i < kRequests; ++i) {
    answers.push_back(
        std::async(std::launch::async, [this, i] { return client_->Generate(Request(i), kSoon); }));
  }
  for (int i = 0; i < kRequests; ++i) {
    const auto got = answers[static_cast<size_t>(i)].get();
    const auto expected = one.Generate(Request(i), kSoon);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_TRUE(expected.ok()) << expected.status();
    EXPECT_EQ(got->sequences(0).text(), expected->sequences(0).text()) << i;
  }
  for (const int replica : {0, 1}) {
    EXPECT_GT(server_->Metric(Series("steps_total", replica)), 0);
    EXPECT_EQ(server_->Metric(Series("up", replica)), 1);
    EXPECT_EQ(server_->Metric(Series("restarting", replica)), 0);
    EXPECT_EQ(server_->Metric(Series("restarts_total", replica)), 0);
    EXPECT_GE(server_->Metric(Series("expected_wait_seconds", replica)), 0);
  }
  EXPECT_EQ(server_->Metric("beamline_reruns_total{model=\"write-en\"}"), 0);
  const auto models = client_->ListModels(kSoon);
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->models(0).replicas_size(), 2);
  EXPECT_EQ(models->models(0).replicas(1).state(), v1::REPLICA_STATE_UP);
  EXPECT_THAT(models->models(0).replicas(1).description(), HasSubstr("1 thread,"));
  EXPECT_EQ(models->models(1).replicas_size(), 1);  // its own setting
}

TEST_F(PoolE2e, AReplicaIsRestartedWhileTheOtherAnswers) {
  std::atomic<bool> stop = false;
  std::vector<std::future<int>> askers;
  for (int asker = 0; asker < 4; ++asker) {
    askers.push_back(std::async(std::launch::async, [&, asker] {
      int answered = 0;
      for (int i = asker; !stop; i += 4) {
        const auto answer = client_->Generate(Request(i % 40), kSoon);
        EXPECT_TRUE(answer.ok()) << answer.status();
        ++answered;
      }
      return answered;
    }));
  }
  for (const int replica : {0, 1, 0}) {
    const auto model = Restart("write-en", replica);
    EXPECT_TRUE(model.ok()) << model.status();
    EXPECT_TRUE(*client_->Health("write-en", kSoon));
  }
  stop = true;
  for (auto& asker : askers) EXPECT_GT(asker.get(), 0);
  EXPECT_EQ(server_->Metric(Series("restarts_total", 0)), 2);
  EXPECT_EQ(server_->Metric(Series("restarts_total", 1)), 1);
  const auto model = client_->GetModel("write-en", kSoon);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->replicas(0).restarts(), 2);
  EXPECT_EQ(model->replicas(0).state(), v1::REPLICA_STATE_UP);
}

TEST_F(PoolE2e, RestartsThatCannotBeAreRefused) {
  const absl::Status missing = Restart("write-en", 2).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("has no replica 2; it has: 0 to 1"));
  const absl::Status alone = Restart("embed-en", 0).status();
  EXPECT_EQ(alone.code(), absl::StatusCode::kFailedPrecondition) << alone;
  EXPECT_THAT(std::string(alone.message()), HasSubstr("is the only one that can answer"));
  EXPECT_EQ(Restart("nothing", 0).status().code(), absl::StatusCode::kNotFound);
  v1::RestartReplicaRequest request;
  request.set_name("write-en");
  EXPECT_EQ(client_->RestartReplica(request, kSoon).status().code(),
            absl::StatusCode::kPermissionDenied);
}

// What cannot be ends the start, or the load, by name.
TEST_F(PoolE2e, SettingsThatCannotBeAreRefused) {
  const struct {
    std::string settings, text;
  } cases[] = {
      {",replicas=0", "replicas is '0'; accepted: auto, 1 to 64"},
      {",replicas=65", "replicas is '65'; accepted: auto, 1 to 64"},
      {",devices=tpu", "devices is 'tpu'; accepted: a list of cpu, cuda:N"},
      {",devices=cpu,cuda:0", "devices is 'cpu,cuda:0'; accepted: cpu, or GPUs as"},
      {",devices=cuda:1,cuda:1", "devices is 'cuda:1,cuda:1'; accepted: cpu, or GPUs as"},
      {",device=cpu,devices=cuda:0",
       "devices is 'cuda:0'; accepted: no list where device is given"},
      {",replicas=3,devices=cuda:0,cuda:1",
       "replicas is '3'; accepted: 1 to 2, the GPUs that devices names"},
      {",device=cuda,replicas=2", "replicas is '2'; accepted: 1, as device is 'cuda'"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.settings);
    ChildProcess server(BEAMLINE_SERVER_BINARY,
                        {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--model",
                         "m=" + DemoFolder("write-en") + one.settings});
    EXPECT_GT(server.Wait(), 0);
    EXPECT_THAT(server.err(), HasSubstr(one.text));
  }
}

}  // namespace
}  // namespace beamline::pool_test
