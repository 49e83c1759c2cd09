#include "base/build_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace beamline::build_info_test {
namespace {

TEST(BuildInfo, SaysWhatWasBuiltOfWhatAndHow) {
  const BuildInfo& build = ThisBuild();
  EXPECT_EQ(build.version, BEAMLINE_EXPECTED_VERSION);
  EXPECT_THAT(std::string(build.revision),
              testing::MatchesRegex("[0-9a-f]{12}(-modified)?|unknown|[0-9A-Za-z._-]+"));
  EXPECT_FALSE(build.build_type.empty());
  EXPECT_THAT(std::string(build.compiler), testing::MatchesRegex("[A-Za-z]+ [0-9.]+"));
}

// The second word is the version: scripts take it so.
TEST(BuildInfo, IsOneLine) {
  const std::string line = VersionLine("beamline");
  EXPECT_THAT(line, testing::StartsWith("beamline " BEAMLINE_EXPECTED_VERSION " ("));
  EXPECT_THAT(line, testing::HasSubstr(std::string(ThisBuild().revision)));
  EXPECT_THAT(line, testing::EndsWith(ThisBuild().cuda ? ", with CUDA)" : ", without CUDA)"));
  EXPECT_EQ(line.find('\n'), line.npos);
}

}  // namespace
}  // namespace beamline::build_info_test
