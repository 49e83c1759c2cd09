// The program itself, given folders in which something is wrong: it ends with status 1 and one
// line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "fmt/format.h"
#include "tests/e2e/server_process.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"

namespace beamline::hostile_folder_test {
namespace {

struct HostileFolder {
  const char* model;
  const char* file;  // is taken away
  std::function<void(const TemporaryFolder& folder, const std::string& path)> put;
  const char* message;
};

const HostileFolder kFolders[] = {
    {"write-en", "tokenizer.json",
     [](const TemporaryFolder&, const std::string& path) {
       ASSERT_EQ(symlink(path.c_str(), path.c_str()), 0);
     },
     "/tokenizer.json: a symbolic link that leads in a circle"},
    {"translate-en-de", "vocab.json",
     [](const TemporaryFolder&, const std::string& path) {
       ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
     },
     "/vocab.json: not a regular file"},
    {"translate-en-de", "source.spm",
     [](const TemporaryFolder&, const std::string& path) {
       ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
     },
     "/source.spm: a folder, not a file"},
    {"embed-en", "model.safetensors",
     [](const TemporaryFolder& folder, const std::string&) {
       folder.Write("model.safetensors",
                    "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
     },
     "/model.safetensors: a Git LFS pointer"},
    {"embed-en", "modules.json",
     [](const TemporaryFolder&, const std::string& path) {
       ASSERT_EQ(symlink(path.c_str(), path.c_str()), 0);
     },
     "/modules.json: a symbolic link that leads in a circle"},
    {"embed-en", "modules.json",
     [](const TemporaryFolder& folder, const std::string&) {
       folder.Write(
           "modules.json",
           R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                        {"idx": 1, "name": "1", "path": "config.json", "type": "sentence_transformers.models.Pooling"}])");
     },
     "/config.json/config.json: a file stands where a folder must"},
    {"embed-en", "config.json",
     [](const TemporaryFolder& folder, const std::string&) {
       folder.Write("config.json", "{\"model_type\": \"" + std::string(1 << 20, '\t') + "\"}");
     },
     "/config.json: not valid JSON at byte 17"},
    {"embed-en", "config.json",
     [](const TemporaryFolder& folder, const std::string&) {
       std::string type;
       for (int i = 0; i < 1 << 20; ++i) type += "\\n\u00e4";
       folder.Write("config.json", "{\"model_type\": \"" + type + "\"}");
     },
     "served are bert, "},
};

TEST(HostileFolderTest, EndsTheServerWithOneLine) {
  for (const HostileFolder& hostile : kFolders) {
    SCOPED_TRACE(hostile.message);
    TemporaryFolder folder;
    folder.LinkFilesOf(std::string(BEAMLINE_SOURCE_DIR) + "/models/" + hostile.model);
    folder.Remove(hostile.file);
    hostile.put(folder, folder.path() + "/" + hostile.file);
    ChildProcess process(BEAMLINE_SERVER_BINARY,
                         {"--model", "m=" + folder.path(), "--device", "cpu", "--listen",
                          "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"});
    EXPECT_EQ(process.Wait(std::chrono::seconds(10)), 1) << process.err();
    const std::string& line = process.err();
    EXPECT_THAT(line, testing::StartsWith("beamline-server: model 'm': "));
    EXPECT_THAT(line, testing::HasSubstr(hostile.message));
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    EXPECT_LT(line.size(), 500u);
  }
}

// Of the processes that this one has waited for.
struct Cost {
  double seconds = 0;    // on the processor
  int64_t peak_kib = 0;  // of the largest
};

Cost CostOfChildren() {
  rusage usage = {};
  EXPECT_EQ(getrusage(RUSAGE_CHILDREN, &usage), 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss};
}

// What the limit of values lets pass: a hash of the names and a tree, and the vocabulary of it. The
// program's own time is asked for, whose templates are compiled as it is and not as this test.
TEST(HostileFolderTest, MillionsOfNamesTakeSeconds) {
  constexpr double kMostSeconds = 15;  // of a slow core
  constexpr int64_t kMostKib = int64_t{1} << 20;
  std::string names;
  for (size_t i = 0; i < kMaxJsonValues / 2 - 4; ++i) names += fmt::format("\"{0:x}\":{0},", i);
  TemporaryFolder folder;
  folder.LinkFilesOf(std::string(BEAMLINE_SOURCE_DIR) + "/models/write-en");
  folder.Remove("tokenizer_config.json");
  folder.Write("tokenizer_config.json", "{\"x\":{" + names + "\"\":0}}");
  const std::vector<std::string> arguments = {
      "--model",
      "m=" + folder.path() + ",max_batch_tokens=16,max_sequences=1,cache_bytes=1",
      "--device",
      "cpu",
      "--listen",
      "127.0.0.1:0",
      "--threads",
      "1",
      "--metrics-listen",
      "off",
      "--http-listen",
      "off"};
  Cost before = CostOfChildren();
  {
    ChildProcess process(BEAMLINE_SERVER_BINARY, arguments);
    EXPECT_THAT(process.ReadLine(), testing::StartsWith("beamline-server: serving on"));
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Wait(), 0) << process.err();
  }
  Cost after = CostOfChildren();
  EXPECT_LT(after.seconds - before.seconds, kMostSeconds);
  EXPECT_LT(after.peak_kib, kMostKib);

  folder.Remove("tokenizer_config.json");
  folder.Remove("tokenizer.json");
  folder.Write("vocab.json", "{" + names + "\"\":4194300}");
  before = after;
  {
    ChildProcess process(BEAMLINE_SERVER_BINARY, arguments);
    EXPECT_EQ(process.Wait(), 1);
    EXPECT_THAT(process.err(), testing::HasSubstr("vocab.json: the special token"));
  }
  after = CostOfChildren();
  EXPECT_GT(after.seconds, before.seconds);
  EXPECT_LT(after.seconds - before.seconds, kMostSeconds);
  EXPECT_LT(after.peak_kib, kMostKib);
}

}  // namespace
}  // namespace beamline::hostile_folder_test
