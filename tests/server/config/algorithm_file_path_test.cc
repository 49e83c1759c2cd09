#include "server/config/algorithm_file_path.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace beamline::algorithm_file_path_test {
namespace {

// The environment as the test has it; as it was, afterwards.
class AlgorithmFilePathTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {kAlgorithmFileVariable, "XDG_CACHE_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      before_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      if (value.has_value()) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }

  std::map<std::string, std::optional<std::string>> before_;
};

TEST_F(AlgorithmFilePathTest, AutoIsInTheUsersCache) {
  EXPECT_EQ(AlgorithmFilePath("auto"), "");
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(AlgorithmFilePath("auto"), "/home/me/.cache/beamline/cublaslt-algorithms.txt");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(AlgorithmFilePath("auto"), "/home/me/.cache/beamline/cublaslt-algorithms.txt");
  setenv("XDG_CACHE_HOME", "/var/cache/me", 1);
  EXPECT_EQ(AlgorithmFilePath("auto"), "/var/cache/me/beamline/cublaslt-algorithms.txt");
}

TEST_F(AlgorithmFilePathTest, TheVariableGoesBeforeTheDefaultAndTheSettingBeforeTheVariable) {
  setenv("HOME", "/home/me", 1);
  setenv(kAlgorithmFileVariable, "/srv/choices", 1);
  EXPECT_EQ(AlgorithmFilePath("auto"), "/srv/choices");
  EXPECT_EQ(AlgorithmFilePath("/other/choices"), "/other/choices");
  EXPECT_EQ(AlgorithmFilePath("off"), "");
  setenv(kAlgorithmFileVariable, "", 1);
  EXPECT_EQ(AlgorithmFilePath("auto"), "");
}

}  // namespace
}  // namespace beamline::algorithm_file_path_test
