// How the program starts, fails to start, and ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "client/client.h"
#include "tests/e2e/server_process.h"

namespace beamline {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};

std::string DemoModel(const std::string& name) {
  return std::string(BEAMLINE_SOURCE_DIR) + "/models/" + name;
}

// Runs the server with wrong arguments: it ends with `status` and one line.
std::string ExpectFailure(const std::vector<std::string>& arguments, int status) {
  ChildProcess process(BEAMLINE_SERVER_BINARY, arguments);
  EXPECT_EQ(process.Wait(), status) << process.err();
  EXPECT_EQ(process.out(), "");
  const std::string& line = process.err();
  EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
  EXPECT_EQ(line.rfind("beamline-server: ", 0), 0u) << line;
  return line;
}

TEST(Lifecycle, SigtermFinishesARunningStream) {
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
  server.process().Signal(SIGTERM);
  const auto result = end.get();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->usage().generated_tokens(), 16 * 400);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(server.process().err(), HasSubstr("every request was answered"));
}

// With connections, too, and whenever the signal comes.
TEST(Lifecycle, AnIdleServerStopsAtOnce) {
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

TEST(Lifecycle, DrainTimeoutCancelsWhatTakesTooLong) {
  ServerProcess server(
      {"--model", "write-en=" + DemoModel("write-en"), "--drain-timeout-ms", "50"});
  Client client({.address = server.address()});
  std::atomic<bool> stop{false};
  std::atomic<int> answers{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      v1::GenerateRequest request;
      request.mutable_prompt()->set_text("Package: ");
      request.mutable_sampling()->set_num_sequences(64);
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
  server.process().Signal(SIGINT);
  EXPECT_EQ(server.process().Wait(std::chrono::seconds(20)), 0);
  stop = true;
  for (std::thread& thread : clients) thread.join();
}

TEST(Lifecycle, SecondSignalEndsAtOnce) {
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

TEST(Lifecycle, TwoServersOnOnePort) {
  const std::string& address = SharedServer().address();
  EXPECT_THAT(ExpectFailure({"--listen", address, "--metrics-listen", "off", "--model",
                             "e=" + DemoModel("embed-en")},
                            1),
              HasSubstr("cannot listen on " + address));
  const std::string metrics = SharedServer().metrics_url().substr(7);
  EXPECT_THAT(
      ExpectFailure({"--listen", "127.0.0.1:0", "--metrics-listen",
                     metrics.substr(0, metrics.find('/')), "--model", "e=" + DemoModel("embed-en")},
                    1),
      HasSubstr("for metrics"));
}

TEST(Lifecycle, SaysWhereAModelRunsAndWhy) {
  ServerProcess server({"--device", "auto", "--model", "embed-en=" + DemoModel("embed-en")});
  ServerProcess on_cpu({"--device", "cpu", "--model", "embed-en=" + DemoModel("embed-en")});
  for (ServerProcess* each : {&server, &on_cpu}) {
    each->process().Signal(SIGTERM);
    EXPECT_EQ(each->process().Wait(), 0);
  }
  EXPECT_THAT(on_cpu.process().err(), ContainsRegex("model 'embed-en' computes in float32 on cpu "
                                                    ".*: the CPU was asked for"));
  if (std::filesystem::exists("/dev/nvidiactl")) {
    EXPECT_THAT(server.process().err(), ContainsRegex("on cuda:0 .*NVIDIA.*: a GPU is there"));
  } else {
    EXPECT_THAT(server.process().err(), ContainsRegex("on cpu .*: .*(driver|module|GPU)"));
  }
}

TEST(Lifecycle, DemandedGpuThatIsNotThereIsOneLine) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(ExpectFailure({"--device", "cuda"}, 1), HasSubstr("device is 'cuda'"));
}

TEST(Lifecycle, WrongCommandLinesAreOneLine) {
  EXPECT_THAT(ExpectFailure({"--bogus"}, 2), HasSubstr("--bogus"));
  EXPECT_THAT(ExpectFailure({"--threads", "-3"}, 2), HasSubstr("threads is '-3'"));
  EXPECT_THAT(ExpectFailure({"--listen", "nowhere"}, 2), HasSubstr("listen is 'nowhere'"));
  EXPECT_THAT(ExpectFailure({"--config", "/no/such/file"}, 2), HasSubstr("/no/such/file"));
  EXPECT_THAT(ExpectFailure({"--model", "justaname"}, 2), HasSubstr("justaname"));
}

// A copy of a demo model to be damaged.
class DamagedModel : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("beamline_damaged_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::copy(DemoModel("write-en"), folder_, fs::copy_options::recursive);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string ExpectRefused() {
    return ExpectFailure(
        {"--listen", "127.0.0.1:0", "--metrics-listen", "off", "--model", "m=" + folder_.string()},
        1);
  }
  void Overwrite(const std::string& file, const std::string& text) {
    std::ofstream(folder_ / file, std::ios::binary) << text;
  }

  fs::path folder_;
};

TEST_F(DamagedModel, MissingFolder) {
  fs::remove_all(folder_);
  EXPECT_THAT(ExpectRefused(), HasSubstr(folder_.string()));
}

TEST_F(DamagedModel, MissingFiles) {
  for (const char* file : {"model.safetensors", "config.json"}) {
    SetUp();
    fs::remove(folder_ / file);
    EXPECT_THAT(ExpectRefused(), HasSubstr(file));
  }
}

TEST_F(DamagedModel, MissingTokenizer) {
  for (const char* file : {"tokenizer.json", "vocab.json", "merges.txt"}) {
    fs::remove(folder_ / file);
  }
  ExpectRefused();
}

TEST_F(DamagedModel, CutWeights) {
  fs::resize_file(folder_ / "model.safetensors", fs::file_size(folder_ / "model.safetensors") / 2);
  EXPECT_THAT(ExpectRefused(), HasSubstr("model.safetensors"));
}

TEST_F(DamagedModel, HostileFiles) {
  Overwrite("model.safetensors", std::string(64, '\xFF'));
  EXPECT_THAT(ExpectRefused(), HasSubstr("model.safetensors"));
  SetUp();
  Overwrite("config.json", "{\"model_type\": ");
  EXPECT_THAT(ExpectRefused(), HasSubstr("config.json"));
  SetUp();
  Overwrite("config.json", "{\"model_type\": \"mamba\", \"architectures\": [\"Mamba\"]}");
  ExpectRefused();
  SetUp();
  Overwrite("tokenizer.json", "[]");
  EXPECT_THAT(ExpectRefused(), HasSubstr("tokenizer.json"));
}

}  // namespace
}  // namespace beamline
