// What `cmake --install` copies finds its parts there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/e2e/server_process.h"

namespace beamline {
namespace {

using testing::HasSubstr;
using testing::Not;

class InstallTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string name = testing::TempDir() + "beamline_install_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    prefix_ = name;
    ChildProcess install(BEAMLINE_CMAKE, {"--install", BEAMLINE_BUILD_DIR, "--prefix", name});
    ASSERT_EQ(install.Wait(), 0) << install.err();
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(prefix_); }

  static std::string Server() { return (prefix_ / "bin/beamline-server").string(); }

  static inline std::filesystem::path prefix_;
};

TEST_F(InstallTest, TheProgramsRun) {
  for (const char* name : {"beamline-server", "beamline"}) {
    ChildProcess program((prefix_ / "bin" / name).string(), {"--version"});
    EXPECT_EQ(program.Wait(), 0) << program.err();
    EXPECT_THAT(program.out(), HasSubstr(name));
  }
}

TEST_F(InstallTest, TheServerTakesTheModelsInstalledBesideIt) {
  ChildProcess server(Server(), {"--print-config"});
  EXPECT_EQ(server.Wait(), 0) << server.err();
  EXPECT_THAT(server.out(), HasSubstr((prefix_ / "share/beamline/models/embed-en").string()));
}

#ifdef BEAMLINE_DRIVER_STAND_IN
TEST_F(InstallTest, TheServerOpensTheCudaBackendInstalledBesideIt) {
  ASSERT_EQ(setenv("LD_LIBRARY_PATH", BEAMLINE_DRIVER_STAND_IN, 1), 0);
  ChildProcess server(Server(), {"--device", "cuda"});
  ASSERT_EQ(unsetenv("LD_LIBRARY_PATH"), 0);
  EXPECT_EQ(server.Wait(), 1);
  // The backend itself says so: it was found, and opened.
  EXPECT_THAT(server.err(), HasSubstr("the CUDA driver reports no usable GPU"));
  EXPECT_THAT(server.err(), Not(HasSubstr("is not installed")));
}
#endif

}  // namespace
}  // namespace beamline
