#include "client/cli/chat_file.h"

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scratch_path.h"

namespace beamline::chat_file_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

absl::StatusOr<v1::Chat> Read(const std::string& text) {
  const std::string path = ScratchPath("conversation.json");
  std::ofstream(path) << text;
  return cli::ReadChatFile(path);
}

std::string Fault(const std::string& text) {
  const auto chat = Read(text);
  return chat.ok() ? "read" : std::string(chat.status().message());
}

TEST(ChatFileTest, ReadsMessages) {
  const auto chat = Read(R"([{"role": "system", "content": "a"}, {"role": "user"},
    {"content": [1], "role": "assistant", "tool_calls": [{"z": 1, "a": 2}]}])");
  ASSERT_TRUE(chat.ok()) << chat.status();
  ASSERT_EQ(chat->messages_size(), 3);
  EXPECT_EQ(chat->messages(0).role(), "system");
  EXPECT_EQ(chat->messages(0).content(), "a");
  EXPECT_FALSE(chat->messages(1).has_content());
  EXPECT_EQ(chat->messages(2).members_json(), R"({"content":[1],"tool_calls":[{"z": 1, "a": 2}]})");
  EXPECT_FALSE(chat->has_add_generation_prompt());
}

TEST(ChatFileTest, ReadsWhatGoesWithThem) {
  const auto chat = Read(R"({"messages": [{"role": "user"}], "tools": [{"b": 1, "a": 2}],
    "documents": [{}], "template_options": {"x": 1}, "add_generation_prompt": false,
    "template": "rag"})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->messages_size(), 1);
  EXPECT_EQ(chat->tools_json(), R"([{"b": 1, "a": 2}])");
  EXPECT_EQ(chat->documents_json(), "[{}]");
  EXPECT_EQ(chat->template_options_json(), R"({"x": 1})");
  EXPECT_TRUE(chat->has_add_generation_prompt());
  EXPECT_FALSE(chat->add_generation_prompt());
  EXPECT_EQ(chat->template_(), "rag");
}

TEST(ChatFileTest, FaultsNameTheFile) {
  EXPECT_THAT(Fault("{"), HasSubstr("conversation.json': JSON: not valid JSON at byte 2"));
  EXPECT_THAT(Fault("5"), HasSubstr("a list of messages, or an object with \"messages\""));
  EXPECT_THAT(Fault(R"({"tools": []})"), HasSubstr("a list of messages, or an object"));
  EXPECT_THAT(Fault(R"({"messages": {}})"), EndsWith("a list of messages is expected"));
  EXPECT_THAT(Fault(R"([{"role": "user"}, {"content": "x"}])"),
              EndsWith("message 2 is no object with a \"role\""));
  EXPECT_THAT(Fault(R"({"messages": [], "tool": []})"), HasSubstr("\"tool\" is not one of"));
  EXPECT_THAT(Fault(R"({"messages": [], "template": 5})"), HasSubstr("\"template\" is not one of"));
  EXPECT_THAT(std::string(cli::ReadChatFile("/nonexistent").status().message()),
              HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace beamline::chat_file_test
