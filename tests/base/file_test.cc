#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/scratch_path.h"

namespace beamline::file_test {
namespace {

using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  FileTest() : folder_(ScratchPath("files")) { std::filesystem::create_directory(folder_); }
  ~FileTest() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Pipe() const {
    EXPECT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
    return Path("pipe");
  }

  const std::string folder_;
};

TEST_F(FileTest, ReadsTheWholeUpToItsLimit) {
  const std::string text = std::string(200'000, 'a') + '\0' + "end";
  std::ofstream(Path("file"), std::ios::binary) << text;
  EXPECT_EQ(ReadFile("--file", Path("file"), text.size()).value(), text);
  EXPECT_EQ(ReadFile("--file", Path("file"), text.size() - 1).status().message(),
            "--file is '" + Path("file") + "', longer than the accepted 200003 bytes");
  std::ofstream(Path("empty"));
  EXPECT_EQ(ReadFile("--file", Path("empty"), 10).value(), "");
}

TEST_F(FileTest, WhatIsNoFileIsNamed) {
  const auto fault = [](const std::string& path) {
    return std::string(ReadFile("--config", path, 100).status().message());
  };
  EXPECT_EQ(fault(folder_), "--config is '" + folder_ + "', a folder; accepted: a regular file");
  EXPECT_THAT(fault(Pipe()), HasSubstr("a pipe; accepted: a regular file"));
  EXPECT_THAT(fault("/dev/zero"), HasSubstr("a device; accepted: a regular file"));
  EXPECT_THAT(fault(""), HasSubstr("No such file"));
  EXPECT_THAT(fault(Path("nothing")), HasSubstr("cannot be read: No such file or directory"));
  EXPECT_TRUE(absl::IsNotFound(ReadFile("x", Path("nothing"), 1).status()));
  std::filesystem::create_symlink("loop", Path("loop"));
  EXPECT_THAT(fault(Path("loop")), HasSubstr("symbolic links"));
  EXPECT_THAT(fault(std::string(5000, 'x')), HasSubstr("too long"));
}

TEST_F(FileTest, ChecksBeforeItWrites) {
  const std::string path = Path("new");
  EXPECT_TRUE(CheckWritable("--json", path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "longer than what comes";
  EXPECT_TRUE(CheckWritable("--json", path).ok());
  EXPECT_EQ(ReadFile("x", path, 100).value(), "longer than what comes");
  EXPECT_TRUE(WriteFile("--json", path, "short").ok());
  EXPECT_EQ(ReadFile("x", path, 100).value(), "short");
}

TEST_F(FileTest, WhatCannotBeWrittenIsNamed) {
  for (const std::string& path :
       {folder_, Path("nothing/below"), Pipe(), std::string("/proc/version/x")}) {
    EXPECT_THAT(std::string(CheckWritable("--json", path).message()),
                HasSubstr("--json is '" + path + "', which cannot be written: "));
    EXPECT_FALSE(WriteFile("--json", path, "x").ok()) << path;
  }
  EXPECT_TRUE(CheckWritable("--json", "/dev/full").ok());
  EXPECT_THAT(std::string(WriteFile("--json", "/dev/full", "x").message()),
              HasSubstr("No space left"));
}

}  // namespace
}  // namespace beamline::file_test
