// The `beamline` program against a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/server_process.h"

namespace beamline {
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
  EXPECT_EQ(answer["models"].size(), 3u);
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

TEST(Cli, WrongUseIsTwo) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{},
        {"fly"},
        {"generate", "--beam", "x", "t"},
        {"generate", "--beam", "2", "--top-k", "3", "t"},
        {"generate", "--n", "2", "t"},
        {"generate", "--beam-groups", "2", "t"},
        {"detokenize", "--model", "write-en", "abc"},
        {"--timeout", "-1", "health"}}) {
    const Result result = Beamline(arguments);
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.err, StartsWith("beamline: "));
  }
  EXPECT_EQ(Beamline({"generate"}, "").status, 2);
}

}  // namespace
}  // namespace beamline
