#include "server/config/process_options.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "fmt/format.h"
#include "tests/scratch_path.h"

namespace beamline::process_options_test {
namespace {

std::string FileOf(const std::string& text) {
  const std::string path = ScratchPath("secret");
  std::ofstream(path) << text;
  return path;
}

ServerConfig Divided() {
  ServerConfig config;
  config.rank_address = "10.0.0.1:7000";
  config.rank_secret_file = FileOf("0123456789abcdef\n");
  config.models.resize(2);
  config.models[1].tensor_parallel = 3;
  return config;
}

std::string FaultOf(const ServerConfig& config) {
  return std::string(ReadProcessOptions(config).status().message());
}

TEST(ProcessOptions, AreReadOfTheSettings) {
  ServerConfig config = Divided();
  config.rank = 2;
  config.rank_timeout_ms = 1234;
  const auto options = ReadProcessOptions(config);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->host, "10.0.0.1");
  EXPECT_EQ(options->port, 7000);
  EXPECT_EQ(options->rank, 2);
  EXPECT_EQ(options->secret, "0123456789abcdef");
  EXPECT_EQ(options->time_limit, std::chrono::milliseconds(1234));
  EXPECT_EQ(ReadProcessOptions(ServerConfig())->port, 0);
}

TEST(ProcessOptions, FaultsNameTheSetting) {
  ServerConfig config;
  config.rank = 1;
  EXPECT_EQ(FaultOf(config), "rank is 1; accepted: 0 where rank_address is off");
  config = Divided();
  config.rank = 3;
  EXPECT_EQ(FaultOf(config), "rank is 3; accepted: 0 to 2, as tensor_parallel is 3");
  config = Divided();
  config.models[1].pipeline_parallel = 2;
  config.rank = 5;
  EXPECT_TRUE(ReadProcessOptions(config).ok());
  config.rank = 6;
  EXPECT_EQ(FaultOf(config),
            "rank is 6; accepted: 0 to 5, as tensor_parallel is 3 and pipeline_parallel 2");
  config = Divided();
  config.rank_address = "10.0.0.1:0";
  EXPECT_EQ(FaultOf(config),
            "rank_address is '10.0.0.1:0'; accepted: an address with a port that all ranks know");
  config = Divided();
  config.models[0].tensor_parallel = 2;
  EXPECT_EQ(FaultOf(config),
            "rank_address is set, and 2 models have tensor_parallel or pipeline_parallel above 1; "
            "accepted: 1, whose ranks meet there");
  config = Divided();
  config.rank_secret_file = "";
  EXPECT_EQ(FaultOf(config),
            "rank_address is set, and rank_secret_file is empty; accepted: a file");
  config.rank_secret_file = FileOf("short\n");
  EXPECT_EQ(FaultOf(config),
            fmt::format("rank_secret_file is '{}', which has 5 bytes; accepted: 16 to "
                        "256",
                        config.rank_secret_file));
  config.rank_secret_file = ScratchPath("nothing");
  EXPECT_EQ(ReadProcessOptions(config).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace beamline::process_options_test
