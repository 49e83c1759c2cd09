// What `cmake --install` copies finds its parts there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/e2e/server_process.h"

namespace beamline::install_test {
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
  for (const char* name : {"beamline-server", "beamline", "beamline-loadtest"}) {
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

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST_F(InstallTest, TheServiceIsThatOfThePrefix) {
  const std::string unit = ReadText(prefix_ / "lib/systemd/system/beamline-server.service");
  const std::string config = (prefix_ / "etc/beamline/server.yaml").string();
  EXPECT_THAT(unit, HasSubstr("\nExecStart=" + Server() + " --config " + config + "\n"));
  EXPECT_THAT(unit, Not(HasSubstr("@BEAMLINE")));
  ChildProcess server(Server(), {"--config", config, "--print-config"});
  EXPECT_EQ(server.Wait(), 0) << server.err();
}

TEST_F(InstallTest, DocumentsAndTheContractAreThere) {
  for (const char* name :
       {"share/doc/beamline/LICENSE", "share/doc/beamline/README.md",
        "share/doc/beamline/CHANGELOG.md", "share/doc/beamline/examples/server.yaml",
        "share/beamline/proto/beamline/v1/inference.proto", "include/beamline/beamline/client.h",
        "lib/cmake/Beamline/BeamlineConfig.cmake"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(prefix_ / name)) << name;
  }
}

TEST_F(InstallTest, WeightsAreConvertedByAProgram) {
  ChildProcess convert(prefix_ / "share/beamline/tools/convert_weights", {"--help"});
  EXPECT_EQ(convert.Wait(), 0) << convert.err();
}

TEST_F(InstallTest, AConfigurationThatIsThereStays) {
  const std::filesystem::path config = prefix_ / "etc/beamline/server.yaml";
  std::ofstream(config) << "threads: 1\n";
  ChildProcess again(BEAMLINE_CMAKE, {"--install", BEAMLINE_BUILD_DIR, "--prefix", prefix_});
  EXPECT_EQ(again.Wait(), 0) << again.err();
  EXPECT_EQ(ReadText(config), "threads: 1\n");
}

TEST_F(InstallTest, ManualPagesAndCompletionsAreWhereShellsLook) {
  for (const std::string name : {"beamline", "beamline-server"}) {
    for (const std::string& path :
         {"man/man1/" + name + ".1", "bash-completion/completions/" + name,
          "zsh/vendor-completions/_" + name, "fish/vendor_completions.d/" + name + ".fish"}) {
      std::ifstream file(prefix_ / "share" / path);
      std::string line;
      std::getline(file, line);
      EXPECT_THAT(line, HasSubstr(path.starts_with("man/") ? ".TH " : name)) << path;
    }
  }
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
}  // namespace beamline::install_test
