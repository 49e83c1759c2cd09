// `beamline chat` against a RecordingServer: what each turn is sent with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/client/cli/cli_runner.h"

namespace beamline::cli::chat_command_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

CliResult Converse(const RecordingServer& server, const std::string& input,
                   const Arguments& more = {}) {
  Arguments arguments = {"chat", "--model", "m"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return RunCli(server, arguments, input);
}

// "user: hello | assistant: ..." of each request.
std::vector<std::string> Sent(const RecordingServer& server) {
  std::vector<std::string> sent;
  for (const v1::GenerateRequest& request : server.generates()) {
    std::string all;
    for (const v1::ChatMessage& message : request.prompt().chat().messages()) {
      all += (all.empty() ? "" : " | ") + message.role() + ": " + message.content();
    }
    sent.push_back(all);
  }
  return sent;
}

// What the server answers to whatever it is asked.
std::string AnswerOf(const RecordingServer& server) {
  const CliResult result = Converse(server, "x\n");
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out.substr(0, result.out.find('\n'));
}

TEST(ChatCommand, SendsEachTurnWithTheTurnsAndAnswersBeforeIt) {
  const RecordingServer asked;
  const std::string answer = AnswerOf(asked);
  ASSERT_FALSE(answer.empty());
  const RecordingServer server;
  const CliResult result = Converse(server, "one\n\n  \ntwo\n");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, answer + "\n" + answer + "\n");
  EXPECT_THAT(result.err, HasSubstr("(5 prompt "));
  EXPECT_THAT(Sent(server),
              ElementsAre("user: one", "user: one | assistant: " + answer + " | user: two"));
  EXPECT_EQ(server.calls()[0].rpc, "GenerateStream");
  EXPECT_EQ(server.generates()[0].model(), "m");
}

TEST(ChatCommand, ResetsToItsBeginningAndTakesTurnsBack) {
  const RecordingServer server;
  const CliResult result =
      Converse(server, "one\n/undo\ntwo\n/reset\n//etc\n", {"--system", "Be brief."});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(Sent(server),
              ElementsAre("system: Be brief. | user: one", "system: Be brief. | user: two",
                          "system: Be brief. | user: /etc"));
}

TEST(ChatCommand, BeginsWithTheConversationOfAFile) {
  const TextFile file(R"({"messages": [{"role": "user", "content": "a"}], "template": "t"})");
  const RecordingServer server;
  ASSERT_EQ(Converse(server, "b\n/reset\nc\n", {"--chat", file.path(), "--system", "s"}).status, 0);
  EXPECT_THAT(Sent(server),
              ElementsAre("system: s | user: a | user: b", "system: s | user: a | user: c"));
  EXPECT_EQ(server.generates()[1].prompt().chat().template_(), "t");
}

TEST(ChatCommand, OptionsGoIntoEachRequest) {
  const RecordingServer server;
  ASSERT_EQ(Converse(server, "a\nb\n",
                     {"--temperature", "0.5", "--top-k", "3", "--top-p", "0.75", "--seed", "7",
                      "--max-new-tokens", "9", "--stop", "x", "--priority", "2"})
                .status,
            0);
  for (const v1::GenerateRequest& request : server.generates()) {
    EXPECT_EQ(request.sampling().temperature(), 0.5f);
    EXPECT_EQ(request.sampling().top_k(), 3);
    EXPECT_EQ(request.sampling().top_p(), 0.75f);
    EXPECT_EQ(request.sampling().seed(), 7u);
    EXPECT_EQ(request.limits().max_new_tokens(), 9);
    EXPECT_THAT(request.limits().stop(), ElementsAre("x"));
    EXPECT_EQ(request.priority(), 2);
  }
  EXPECT_EQ(server.generates().size(), 2u);
}

TEST(ChatCommand, WhatFailsIsNoPartOfTheConversation) {
  RecordingServer server;
  server.Fail({grpc::StatusCode::INVALID_ARGUMENT, "roles must alternate"});
  const CliResult result = Converse(server, "one\ntwo\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("line 2: INVALID_ARGUMENT: roles must alternate"));
  EXPECT_THAT(result.err, HasSubstr("2 of 2 lines failed"));
  EXPECT_THAT(Sent(server), ElementsAre("user: one", "user: two"));
}

TEST(ChatCommand, HelpAndTheEndAreCommands) {
  const RecordingServer server;
  const CliResult result = Converse(server, "/help\none\n/quit \ntwo\n");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(Sent(server), ElementsAre("user: one"));
  for (const char* command : {"/help ", "/reset ", "/undo ", "/quit ", "//TEXT "}) {
    EXPECT_THAT(result.err, HasSubstr(std::string(command))) << result.err;
  }
  // Neither is a part of the answers.
  EXPECT_THAT(result.out, testing::Not(HasSubstr("/reset")));
  // Keys are those of lines that are edited.
  EXPECT_THAT(result.err, testing::Not(HasSubstr("Up and Down")));
  EXPECT_EQ(Converse(server, "a\n", {"--history", "file"}).status, 2);
}

TEST(ChatCommand, RefusesWhatItDoesNotKnow) {
  const RecordingServer server;
  const CliResult command = Converse(server, "/quitt\n/undo\n\xff\n");
  EXPECT_EQ(command.status, 1);
  EXPECT_THAT(command.err,
              HasSubstr("line 1: INVALID_ARGUMENT: there is no command '/quitt'; there are /help, "
                        "/reset, /undo, /quit, and //"));
  EXPECT_THAT(command.err, HasSubstr("line 2: INVALID_ARGUMENT: there is nothing to undo"));
  EXPECT_THAT(command.err, HasSubstr("line 3: INVALID_ARGUMENT: "));
  EXPECT_TRUE(server.generates().empty());

  EXPECT_EQ(Converse(server, "a\n", {"--output", "json"}).status, 2);
  EXPECT_EQ(Converse(server, "a\n", {"--greedy", "--top-k", "2"}).status, 2);
  EXPECT_EQ(Converse(server, "").status, 0);  // nothing was said
  const TextFile file(R"([{"role": "system", "content": "a"}])");
  const CliResult twice = Converse(server, "a\n", {"--chat", file.path(), "--system", "s"});
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.err, HasSubstr("--system goes with a --chat that has no system message"));
}

}  // namespace
}  // namespace beamline::cli::chat_command_test
