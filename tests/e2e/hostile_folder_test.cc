// The program itself, given folders in which something is wrong: it ends with status 1 and one
// line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <string>

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

}  // namespace
}  // namespace beamline::hostile_folder_test
