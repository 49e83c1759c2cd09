#include "server/security/file_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "tests/scratch_path.h"
#include "tests/server/security/certificates.h"

namespace beamline::file_watch_test {
namespace {

constexpr std::chrono::milliseconds kInterval{20};

class FileWatchTest : public testing::Test {
 protected:
  bool Told(int times) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (told_ < times && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(kInterval);
    }
    return told_ == times;
  }

  const std::string one_ = ScratchPath("one");
  const std::string other_ = ScratchPath("other");
  std::atomic<int> told_ = 0;
};

TEST_F(FileWatchTest, TellsOfFilesThatAreReplacedAndRemoved) {
  ReplaceFile(one_, "a");
  ReplaceFile(other_, "a");
  const FileWatch watch(
      {one_, other_}, [this] { ++told_; }, kInterval);
  std::this_thread::sleep_for(5 * kInterval);
  EXPECT_EQ(told_, 0);
  ReplaceFile(one_, "b");  // as long as before
  EXPECT_TRUE(Told(1));
  std::filesystem::remove(other_);
  EXPECT_TRUE(Told(2));
  ReplaceFile(other_, "c");
  EXPECT_TRUE(Told(3));
}

// Who writes a file and then gives it to the server's user would else wait for ever.
TEST_F(FileWatchTest, TellsOfFilesThatBecomeReadable) {
  namespace fs = std::filesystem;
  ReplaceFile(one_, "a");
  fs::permissions(one_, fs::perms::none);
  const FileWatch watch(
      {one_}, [this] { ++told_; }, kInterval);
  std::this_thread::sleep_for(5 * kInterval);
  EXPECT_EQ(told_, 0);
  fs::permissions(one_, fs::perms::owner_read);
  EXPECT_TRUE(Told(1));
}

// As volumes of Kubernetes are updated: the names are links below a link that is replaced.
TEST_F(FileWatchTest, FollowsLinks) {
  namespace fs = std::filesystem;
  for (const char* version : {"v1", "v2"}) {
    fs::create_directories(ScratchPath(version));
    ReplaceFile(ScratchPath(version) + "/file", version);
  }
  fs::create_directory_symlink("v1", ScratchPath("data"));
  fs::create_symlink("data/file", ScratchPath("link"));
  const FileWatch watch(
      {ScratchPath("link")}, [this] { ++told_; }, kInterval);
  fs::create_directory_symlink("v2", ScratchPath("data.new"));
  fs::rename(ScratchPath("data.new"), ScratchPath("data"));
  EXPECT_TRUE(Told(1));
}

TEST_F(FileWatchTest, WaitsUntilFilesStayAsTheyAre) {
  ReplaceFile(one_, "a");
  const FileWatch watch(
      {one_}, [this] { ++told_; }, std::chrono::milliseconds(200));
  for (int i = 0; i < 50; ++i) {  // for a second, much faster than it looks
    ReplaceFile(one_, std::to_string(i));
    std::this_thread::sleep_for(kInterval);
  }
  const int meanwhile = told_;
  EXPECT_LE(meanwhile, 1);  // none, but for a machine that stood still
  EXPECT_TRUE(Told(meanwhile + 1));
}

}  // namespace
}  // namespace beamline::file_watch_test
