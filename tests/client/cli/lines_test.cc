#include "client/cli/lines.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace beamline::cli {
namespace {

using testing::ElementsAre;

class LinesTest : public testing::Test {
 protected:
  LinesTest() : path_(testing::TempDir() + "lines_test_" + std::to_string(getpid())) {}
  ~LinesTest() override { std::filesystem::remove(path_); }
  // The lines of a file that holds `text`.
  std::unique_ptr<LineSource> Lines(const std::string& text) {
    std::ofstream(path_) << text;
    auto lines = OpenLines({}, path_, console_);
    EXPECT_TRUE(lines.ok()) << lines.status();
    return *std::move(lines);
  }

  const std::string path_;
  std::ostringstream out_, err_;
  Console console_ = {-1, out_, err_};
  Client client_{ClientOptions{.address = "127.0.0.1:1"}};  // never connects
  GlobalOptions options_;
  Session session_ = {client_, console_, options_};
};

TEST_F(LinesTest, EveryLineHasItsAnswer) {
  std::vector<std::string> seen;
  const auto lines = Lines("a\n\nbad\nb");
  const absl::Status status = ForEachLine(session_, *lines, [&](const std::string& line) {
    seen.push_back(line);
    if (line == "bad") return absl::NotFoundError("no\nsuch");
    out_ << line << "\n";
    return absl::OkStatus();
  });
  EXPECT_THAT(seen, ElementsAre("a", "", "bad", "b"));
  EXPECT_EQ(out_.str(), "a\n\n\nb\n");
  EXPECT_EQ(err_.str(), "line 3: NOT_FOUND: no such\n");
  EXPECT_EQ(status, absl::NotFoundError("1 of 4 lines failed"));
}

TEST_F(LinesTest, AnErrorIsJsonToo) {
  options_.json = true;
  const auto lines = Lines("a\n");
  EXPECT_FALSE(ForEachLine(session_, *lines, [](const std::string&) {
                 return absl::NotFoundError("gone");
               }).ok());
  EXPECT_EQ(out_.str(), "{\"error\":{\"code\":5,\"message\":\"gone\",\"details\":[]}}\n");
}

TEST_F(LinesTest, ABrokenOutputEndsThem) {
  out_.setstate(std::ios::badbit);
  int count = 0;
  const auto lines = Lines("a\nb\nc\n");
  EXPECT_TRUE(ForEachLine(session_, *lines, [&](const std::string&) {
                ++count;
                return absl::OkStatus();
              }).ok());
  EXPECT_EQ(count, 1);
}

TEST_F(LinesTest, NoLineIsWrongUse) {
  EXPECT_EQ(ReadAllLines(*Lines("")).status(),
            UsageError("there is no text: give one, or lines on " + path_));
  EXPECT_THAT(*ReadAllLines(*Lines("\n")), ElementsAre(""));
}

TEST_F(LinesTest, WhereTheyComeFrom) {
  EXPECT_EQ(*OpenLines({"a"}, "", console_), nullptr);
  EXPECT_EQ(*OpenLines({"-", "-"}, "", console_), nullptr);
  EXPECT_NE(*OpenLines({}, "", console_), nullptr);
  EXPECT_NE(*OpenLines({"-"}, "", console_), nullptr);
  EXPECT_NE(*OpenLines({}, "-", console_), nullptr);
  EXPECT_FALSE(OpenLines({"a"}, "-", console_).ok());
  EXPECT_FALSE(OpenLines({}, "/", console_).ok());
}

TEST_F(LinesTest, WhatCannotBeReadIsSaid) {
  Console console = {open("/", O_RDONLY), out_, err_};
  EXPECT_EQ(ReadAllLines(**OpenLines({}, "", console)).status().message(),
            "standard input cannot be read: Is a directory");
  close(console.in);
}

}  // namespace
}  // namespace beamline::cli
