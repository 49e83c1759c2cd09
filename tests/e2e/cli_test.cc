// The `beamline` program against a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/server_process.h"

namespace beamline::cli_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

struct Result {
  int status = 0;
  std::string out;
  std::string err;
};

Result Beamline(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), {"--address", SharedServer().address()});
  ChildProcess process(BEAMLINE_CLI_BINARY, arguments, input);
  Result result;
  result.status = process.Wait();
  result.out = process.out();
  result.err = process.err();
  return result;
}

TEST(Cli, TranslatesWithItsTimings) {
  const Result result = Beamline({"translate", "The package was not found."});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "Das Paket wurde nicht gefunden.\n");
  EXPECT_THAT(result.err, HasSubstr("generated tokens"));
}

TEST(Cli, StreamedAndWholeAreTheSame) {
  const std::vector<std::string> arguments = {"generate", "--max-new-tokens", "12", "Package: "};
  auto streamed = arguments;
  streamed.insert(streamed.begin() + 1, "--stream");
  EXPECT_EQ(Beamline(arguments).out, Beamline(streamed).out);
}

TEST(Cli, LinesOfStandardInput) {
  const Result result = Beamline({"translate", "-"}, "one file\ntwo files\n");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2);
}

TEST(Cli, JsonIsTheContract) {
  json answer = json::parse(Beamline({"generate", "--beam", "3", "--n", "2", "--logprobs", "1",
                                      "--max-new-tokens", "4", "--json", "Package: "})
                                .out);
  EXPECT_EQ(answer["sequences"].size(), 2u);
  EXPECT_EQ(answer["sequences"][0]["logprobs"].size(), 4u);
  EXPECT_EQ(answer["model"], "write-en");
  answer =
      json::parse(Beamline({"generate", "--beam", "4", "--beam-groups", "2", "--diversity-penalty",
                            "9", "--n", "4", "--max-new-tokens", "4", "--json", "Package: "})
                      .out);
  EXPECT_EQ(answer["sequences"].size(), 4u);
  answer = json::parse(Beamline({"--json", "encode", "--dimensions", "8", "a", "b"}).out);
  EXPECT_EQ(answer["embeddings"][1]["values"].size(), 8u);
  answer = json::parse(Beamline({"tokenize", "--json", "--model", "embed-en", "Hello"}).out);
  EXPECT_EQ(answer["tokens"][0]["piece"], "[CLS]");
  answer = json::parse(Beamline({"models", "--json"}).out);
  EXPECT_EQ(answer["models"].size(), 6u);
  answer = json::parse(Beamline({"health", "--json"}).out);
  EXPECT_EQ(answer["status"], "SERVING");
}

TEST(Cli, TablesForPeople) {
  EXPECT_THAT(Beamline({"models"}).out, HasSubstr("BertModel"));
  EXPECT_THAT(Beamline({"models", "write-en"}).out, HasSubstr("byte-level BPE"));
  EXPECT_THAT(Beamline({"encode", "a", "b"}).out, HasSubstr("similarity"));
  const Result tokens = Beamline({"tokenize", "--model", "write-en", "Hello"});
  EXPECT_THAT(tokens.out, HasSubstr("piece"));
  EXPECT_EQ(Beamline({"health", "embed-en"}).out, "SERVING\n");
}

TEST(Cli, ScoresContinuations) {
  const Result table = Beamline({"score", "Package: vim", "\nSynopsis:", "\nElephants:"});
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("logprob"));
  const json answer =
      json::parse(Beamline({"score", "--json", "--per-token", "--ids", "50 41", "68", "7 8"}).out);
  EXPECT_EQ(answer["model"], "write-en");
  EXPECT_EQ(answer["scores"][1]["num_tokens"], 2);
  EXPECT_EQ(answer["scores"][1]["tokens"][1]["id"], 8);
  EXPECT_LT(answer["scores"][0]["logprob"].get<double>(), 0.0);
  EXPECT_EQ(Beamline({"score", "only a prompt"}, "").status, 2);
}

