// Templates against the rows that Jinja itself wrote (tools/make_chat_fixtures.py), and what is
// said of those that are refused. Takes another file of such rows as an argument.
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/jinja/template.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace beamline::jinja {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

std::string rows_file = BEAMLINE_SOURCE_DIR "/tests/engine/jinja/snippets.jsonl";

Variables ToVariables(const ordered_json& object) {
  Variables variables;
  for (const auto& [name, value] : object.items()) {
    const auto parsed = ParseJsonValue(value.dump());
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    variables.emplace_back(name, *parsed);
  }
  return variables;
}

absl::StatusOr<std::string> Render(std::string_view source, const Variables& variables = {}) {
  const auto made = Template::Parse(source);
  return made.ok() ? made->Render(variables, {}, /*now=*/1700000000) : made.status();
}

std::string Fault(std::string_view source, const Variables& variables = {}) {
  const auto text = Render(source, variables);
  return text.ok() ? "rendered: " + *text : std::string(text.status().message());
}

TEST(JinjaTest, RowsAreThoseOfJinja) {
  std::ifstream file(rows_file);
  std::string line;
  ASSERT_TRUE(std::getline(file, line)) << rows_file;
  const Variables variables = ToVariables(ordered_json::parse(line)["variables"]);
  int rendered = 0;
  int failed = 0;
  while (std::getline(file, line)) {
    const auto row = ordered_json::parse(line);
    const auto text = Render(row["template"].get<std::string>(), variables);
    if (row.contains("text")) {
      ++rendered;
      ASSERT_TRUE(text.ok()) << line << "\n" << text.status();
      EXPECT_EQ(*text, row["text"].get<std::string>()) << line;
      continue;
    }
    ++failed;
    ASSERT_FALSE(text.ok()) << line << "\n" << *text;
    const bool raised = text.status().GetPayload(kRaisedPayload).has_value();
    EXPECT_EQ(raised, row.contains("raised")) << line;
    if (raised) {
      EXPECT_EQ(text.status().message(), row["raised"].get<std::string>());
    }
  }
  EXPECT_GT(rendered, 400);
  EXPECT_GT(failed, 100);
}

TEST(JinjaTest, FaultsTellTheirLine) {
  EXPECT_EQ(Fault("a\n{{ x.y }}"), "line 2: 'x' is undefined");
  EXPECT_EQ(Fault("{% if true %}\n\n{{ 'a' + 1 }}{% endif %}"),
            "line 3: unsupported operand type(s) for +: 'str' and 'int'");
  EXPECT_EQ(Fault("\n\n{{ 1|no_such }}"), "line 3: there is no filter 'no_such'");
  EXPECT_EQ(Fault("{{ 1 is no_such }}"), "line 1: there is no test 'no_such'");
  EXPECT_EQ(Fault("{% include 'x' %}"),
            "line 1: the tag 'include' is not supported in chat templates");
  EXPECT_EQ(Fault("{% wrong %}"), "line 1: unknown tag 'wrong'");
  EXPECT_EQ(Fault("a\n{% for x in y %}"),
            "line 2: the template ends where endfor or else is expected");
  EXPECT_EQ(Fault("{{ (1 }}"), "line 1: unexpected '}', expected ')'");
  EXPECT_EQ(Fault("{{ 1 2 }}"), "line 1: '}}' is expected, found something else");
  EXPECT_EQ(Fault("{% set x 5 %}"), "line 1: '%}' is expected, found something else");
  EXPECT_EQ(Fault("{{ f(a b) }}"), "line 1: ',' is expected, found 'b'");
  EXPECT_EQ(Fault("{{ [1"), "line 1: ',' is expected, found the end of the template");
  EXPECT_EQ(Fault("{{ 99999999999999999999 }}"),
            "line 1: the number '99999999999999999999' is not one of 64 bits");
  EXPECT_EQ(Fault("{{ 9223372036854775807 + 1 }}"), "line 1: a whole number of more than 64 bits");
  EXPECT_EQ(Fault("{% break %}"), "line 1: 'break' outside of a loop");
  EXPECT_EQ(Fault("{{ nothing() }}"), "line 1: 'nothing' is undefined");
  EXPECT_EQ(Fault("{% macro f(x) %}{% endmacro %}\n{{ f(1, 2) }}"),
            "line 2: macro 'f' takes not more than 1 argument(s)");
  EXPECT_EQ(Fault("{% macro f(x) %}{% endmacro %}\n{{ f(y=2) }}"),
            "line 2: macro 'f' takes no keyword argument 'y'");
  EXPECT_EQ(Fault("{{ ''.encode() }}"), "line 1: the method 'encode' of str is not supported");
  EXPECT_EQ(Fault("{{ [].append(1) }}"),
            "line 1: access to attribute 'append' of 'list' object is unsafe.");
  EXPECT_EQ(Fault("{{ {}.update({}) }}"),
            "line 1: access to attribute 'update' of 'dict' object is unsafe.");
  EXPECT_THAT(Fault("{% set n = namespace(_x=1) %}"), HasSubstr("underscore-prefixed"));
  EXPECT_EQ(Fault("\xff"), "line 1: not UTF-8");
}

TEST(JinjaTest, RaisedMessagesStandAsTheyAre) {
  const auto text = Render("{{ raise_exception('Roles ' ~ 1 ~ '\\nend') }}");
  EXPECT_EQ(text.status().message(), "Roles 1\nend");
  // A long one ends with a character.
  const auto cut = Render("{{ raise_exception('x' ~ 'é' * 600) }}");
  EXPECT_EQ(cut.status().message().size(), 999u);
  EXPECT_TRUE(text.status().GetPayload(kRaisedPayload).has_value());
}

TEST(JinjaTest, TellsTheTime) {
  setenv("TZ", "UTC", 1);
  EXPECT_EQ(*Render("{{ strftime_now('%d %b %Y, %H:%M') }}"), "14 Nov 2023, 22:13");
  EXPECT_EQ(*Render("[{{ strftime_now('') }}]"), "[]");
}

TEST(JinjaTest, MembersKeepTheirOrder) {
  const auto value =
      ParseJsonValue(R"({"z": 1, "a": [true, null, 2.0], "é\n": {"y": {}, "b": []}})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*Render("{{ v|tojson }}", {{"v", *value}}),
            R"({"z": 1, "a": [true, null, 2.0], "é\n": {"y": {}, "b": []}})");
}

TEST(JinjaTest, JsonIsBounded) {
  const auto fault = [](const std::string& text) {
    const auto value = ParseJsonValue(text);
    return value.ok() ? "parsed" : std::string(value.status().message());
  };
  EXPECT_EQ(fault("{\"a\": 1, \"a\": 2}"), "the name \"a\" appears twice in one object");
  EXPECT_EQ(fault("[1"), "not valid JSON at byte 3");
  EXPECT_EQ(fault("1 2"), "not valid JSON at byte 3");
  EXPECT_EQ(fault(std::string("1\0", 2)), "not valid JSON at byte 2");
  EXPECT_EQ(fault("18446744073709551615"), "the number 18446744073709551615 is too large");
  EXPECT_EQ(fault(std::string(65, '[') + std::string(65, ']')), "nested deeper than 64 levels");
  EXPECT_EQ(fault(std::string(64, '[') + std::string(64, ']')), "parsed");
  std::string many = "[1";
  for (size_t i = 0; i < kMostJsonValues; ++i) many += ",1";
  EXPECT_THAT(fault(many + "]"), HasSubstr("more than 262144 values"));
}

}  // namespace
}  // namespace beamline::jinja

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) beamline::jinja::rows_file = argv[1];
  return RUN_ALL_TESTS();
}
