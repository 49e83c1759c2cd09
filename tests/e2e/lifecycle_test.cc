// Starting, stopping and failing as an operator sees it, and the command line as a user does.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/e2e/process.h"

namespace beamline {
namespace {

using e2e::Finished;
using e2e::RunProgram;
using e2e::ServerProcess;
using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kModels = std::string(BEAMLINE_SOURCE_DIR) + "/models/";

// How many lines of its own the program wrote.
size_t NumLines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

// A copy of the write-en checkpoint to damage.
class DamagedModel {
 public:
  DamagedModel() {
    std::string pattern = std::filesystem::temp_directory_path() / "beamline-e2e-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::filesystem::copy(kModels + "write-en", folder_, std::filesystem::copy_options::recursive);
  }
  ~DamagedModel() { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& file) const { return folder_ + "/" + file; }
  Finished Serve() const {
    return RunProgram({BEAMLINE_SERVER_BINARY, "--listen", "127.0.0.1:0", "--metrics-listen",
                       "127.0.0.1:0", "--model", "broken=" + folder_});
  }

 private:
  std::string folder_;
};

TEST(LifecycleTest, SigtermFinishesTheRunningStream) {
  ServerProcess server({"--model", "write-en=" + kModels + "write-en"});
  Client client({.address = server.address()});
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("Package: last");
  request.mutable_greedy();
  request.mutable_limits()->set_max_new_tokens(300);
  request.mutable_limits()->set_ignore_eos(true);
  int num_ids = 0;
  bool signalled = false;
  const auto end = client.GenerateStream(request,
                                         [&](const v1::GenerateStreamResponse& message) {
                                           for (const auto& delta : message.deltas())
                                             num_ids += delta.ids_size();
                                           if (!signalled) server.Signal(SIGTERM);
                                           signalled = true;
                                           return true;
                                         },
                                         {milliseconds(60000)});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(num_ids, 300);
  EXPECT_EQ(server.Wait(seconds(30)), 0);
  EXPECT_EQ(client.Generate(request, {milliseconds(2000)}).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(LifecycleTest, StopsSoonWhenIdle) {
  ServerProcess server({"--model", "write-en=" + kModels + "write-en"});
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(seconds(5)), 0);
}

TEST(LifecycleTest, TwoServersOnOnePortAreRefused) {
  ServerProcess server({"--model", "write-en=" + kModels + "write-en"});
  const Finished second =
      RunProgram({BEAMLINE_SERVER_BINARY, "--listen", server.address(), "--metrics-listen",
                  "127.0.0.1:0", "--model", "write-en=" + kModels + "write-en"});
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.err.find(server.address()), std::string::npos) << second.err;
}

TEST(LifecycleTest, MissingModelIsOneClearLine) {
  const Finished run = RunProgram({BEAMLINE_SERVER_BINARY, "--model", "x=/nonexistent/folder"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("/nonexistent/folder"), std::string::npos) << run.err;
  EXPECT_EQ(NumLines(run.err), 1u) << run.err;
}

TEST(LifecycleTest, DamagedWeightsAreOneClearLine) {
  const DamagedModel model;
  std::filesystem::resize_file(model.path("model.safetensors"), 1000000);
  const Finished run = model.Serve();
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("model.safetensors"), std::string::npos) << run.err;
  EXPECT_EQ(NumLines(run.err), 1u) << run.err;
}

TEST(LifecycleTest, DamagedConfigIsOneClearLine) {
  const DamagedModel model;
  std::ofstream(model.path("config.json")) << "{\"model_type\": \"gpt2\", ";
  const Finished run = model.Serve();
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("config.json"), std::string::npos) << run.err;
  EXPECT_EQ(NumLines(run.err), 1u) << run.err;
}

TEST(LifecycleTest, DamagedTokenizerIsOneClearLine) {
  const DamagedModel model;
  std::ofstream(model.path("tokenizer.json")) << "[]";
  const Finished run = model.Serve();
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("tokenizer.json"), std::string::npos) << run.err;
  EXPECT_EQ(NumLines(run.err), 1u) << run.err;
}

TEST(LifecycleTest, WrongFlagIsAUsageError) {
  EXPECT_EQ(RunProgram({BEAMLINE_SERVER_BINARY, "--no-such-flag"}).status, 2);
  EXPECT_EQ(RunProgram({BEAMLINE_SERVER_BINARY, "--threads", "many"}).status, 2);
  EXPECT_EQ(RunProgram({BEAMLINE_CLIENT_BINARY, "--no-such-flag"}).status, 2);
}

class CommandLineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  static Finished Beamline(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {BEAMLINE_CLIENT_BINARY, "--address", server_->address()});
    return RunProgram(arguments);
  }
  static ServerProcess* server_;
};

ServerProcess* CommandLineTest::server_ = nullptr;

TEST_F(CommandLineTest, TranslatesInOneLine) {
  const Finished run = Beamline({"translate", "The package was not found."});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.out.find("Paket"), std::string::npos) << run.out;
}

TEST_F(CommandLineTest, JsonIsMachineReadable) {
  const Finished run = Beamline({"generate", "--model", "write-en", "--greedy", "--max-new-tokens",
                                 "5", "--logprobs", "2", "--json", "Package: "});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto answer = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_TRUE(answer.is_object()) << run.out;
  EXPECT_EQ(answer["sequences"][0]["ids"].size(), 5u);
}

TEST_F(CommandLineTest, EncodesWithTheModelsOwnNormalisation) {
  const Finished run = Beamline({"encode", "--json", "a text editor"});
  ASSERT_EQ(run.status, 0) << run.err;
  const auto answer = nlohmann::json::parse(run.out, nullptr, false);
  ASSERT_TRUE(answer.is_object()) << run.out;
  double squares = 0.0;
  for (const auto& value : answer["embeddings"][0]["values"]) {
    squares += value.get<double>() * value.get<double>();
  }
  EXPECT_NEAR(squares, 1.0, 1e-4);
}

TEST_F(CommandLineTest, EveryOtherCommandAnswers) {
  const std::vector<std::vector<std::string>> commands = {
      {"encode", "a", "b"},
      {"tokenize", "--model", "embed-en", "hello"},
      {"detokenize", "--model", "write-en", "50", "41"},
      {"models"},
      {"models", "write-en"},
      {"health"},
      {"health", "embed-en"},
      {"generate", "--model", "write-en", "--stream", "--greedy", "--max-new-tokens", "4",
       "Package:"}};
  for (const auto& command : commands) {
    const Finished run = Beamline(command);
    EXPECT_EQ(run.status, 0) << command[0] << ": " << run.err;
    EXPECT_FALSE(run.out.empty()) << command[0];
  }
}

TEST_F(CommandLineTest, ErrorsAreOneLineWithTheCode) {
  const Finished run =
      Beamline({"generate", "--model", "write-en", "--max-new-tokens", "0", "Package:"});
  EXPECT_EQ(run.status, 1);
  EXPECT_NE(run.err.find("INVALID_ARGUMENT"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("limits.max_new_tokens"), std::string::npos) << run.err;
  EXPECT_EQ(NumLines(run.err), 1u) << run.err;
}

}  // namespace
}  // namespace beamline