class PromptFile {
 public:
  explicit PromptFile(const std::string& text)
      : path_(testing::TempDir() + "beamline_prompts_" + std::to_string(getpid()) + ".txt") {
    std::ofstream(path_) << text;
  }
  ~PromptFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Cli, GeneratesForEveryLineOfAFile) {
  const PromptFile file("one file\ntwo files\nthree files\n");
  const Result many = Beamline({"translate", "--greedy", "--file", file.path()});
  EXPECT_EQ(many.status, 0) << many.err;
  EXPECT_EQ(many.out, Beamline({"translate", "--greedy", "--no-stream", "-"},
                               "one file\ntwo files\nthree files\n")
                          .out);
  EXPECT_THAT(many.err, HasSubstr("3 answers"));
  EXPECT_EQ(Beamline({"translate", "--file", file.path(), "a text too"}).status, 2);
  EXPECT_EQ(Beamline({"translate", "--file", "/nowhere"}).status, 2);
}

TEST(Cli, EncodesEveryLineOfAFile) {
  const PromptFile file("one\ntwo\n");
  std::istringstream lines(Beamline({"encode", "--json", "--file", file.path()}).out);
  int answers = 0;
  for (std::string line; std::getline(lines, line); ++answers) {
    const json answer = json::parse(line);
    EXPECT_EQ(answer["request_id"], std::to_string(answers + 1));
    EXPECT_EQ(answer["response"]["embeddings"].size(), 1u);
  }
  EXPECT_EQ(answers, 2);
  EXPECT_THAT(Beamline({"encode", "--file", file.path()}).out, HasSubstr("256 dimensions"));
}

TEST(Cli, LinesOfAFileThatFailKeepTheirPlace) {
  std::string too_long;
  for (int i = 0; i < 1000; ++i) too_long += " z";
  const PromptFile file("Package: a\n" + too_long + "\nPackage: c\n");
  const Result many =
      Beamline({"generate", "--max-new-tokens", "3", "--json", "--file", file.path()});
  EXPECT_EQ(many.status, 1);
  EXPECT_THAT(many.err, HasSubstr("line 2: INVALID_ARGUMENT: prompt has "));
  EXPECT_THAT(many.err, HasSubstr("beamline: INVALID_ARGUMENT: 1 of 3 lines failed"));
  std::istringstream lines(many.out);
  std::vector<json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0]["response"]["sequences"].size(), 1u);
  EXPECT_EQ(answers[1]["error"]["code"], 3);
  EXPECT_EQ(answers[2]["request_id"], "3");
}

TEST(Cli, ALineThatFailsDoesNotEndTheRest) {
  for (const std::string stream : {"--no-stream", "--stream"}) {
    const Result result = Beamline({"generate", "--model", "write-en", "--greedy",
                                    "--max-new-tokens", "2", "--ids", stream, "-"},
                                   "50 41\nfifty\n50 41\n999999999\n50 41");
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5) << result.out;
    EXPECT_THAT(result.err, HasSubstr("line 2: INVALID_ARGUMENT: 'fifty' is not a token id\n"));
    EXPECT_THAT(result.err, HasSubstr("line 4: INVALID_ARGUMENT: "));
    EXPECT_THAT(result.err, HasSubstr("2 of 5 lines failed"));
  }
  const Result tokens = Beamline({"detokenize", "--model", "write-en"}, "50 41\nx\n68\n");
  EXPECT_EQ(tokens.status, 1);
  EXPECT_EQ(std::count(tokens.out.begin(), tokens.out.end(), '\n'), 3);
  const Result text = Beamline({"encode", "-"}, "one\n\xFF\ntwo\n");
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.err, StartsWith("line 2: INVALID_ARGUMENT: the text is not valid UTF-8\n"));
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 3);
}

