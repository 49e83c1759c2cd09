// Formats of answers, and styles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "client/cli/format.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/style.h"
#include "tests/client/cli/cli_runner.h"

namespace beamline::cli::output_format_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using Strings = std::vector<std::string>;

std::string CsvOf(const Strings& arguments, const std::string& input = "") {
  const RecordingServer server;
  Strings all = {"--output", "csv"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const CliResult result = RunCli(server, all, input);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

TEST(Csv, FieldsAreQuotedAsRfc4180Says) {
  EXPECT_EQ(CsvRecord(Strings{"a", "", "b c"}), "a,,b c\r\n");
  EXPECT_EQ(CsvRecord(Strings{"a,b", "say \"x\"", "two\nlines", "\r"}),
            "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\"\r\"\r\n");
}

TEST(Csv, OfEachCommand) {
  EXPECT_EQ(CsvOf({"generate", "p", "q,r"}),
            "input,sequence,text,score,finish_reason,ids,logprobs,prompt_tokens,cached_tokens,"
            "generated_tokens,first_token_s,total_s,error\r\n"
            "1,1,<p>,-1,EOS,,,5,2,3,0.002,0.01,\r\n"
            "2,1,\"<q,r>\",-1,EOS,,,5,2,3,0.002,0.01,\r\n");
  EXPECT_THAT(CsvOf({"generate", "--logprobs", "2", "p"}), HasSubstr("EOS,,-0.5,5,"));
  EXPECT_EQ(CsvOf({"encode", "--dimensions", "2", "a", "bc"}),
            "input,vector,tokens,dimensions,values,error\r\n1,1,1,2,1 1,\r\n2,1,2,2,2 1,\r\n");
  EXPECT_EQ(CsvOf({"score", "--per-token", "p", "c"}),
            "continuation,text,logprob,tokens,logprob_per_token,ids,token_logprobs\r\n"
            "1,c,-3,2,-1.5,40 41,-1.5 -1.5\r\n");
  EXPECT_EQ(CsvOf({"tokenize", "--no-special-tokens", "a"}),
            "input,id,begin,end,special,piece,error\r\n1,97,0,1,false,a,\r\n");
  EXPECT_EQ(CsvOf({"detokenize"}, "5 6\n7\n"), "input,text,error\r\n1,(5)(6),\r\n2,(7),\r\n");
  EXPECT_EQ(CsvOf({"health"}), "model,status\r\n,SERVING\r\n");
  const std::string models = CsvOf({"models"});
  EXPECT_THAT(models, StartsWith("name,version,state,task,architecture,parameters,data_type,"));
  EXPECT_THAT(models, HasSubstr("\r\nwriter,1,ready,generate,Model,1234567,bfloat16,2048,"));
  EXPECT_THAT(models, HasSubstr("\r\ntorn,12,failed,,,,,,,,,,,0,,config.json: torn\r\n"));
  for (const Strings& one : {Strings{"models", "writer"}, {"load", "m"}, {"unload", "m"}}) {
    EXPECT_THAT(CsvOf(one), StartsWith("name,version,state,")) << one[0];
  }
}

TEST(Csv, ALineThatFailsIsARow) {
  const RecordingServer server;
  const CliResult result =
      RunCli(server, {"--output", "csv", "encode", "--dimensions", "1", "-"}, "a\nbad\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out,
            "input,vector,tokens,dimensions,values,error\r\n1,1,1,1,1,\r\n"
            "2,,,,,INVALID_ARGUMENT: prompt is bad\r\n");
}

TEST(Csv, WhatItCannotShowIsRefused) {
  const RecordingServer server;
  for (const Strings& flags : {Strings{"--stream"}, {"--prompt-logprobs", "1"}}) {
    Strings arguments = {"--output", "csv", "generate", "p"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const CliResult result = RunCli(server, arguments);
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, HasSubstr(flags[0] + " goes with --output table or json"));
  }
}

TEST(Json, ACallThatFailsHasItsErrorInThePlaceOfTheAnswer) {
  constexpr char kError[] =
      "{\"error\":{\"code\":3,\"message\":\"no \\\"such\\\"\",\"details\":[]}}\n";
  RecordingServer server;
  server.Fail({grpc::StatusCode::INVALID_ARGUMENT, "no \"such\""});
  for (const Strings& command : {Strings{"generate", "--model", "m", "p"},
                                 {"encode", "a"},
                                 {"models"},
                                 {"score", "--model", "m", "p", "c"}}) {
    for (const char* format : {"json", "table", "csv"}) {
      Strings arguments = {"--output", format};
      arguments.insert(arguments.end(), command.begin(), command.end());
      const CliResult result = RunCli(server, arguments);
      EXPECT_EQ(result.status, 1);
      EXPECT_EQ(result.out, std::string_view(format) == "json" ? kError : "") << command[0];
      EXPECT_EQ(result.err, "beamline: INVALID_ARGUMENT: no \"such\"\n");
    }
  }
  // A stream ends with it, behind what came before.
  const std::string stream =
      RunCli(server, {"--json", "generate", "--model", "m", "--stream", "p"}).out;
  EXPECT_THAT(stream, testing::AllOf(StartsWith("{\"deltas\":"),
                                     testing::EndsWith(std::string("}\n") + kError)));
  EXPECT_EQ(RunCli(server, {"--json", "--output", "csv", "models"}).status, 2);
  EXPECT_EQ(RunCli(server, {"--output", "xml", "models"}).status, 2);
}

// Of the environment while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> old_;
};

TEST(StyleTest, IsForTerminalsAlone) {
  const Variable terminal("TERM", "xterm"), none("NO_COLOR", nullptr);
  EXPECT_TRUE(UsesColor(ColorMode::kAuto, true));
  EXPECT_FALSE(UsesColor(ColorMode::kAuto, false));
  EXPECT_TRUE(UsesColor(ColorMode::kAlways, false));
  EXPECT_FALSE(UsesColor(ColorMode::kNever, true));
  for (const char* no : {"1", "0", "no"}) {
    const Variable set("NO_COLOR", no);
    EXPECT_FALSE(UsesColor(ColorMode::kAuto, true)) << no;
    EXPECT_TRUE(UsesColor(ColorMode::kAlways, true)) << no;
  }
  const Variable empty("NO_COLOR", "");
  EXPECT_TRUE(UsesColor(ColorMode::kAuto, true));
  const Variable dumb("TERM", "dumb");
  EXPECT_FALSE(UsesColor(ColorMode::kAuto, true));
}

TEST(StyleTest, TakesNoPlaceInTables) {
  const Style style(true);
  EXPECT_EQ(ShownWidth(style.Bad("grün")), 4U);
  EXPECT_EQ(Style().Bad("x"), "x");
  EXPECT_EQ(FormatTable({{"a", "b"}, {style.Good("up"), "1"}, {"down", "2"}}, style),
            "\x1b[1ma     b\x1b[0m\n\x1b[32mup\x1b[0m    1\ndown  2\n");
}

TEST(StyleTest, ProgramsDecide) {
  const Variable terminal("TERM", "xterm"), none("NO_COLOR", nullptr);
  const RecordingServer server;
  EXPECT_THAT(RunCli(server, {"models"}, "", true).out, HasSubstr("\x1b[32mready\x1b[0m"));
  EXPECT_THAT(RunCli(server, {"--color", "always", "health"}).out, "\x1b[32mSERVING\x1b[0m\n");
  for (const Strings& plain : {Strings{"models"}, {"models", "--color", "never"}}) {
    EXPECT_THAT(RunCli(server, plain, "", plain.size() > 1).out, Not(HasSubstr("\x1b")));
  }
  for (const char* format : {"json", "csv"}) {
    EXPECT_THAT(RunCli(server, {"--color", "always", "--output", format, "models"}).out,
                Not(HasSubstr("\x1b")));
  }
}

TEST(ProgressTest, ABarWhereTheEndIsKnown) {
  EXPECT_EQ(FormatLineProgress({500, 1000, 5000, 10000}, 10, 80),
            " 25% [#######-----------------------]  500 lines  50/s  0:30 left");
  EXPECT_EQ(FormatLineProgress({1000, 1000, 10000, 10000}, 10, 60),
            "100% [######################]  1,000 lines  100/s  0:00 left");
  EXPECT_EQ(FormatLineProgress({0, 0, 0, 10000}, 3, 80),
            "  0% [------------------------------]  0 lines  0.0/s  0:03");
  EXPECT_EQ(FormatLineProgress({1, 4, 40, 0}, 4000, 80), "1 line  0.0/s  1:06:40");
  EXPECT_EQ(FormatLineProgress({1, 2, 10, 10}, 2, 20), " 50%  1 line  0.5/s  0:02 left");
  EXPECT_EQ(FormatWait("loading m", 67), "loading m  1:07");
}

}  // namespace
}  // namespace beamline::cli::output_format_test
