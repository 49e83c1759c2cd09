#include "base/root_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/scratch_path.h"

namespace beamline::root_folder_test {
namespace {

namespace fs = std::filesystem;
using Way = RootFolder::Way;

// base/root is the root; base/outside lies beside it.
class RootFolderTest : public testing::TestWithParam<Way> {
 protected:
  RootFolderTest() : base_(ScratchPath("root_folder")), path_((base_ / "root").string()) {
    fs::remove_all(base_);
    fs::create_directories(base_ / "root/models/one");
    fs::create_directories(base_ / "root/blobs");
    fs::create_directories(base_ / "root-of-others");
    fs::create_directories(base_ / "outside/one");
    Write("root/models/one/config", "inside");
    Write("root/blobs/1f", "blob");
    Write("root-of-others/config", "outside");
    Write("outside/one/config", "outside");
    auto root = RootFolder::Open("model_root", path_, GetParam());
    EXPECT_TRUE(root.ok()) << root.status();
    root_ = *root;
  }
  ~RootFolderTest() override { fs::remove_all(base_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(base_ / name) << text;
  }
  void Link(const std::string& name, const std::string& target) const {
    fs::create_symlink(target, base_ / "root" / name);
  }
  // What is read there, or the errno of opening it.
  std::string Read(const std::string& name) const {
    return Answer(root_->OpenBeneath(path_ + "/" + name, 0));
  }
  static std::string Answer(const OpenedPath& opened) {
    if (opened.fd.get() < 0) return std::to_string(opened.error);
    std::array<char, 100> text;
    const ssize_t size = read(opened.fd.get(), text.data(), text.size());
    if (size < 0) return "cannot be read: " + std::to_string(errno);
    return {text.data(), static_cast<size_t>(size)};
  }

  const fs::path base_;
  const std::string path_;
  std::shared_ptr<const RootFolder> root_;
};

const std::string kOutside = std::to_string(EXDEV);

TEST_P(RootFolderTest, OpensWhatIsBeneath) {
  EXPECT_EQ(Read("models/one/config"), "inside");
  EXPECT_EQ(Read("models//one/./config"), "inside");
  EXPECT_EQ(Read("models/../blobs/1f"), "blob");
  EXPECT_EQ(Read("models/one/none"), std::to_string(ENOENT));
  EXPECT_EQ(Read("none/config"), std::to_string(ENOENT));
  EXPECT_EQ(Read("models/one/config/x"), std::to_string(ENOTDIR));
  EXPECT_EQ(Read(std::string(300, 'x')), std::to_string(ENAMETOOLONG));
}

TEST_P(RootFolderTest, OpensNothingElse) {
  EXPECT_EQ(Read("../outside/one/config"), kOutside);
  EXPECT_EQ(Read("models/../../outside/one/config"), kOutside);
  EXPECT_EQ(Read("models/../../root/blobs/1f"), kOutside);
  EXPECT_EQ(Answer(root_->OpenBeneath("/etc/passwd", 0)), kOutside);
  EXPECT_EQ(Answer(root_->OpenBeneath("models/one/config", 0)), kOutside);
  EXPECT_EQ(Answer(root_->OpenBeneath(path_ + "-of-others/config", 0)), kOutside);
}

TEST_P(RootFolderTest, LinksMayStayWithin) {
  Link("models/one/blob", "../../blobs/1f");  // as the caches of Hugging Face have them
  Link("models/two", "one");
  Link("models/absolute", path_ + "/models/one");
  Link("models/three", "two/../absolute");
  fs::create_directory_symlink("root", base_ / "by_another_name");
  Link("models/renamed", (base_ / "by_another_name/models/one/config").string());
  EXPECT_EQ(Read("models/one/blob"), "blob");
  EXPECT_EQ(Read("models/two/config"), "inside");
  EXPECT_EQ(Read("models/two/blob"), "blob");
  EXPECT_EQ(Read("models/absolute/config"), "inside");
  EXPECT_EQ(Read("models/absolute/blob"), "blob");
  EXPECT_EQ(Read("models/three/config"), "inside");
  EXPECT_EQ(Read("models/renamed"), "inside");
}

TEST_P(RootFolderTest, LinksLeadNowhereElse) {
  Link("out", (base_ / "outside").string());
  Link("models/one/up", "../../../outside/one/config");
  Link("models/again", "../out/one/config");
  Link("passwd", "/etc/passwd");
  Link("nowhere", "/none/at/all");
  Link("others", path_ + "-of-others/config");
  Link("top", "/");
  for (const char* name : {"out/one/config", "models/one/up", "models/again", "passwd", "nowhere",
                           "others", "top", "top/etc/passwd"}) {
    EXPECT_EQ(Read(name), kOutside) << name;
  }
  // A magic link of /proc is followed by its text alone.
  Link("process", "/proc/self/root/etc/passwd");
  EXPECT_EQ(Read("process"), kOutside);
}

TEST_P(RootFolderTest, LinksEnd) {
  Link("loop", "loop");
  Link("a", "b");
  Link("b", "models/../a");
  Link("dangling", "models/none");
  Link("folder", "none");
  EXPECT_EQ(Read("loop"), std::to_string(ELOOP));
  EXPECT_EQ(Read("a/config"), std::to_string(ELOOP));
  std::string before = "models";
  for (int i = 0; i < 39; ++i) {
    Link("l" + std::to_string(i), before);
    before = "l" + std::to_string(i);
  }
  EXPECT_EQ(Read("l38/one/config"), "inside");
  Link("l39", before);
  Link("l40", "l39");
  EXPECT_EQ(Read("l40/one/config"), std::to_string(ELOOP));
  EXPECT_TRUE(root_->OpenBeneath(path_ + "/dangling", 0).is_link);
  EXPECT_FALSE(root_->OpenBeneath(path_ + "/folder/config", 0).is_link);
  EXPECT_FALSE(root_->OpenBeneath(path_ + "/models/none", 0).is_link);
}

TEST_P(RootFolderTest, WaitsForNobody) {
  ASSERT_EQ(mkfifo((base_ / "root/pipe").c_str(), 0600), 0);
  Link("to_pipe", "pipe");
  for (const char* name : {"pipe", "to_pipe"}) {
    const OpenedPath opened = root_->OpenBeneath(path_ + "/" + name, 0);
    ASSERT_GE(opened.fd.get(), 0) << name;
    struct stat info = {};
    ASSERT_EQ(fstat(opened.fd.get(), &info), 0);
    EXPECT_TRUE(S_ISFIFO(info.st_mode));
  }
  Link("device", "/dev/zero");
  EXPECT_EQ(Read("device"), kOutside);
}

TEST_P(RootFolderTest, OpensFolders) {
  Link("models/two", "one");
  for (const char* name : {"models/one", "models/two", "models/two/", "models/one/..", "."}) {
    for (const int flags : {0, O_DIRECTORY, O_PATH, O_PATH | O_DIRECTORY}) {
      EXPECT_GE(root_->OpenBeneath(path_ + "/" + name, flags).fd.get(), 0) << name << flags;
    }
  }
  EXPECT_GE(root_->OpenBeneath(path_, O_PATH).fd.get(), 0);
  EXPECT_EQ(root_->OpenBeneath(path_ + "/models/one/config", O_DIRECTORY).error, ENOTDIR);
  EXPECT_EQ(root_->OpenBeneath(path_ + "/models/one/config/", 0).error, ENOTDIR);
}

// Another process exchanges a folder and a file with links that lead out, all the while.
TEST_P(RootFolderTest, HoldsWhileNamesAreExchanged) {
  Link("folder_out", (base_ / "outside/one").string());
  Link("file_out", (base_ / "outside/one/config").string());
  Link("up", "models/one/../../blobs/1f");
  std::atomic<bool> stop = false;
  std::thread hostile([&] {
    const auto exchange = [&](const char* a, const char* b) {
      renameat2(AT_FDCWD, (path_ + a).c_str(), AT_FDCWD, (path_ + b).c_str(), RENAME_EXCHANGE);
    };
    while (!stop) {
      exchange("/models/one", "/folder_out");
      exchange("/blobs/1f", "/file_out");
      std::this_thread::sleep_for(std::chrono::microseconds(20));  // the system renames for others
    }
  });
  int num_read = 0, num_refused = 0, num_outside = 0;
  for (int i = 0; i < 10000; ++i) {
    for (const char* name : {"models/one/config", "blobs/1f", "up"}) {
      const std::string answer = Read(name);
      num_outside += answer == "outside" ? 1 : 0;
      (answer == "inside" || answer == "blob" ? num_read : num_refused) += 1;
    }
  }
  stop = true;
  hostile.join();
  EXPECT_EQ(num_outside, 0);
  EXPECT_GT(num_read, 0);
  EXPECT_GT(num_refused, 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, RootFolderTest, testing::Values(Way::kKernel, Way::kWalk),
                         [](const auto& tested) {
                           return tested.param == Way::kKernel ? "Kernel" : "Walk";
                         });

TEST(RootFolder, IsAFolder) {
  const std::string path = ScratchPath("no_root");
  EXPECT_EQ(RootFolder::Open("model_root", path).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(path) << "x";
  const absl::Status status = RootFolder::Open("model_root", path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::StartsWith("model_root is '" + path + "', which cannot be opened as a"));
}

}  // namespace
}  // namespace beamline::root_folder_test