// gRPC ends a stream with a message that is larger than the server takes.
TEST(Cli, ALineOverTheLimitFailsAlone) {
  const PromptFile file("one file\n" + std::string(5 << 20, 'x') + "\ntwo files\n" +
                        std::string(6 << 20, 'y') + "\nthree files\n");
  for (const char* command : {"translate", "encode"}) {
    const Result many = Beamline({command, "--json", "--file", file.path()});
    EXPECT_EQ(many.status, 1);
    std::istringstream lines(many.out);
    std::vector<json> answers;
    for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line));
    ASSERT_EQ(answers.size(), 5u) << many.err;
    for (const size_t place : {0u, 2u, 4u}) {
      EXPECT_TRUE(answers[place].contains("response")) << answers[place];
    }
    for (const size_t place : {1u, 3u}) {
      EXPECT_EQ(answers[place]["error"]["code"], 8);
      EXPECT_THAT(answers[place]["error"]["message"].get<std::string>(),
                  HasSubstr("the server accepts at most 4194304"));
    }
    EXPECT_THAT(many.err, HasSubstr("2 of 5 lines failed"));
  }
}

// A line is sent when it comes, and answered before the next one is there.
TEST(Cli, StandardInputIsNotReadToItsEndFirst) {
  const std::string pipe = testing::TempDir() + "beamline_pipe_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string command : {"translate", "encode", "tokenize"}) {
    std::vector<std::string> arguments = {
        "-c",        "exec \"$0\" \"$@\" < " + pipe, BEAMLINE_CLI_BINARY,
        "--address", SharedServer().address(),       command,
        "--json"};
    if (command == "tokenize") arguments.insert(arguments.end(), {"--model", "embed-en"});
    ChildProcess process("/bin/sh", arguments);
    std::ofstream input(pipe);
    input << "one file\n" << std::flush;
    EXPECT_TRUE(json::parse(process.ReadLine()).is_object()) << command;
    input << "two files\n" << std::flush;
    input.close();
    EXPECT_EQ(process.Wait(), 0) << process.err();
    EXPECT_EQ(std::count(process.out().begin(), process.out().end(), '\n'), 2);
  }
  std::filesystem::remove(pipe);
}

TEST(Cli, RepeatableOptionsLeaveTheText) {
  for (const std::vector<std::string>& option : {std::vector<std::string>{"--stop", "X"},
                                                 {"--bad-word", "zebra"},
                                                 {"--stop-token-id", "5"},
                                                 {"--suppress-token", "5"},
                                                 {"--logit-bias", "5=-1"}}) {
    const Result result = Beamline({"generate", "--model", "write-en", "--greedy", "--no-stream",
                                    "--echo", "--max-new-tokens", "1", option[0], option[1], "hi"},
                                   "standard input\n");
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.out, StartsWith("hi")) << option[0];
  }
}

// A word that is not known would otherwise be the default.
TEST(Cli, WordsOutsideOfAChoiceAreRefused) {
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"encode", "--pooling", "middle"},
        {"encode", "--truncate", "sideways"},
        {"translate", "--early-stopping", "perhaps"}}) {
    const Result result = Beamline({option[0], option[1], option[2], "a text"}, "");
    EXPECT_EQ(result.status, 2) << option[1];
    EXPECT_THAT(result.err, HasSubstr(option[1]));
    EXPECT_THAT(result.err, HasSubstr(option[2]));
  }
}

TEST(Cli, OutputThatCannotBeWrittenEndsIt) {
  for (const char* to : {"> /dev/full", ">&-"}) {
    for (const char* how : {"--stream", "--no-stream"}) {
      ChildProcess process("/bin/sh",
                           {"-c", std::string("exec \"$0\" \"$@\" ") + to, BEAMLINE_CLI_BINARY,
                            "--address", SharedServer().address(), "translate", how, "one file"});
      EXPECT_EQ(process.Wait(), 1) << to;
      EXPECT_THAT(process.err(), HasSubstr("beamline: standard output cannot be written: "));
    }
  }
  // The reader goes after the first of very many lines.
  ChildProcess process("/bin/sh",
                       {"-c", "yes one file | { \"$0\" \"$@\"; echo status $? >&2; } | head -n 1",
                        BEAMLINE_CLI_BINARY, "--address", SharedServer().address(), "encode", "-"});
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(process.err(), HasSubstr("Broken pipe"));
  EXPECT_THAT(process.err(), HasSubstr("status 1\n"));
}

