// libonig has functions of the names of POSIX's; a program that links it has those of its C
// library.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <regex.h>

#include <string>

#include "engine/text/regex.h"

namespace beamline::posix_regex_test {
namespace {

TEST(PosixRegex, IsNotOnigurumas) {
  ASSERT_TRUE(text::Regex::Compile("a+").ok());  // Oniguruma is there
  Dl_info info = {};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&regcomp), &info), 0);
  // A sanitizer's library stands before it.
  EXPECT_EQ(std::string(info.dli_fname).find("onig"), std::string::npos) << info.dli_fname;
  regex_t regex;
  ASSERT_EQ(regcomp(&regex, "^rank [0-9]+ at .* has (ended|begun)$", REG_EXTENDED), 0);
  EXPECT_EQ(regexec(&regex, "rank 1 at 127.0.0.1:1 has ended", 0, nullptr, 0), 0);
  EXPECT_NE(regexec(&regex, "rank 1 at 127.0.0.1:1 has", 0, nullptr, 0), 0);
  regfree(&regex);
}

}  // namespace
}  // namespace beamline::posix_regex_test
