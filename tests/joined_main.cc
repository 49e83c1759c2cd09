// main() of a program with the tests of a whole folder (BEAMLINE_JOINED_TESTS in
// cmake/BeamlineTargets.cmake). It runs the tests of the sources that it is given, so that ctest
// has an entry for each test. The program knows its sources from gtest, so that a saved source
// changes no build file. usage: PROGRAM [gtest's flags] [tests/FOLDER/NAME_test.cc ...] without a
// source: all tests
//        PROGRAM [gtest's flags] --others tests/FOLDER/NAME_test.cc ... fails if it has tests of
//        another source
// --gtest_filter goes before the sources.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace beamline {
namespace {

// tests/server/wire/wire_test.cc of /home/anna/beamline/tests/server/wire_test.cc: a compiler cache
// may give the compiler relative names.
std::string InTree(std::string_view file) {
  const size_t begin = file.rfind("/tests/");
  return std::string(begin == std::string_view::npos ? file : file.substr(begin + 1));
}

// Calls `visit` with the full name and the source of each test.
void ForEachTest(
    const std::function<void(const std::string& name, const std::string& source)>& visit) {
  const testing::UnitTest& unit_test = *testing::UnitTest::GetInstance();
  for (int i = 0; i < unit_test.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *unit_test.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      visit(std::string(suite.name()) + "." + test.name(), InTree(test.file()));
    }
  }
}

// gtest's filter of the tests of `sources`; empty without any.
std::string FilterOf(const std::set<std::string>& sources) {
  std::string filter;
  ForEachTest([&](const std::string& name, const std::string& source) {
    if (sources.contains(source)) filter += (filter.empty() ? "" : ":") + name;
  });
  return filter;
}

// Prints the tests that are in none of `sources`, and returns their number.
int PrintOthers(const std::set<std::string>& sources) {
  int others = 0;
  ForEachTest([&](const std::string& name, const std::string& source) {
    if (sources.contains(source)) return;
    std::fprintf(stderr, "%s is in %s, which is a source of no test\n", name.c_str(),
                 source.c_str());
    ++others;
  });
  return others;
}

int RunTestsOf(int argc, char** argv) {
  bool others = false;
  std::set<std::string> sources;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--others") {
      others = true;
    } else {
      sources.insert(argv[i]);
    }
  }
  if (others) return PrintOthers(sources) == 0 ? 0 : 1;
  // A death test calls the program again, with the same arguments and a filter.
  if (!sources.empty() && GTEST_FLAG_GET(filter) == "*") {
    const std::string filter = FilterOf(sources);
    if (filter.empty()) {
      std::fprintf(stderr, "there are no tests in %s and %zu other sources\n",
                   sources.begin()->c_str(), sources.size() - 1);
      return 1;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  return beamline::RunTestsOf(argc, argv);
}
