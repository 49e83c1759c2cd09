// How the program starts, and fails to start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/e2e/server_process.h"
#include "tests/kernels/gpu_presence.h"
#include "tests/scratch_path.h"

namespace beamline::lifecycle_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
namespace fs = std::filesystem;

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
      HasSubstr("/metrics cannot be served: cannot listen on"));
}

TEST(Lifecycle, TooFewOpenFilesAreOneLineThatSaysSo) {
  for (int most = 8; most < 64; most += 2) {
    ChildProcess process(
        BEAMLINE_SERVER_BINARY,
        {"--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--http-listen", "off",
         "--device", "cpu", "--model", "e=" + DemoModel("embed-en")},
        "", most);
    if (!process.ReadLine().empty()) return;
    EXPECT_EQ(process.Wait(), 1) << most << ": " << process.err();
    EXPECT_THAT(process.err(), ContainsRegex("^beamline-server: .*open files[^\n]*\n$")) << most;
  }
  FAIL() << "it needs more than 64";
}

bool HasGpu() {
  const absl::StatusOr<int> count = CountGpusOfDriver();
  EXPECT_TRUE(count.ok()) << count.status();
  return count.value_or(0) > 0;
}

TEST(Lifecycle, SaysWhereAModelRunsAndWhy) {
  ServerProcess server({"--device", "auto", "--model", "embed-en=" + DemoModel("embed-en")});
  ServerProcess on_cpu({"--device", "cpu", "--model", "embed-en=" + DemoModel("embed-en")});
  for (ServerProcess* each : {&server, &on_cpu}) {
    each->process().Signal(SIGTERM);
    EXPECT_EQ(each->process().Wait(), 0);
  }
  EXPECT_THAT(on_cpu.process().err(),
              ContainsRegex("model 'embed-en' computes in float32, weights in bfloat16 on cpu "
                            ".*: the CPU was asked for"));
  EXPECT_THAT(on_cpu.process().err(),
              HasSubstr("model 'embed-en': dtype is auto: products in float32, weights as stored "
                        "(bfloat16)"));
  if (HasGpu()) {
    EXPECT_THAT(server.process().err(), ContainsRegex("on cuda:0 .*NVIDIA.*: a GPU is there"));
  } else {
    EXPECT_THAT(server.process().err(), ContainsRegex("on cpu .*: .*(driver|module|GPU)"));
  }
}

TEST(Lifecycle, DemandedGpuThatIsNotThereIsOneLine) {
  if (HasGpu()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(ExpectFailure({"--device", "cuda"}, 1), HasSubstr("device is 'cuda'"));
}

TEST(Lifecycle, WrongCommandLinesAreOneLine) {
  EXPECT_THAT(ExpectFailure({"--bogus"}, 2), HasSubstr("--bogus"));
  EXPECT_THAT(ExpectFailure({"--threads", "-3"}, 2), HasSubstr("threads is '-3'"));
  EXPECT_THAT(ExpectFailure({"--listen", "nowhere"}, 2), HasSubstr("listen is 'nowhere'"));
  EXPECT_THAT(ExpectFailure({"--config", "/no/such/file"}, 2), HasSubstr("/no/such/file"));
  EXPECT_THAT(ExpectFailure({"--model", "=afolder"}, 2), HasSubstr("=afolder"));
}

// A copy of a demo model to be damaged.
class DamagedModel : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = ScratchPath("damaged");
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
}  // namespace beamline::lifecycle_test