// Nothing else takes the number of a closed standard input, to be read in its place.
TEST(Cli, AClosedStandardInputIsAnErrorAtOnce) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"translate"},
                                                    {"encode", "-"},
                                                    {"tokenize", "--model", "embed-en"}}) {
    std::vector<std::string> all = {"-c", "exec timeout 20 \"$0\" \"$@\" <&-", BEAMLINE_CLI_BINARY,
                                    "--address", SharedServer().address()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    ChildProcess process("/bin/sh", all);
    EXPECT_EQ(process.Wait(), 1) << arguments[0];
    EXPECT_THAT(process.err(), HasSubstr("standard input cannot be read: Bad file descriptor"));
  }
}

TEST(Cli, SlipsAreRecognized) {
  EXPECT_THAT(Beamline({"translat", "x"}).err, HasSubstr("did you mean 'translate'?"));
  EXPECT_THAT(Beamline({"generate", "--gredy", "x"}).err, HasSubstr("did you mean '--greedy'?"));
  EXPECT_THAT(Beamline({"generate", "--model", "write-em", "x"}).err,
              HasSubstr("did you mean 'write-en'?"));
  EXPECT_THAT(Beamline({"models", "embed_en"}).err, HasSubstr("did you mean 'embed-en'?"));
}

TEST(Cli, AnAddressHasAPort) {
  for (const char* address : {"127.0.0.1", "http://127.0.0.1:50051", "::1", "localhost:99999"}) {
    ChildProcess process(BEAMLINE_CLI_BINARY, {"--address", address, "health"});
    EXPECT_EQ(process.Wait(), 2) << address;
    EXPECT_THAT(process.err(), StartsWith("beamline: --address is '" + std::string(address) +
                                          "'; accepted: host:port"));
  }
}

TEST(Cli, DetokenizeUndoesTokenize) {
  const json tokens = json::parse(
      Beamline({"tokenize", "--json", "--model", "write-en", "text editor"}).out)["tokens"];
  std::vector<std::string> arguments = {"detokenize", "--model", "write-en"};
  for (const json& token : tokens) arguments.push_back(std::to_string(token["id"].get<int>()));
  EXPECT_EQ(Beamline(arguments).out, "text editor\n");
}

TEST(Cli, ErrorsAreOneLineAndOne) {
  const Result result = Beamline({"generate", "--max-new-tokens", "0", "x"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, StartsWith("beamline: INVALID_ARGUMENT: limits.max_new_tokens is 0"));
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1);
  EXPECT_EQ(Beamline({"models", "nothing"}).status, 1);
  ChildProcess lonely(BEAMLINE_CLI_BINARY,
                      {"--address", "127.0.0.1:1", "--timeout", "5", "health"});
  EXPECT_EQ(lonely.Wait(), 1);
  EXPECT_THAT(lonely.err(), StartsWith("beamline: UNAVAILABLE: "));
}

TEST(Cli, AJsonErrorHasTheServersDetails) {
  const Result one = Beamline({"--output", "json", "generate", "--max-new-tokens", "0", "x"});
  EXPECT_EQ(one.status, 1);
  const json error = json::parse(one.out)["error"];
  EXPECT_EQ(error["code"], 3);
  EXPECT_EQ(error["details"][0]["field_violations"][0]["field"], "limits.max_new_tokens");
  const Result lines =
      Beamline({"--output", "json", "translate", "--max-new-tokens", "0", "-"}, "a line\n");
  EXPECT_EQ(json::parse(lines.out)["error"]["details"], error["details"]);
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 1);
}

TEST(Cli, WrongUseIsTwo) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{},
        {"fly"},
        {"generate", "--beam", "x", "t"},
        {"generate", "--beam", "2", "--top-k", "3", "t"},
        {"generate", "--n", "2", "t"},
        {"generate", "--beam-groups", "2", "t"},
        {"detokenize", "--model", "write-en", "abc"},
        {"generate", "--seed", "-1", "t"},
        {"generate", "--max-new-tokens", "99999999999", "t"},
        {"generate", "\xFF"},
        {"--timeout", "-1", "health"}}) {
    const Result result = Beamline(arguments);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.err, StartsWith("beamline: "));
  }
  EXPECT_EQ(Beamline({"generate"}, "").status, 2);
}

}  // namespace
}  // namespace beamline::cli_test
