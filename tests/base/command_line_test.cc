#include "base/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace beamline::command_line_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A program with two commands, as ours are.
struct Program {
  Program() : app("Does something.", "program") {
    app.fallthrough();
    app.require_subcommand(1);
    app.set_version_flag("--version", "program 1");
    AddNumber<double, double>(app, "--timeout", timeout, "", 0, 100);
    CLI::App* generate = app.add_subcommand("generate", "");
    generate->add_option("text", texts, "");
    AddRepeatable(*generate, "--stop", stops, "");
    AddNumber(*generate, "--seed", seed, "");
    AddNumber(*generate, "--count", count, "");
    AddPath(*generate, "--file", file, "");
    generate->add_flag("--greedy", greedy, "");
    app.add_subcommand("models", "")->add_option_group("Kinds")->add_option("--kind", kind, "");
  }

  absl::StatusOr<std::string> Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return ParseArguments(app, static_cast<int>(arguments.size()), arguments.data());
  }

  CLI::App app;
  double timeout = 60;
  std::vector<std::string> texts, stops;
  std::string kind;
  std::optional<uint64_t> seed;
  std::optional<int32_t> count;
  std::string file;
  bool greedy = false;
};

std::string Fault(std::vector<const char*> arguments) {
  Program program;
  const auto parsed = program.Parse(std::move(arguments));
  EXPECT_FALSE(parsed.ok());
  const std::string message(parsed.status().message());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message;
}

TEST(CommandLine, RepeatableOptionsTakeOneValueEach) {
  Program program;
  ASSERT_TRUE(program.Parse({"generate", "--stop", "a", "hi", "--stop", "b", "ho"}).ok());
  EXPECT_THAT(program.stops, ElementsAre("a", "b"));
  EXPECT_THAT(program.texts, ElementsAre("hi", "ho"));
}

TEST(CommandLine, BracketsAreText) {
  Program program;
  ASSERT_TRUE(program.Parse({"generate", "--stop", "[a,b]", "[c, d]", "[]", "[e"}).ok());
  EXPECT_THAT(program.stops, ElementsAre("[a,b]"));
  EXPECT_THAT(program.texts, ElementsAre("[c, d]", "[]", "[e"));
}

TEST(CommandLine, NumbersMeanWhatTheySay) {
  Program program;
  ASSERT_TRUE(program.Parse({"generate", "--seed", "18446744073709551615", "--count", "-5"}).ok());
  EXPECT_EQ(program.seed, UINT64_MAX);
  EXPECT_EQ(program.count, -5);
  for (const char* bad : {"-1", "18446744073709551616", "1.5", "0x10", "", " 1", "1 ", "+1", "x"}) {
    EXPECT_EQ(Fault({"generate", "--seed", bad}),
              std::string("--seed is '") + bad + "'; accepted: 0 to 18446744073709551615");
  }
  EXPECT_THAT(Fault({"generate", "--count", "99999999999"}), HasSubstr("--count is '99999999999'"));
  for (const char* bad : {"nan", "inf", "-inf", "-0.5", "100.1", "1e999"}) {
    EXPECT_THAT(Fault({"--timeout", bad, "models"}), HasSubstr("accepted: 0 to 100")) << bad;
  }
  Program eight;
  ASSERT_TRUE(eight.Parse({"generate", "--count", "010"}).ok());
  EXPECT_EQ(eight.count, 10);
}

TEST(CommandLine, WhatWasProbablyMeantIsSaid) {
  EXPECT_EQ(Fault({"generate", "--gredy", "x"}),
            "there is no option '--gredy'; did you mean '--greedy'?");
  EXPECT_EQ(Fault({"generate", "--time", "3"}),
            "there is no option '--time'; did you mean '--timeout'?");
  EXPECT_EQ(Fault({"genrate", "x"}), "there is no command 'genrate'; did you mean 'generate'?");
  EXPECT_EQ(Fault({"generate", "-x degrees"}),
            "there is no option '-x degrees'; a text that begins with - goes after --");
  EXPECT_EQ(Fault({"models", "a"}), "there is an argument too many: 'a'");
  EXPECT_LT(Fault({("--" + std::string(100'000, 'x')).c_str()}).size(), 300u);
}

TEST(CommandLine, AnEmptyValueIsSaidSo) {
  EXPECT_THAT(Fault({"generate", "--stop=", "hi"}), HasSubstr("--stop= has no value"));
  EXPECT_THAT(Fault({"generate", "--file", ""}), HasSubstr("--file is ''"));
  Program program;
  ASSERT_TRUE(program.Parse({"generate", "--stop", "", "--", "--stop="}).ok());
  EXPECT_THAT(program.stops, ElementsAre(""));
  EXPECT_THAT(program.texts, ElementsAre("--stop="));
}

// CLI11 finds the option group, which has no name, by it, and would never end.
TEST(CommandLine, AnEmptyArgumentIsAnArgument) {
  EXPECT_EQ(Program().Parse({"models", ""}).status().message(),
            "there is an argument too many: ''");
  EXPECT_EQ(Program().Parse({"models", "--kind", "a", "", "--kind", "b"}).status().message(),
            "there is an argument too many: ''");
  EXPECT_EQ(Program().Parse({""}).status().message(), "there is no command ''");
  Program program;
  ASSERT_TRUE(program.Parse({"generate", "", "a", "--stop", ""}).ok());
  EXPECT_THAT(program.texts, ElementsAre("", "a"));
  EXPECT_THAT(program.stops, ElementsAre(""));
}

TEST(CommandLine, HelpAndVersionAreTexts) {
  EXPECT_THAT(*Program().Parse({"--help"}), HasSubstr("program"));
  EXPECT_THAT(*Program().Parse({"generate", "--help"}), HasSubstr("--stop"));
  EXPECT_EQ(*Program().Parse({"--version"}), "program 1\n");
  EXPECT_EQ(*Program().Parse({"models"}), "");
}

}  // namespace
}  // namespace beamline::command_line_test
