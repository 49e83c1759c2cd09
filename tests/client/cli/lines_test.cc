#include "client/cli/lines.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace beamline::cli::lines_test {
namespace {

using testing::ElementsAre;

constexpr std::string_view kLineColumns[] = {"input", "text", "error"};

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
  Output output_{out_, OutputFormat::kTable, Style()};
  Session session_ = {client_, console_, options_, output_};
};

TEST_F(LinesTest, EveryLineHasItsAnswer) {
  std::vector<std::string> seen;
  const auto lines = Lines("a\n\nbad\nb");
  const absl::Status status =
      ForEachLine(session_, *lines, kLineColumns, [&](const std::string& line) {
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
  const auto fail = [this](OutputFormat format) {
    out_.str("");
    Output output(out_, format, Style());
    const Session session = {client_, console_, options_, output};
    const auto lines = Lines("a\n");
    EXPECT_FALSE(ForEachLine(session, *lines, kLineColumns, [](const std::string&) {
                   return absl::NotFoundError("gone");
                 }).ok());
    EXPECT_TRUE(output.told());
    return out_.str();
  };
  EXPECT_EQ(fail(OutputFormat::kJson),
            "{\"error\":{\"code\":5,\"message\":\"gone\",\"details\":[]}}\n");
  EXPECT_EQ(fail(OutputFormat::kCsv), "input,text,error\r\n1,,NOT_FOUND: gone\r\n");
}

TEST_F(LinesTest, ABrokenOutputEndsThem) {
  out_.setstate(std::ios::badbit);
  int count = 0;
  const auto lines = Lines("a\nb\nc\n");
  EXPECT_TRUE(ForEachLine(session_, *lines, kLineColumns, [&](const std::string&) {
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
}  // namespace beamline::cli::lines_test
