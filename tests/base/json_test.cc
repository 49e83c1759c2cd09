#include "base/json.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/text.h"
#include "base/utf8.h"
#include "tests/test_seed.h"

namespace beamline::json_test {
namespace {

std::string Fault(const std::string& text) {
  return std::string(ParseJson(text, "a.json").status().message());
}

TEST(Json, ReadsValues) {
  EXPECT_EQ(*ParseJson("[1, {\"a\": null}]", "a.json"), nlohmann::json({1, {{"a", nullptr}}}));
  EXPECT_EQ((*ParseJsonObject("{\"a\": {\"a\": 1}}", "a.json"))["a"]["a"], 1);
}

TEST(Json, FaultsNameTheFileAndThePlace) {
  EXPECT_EQ(Fault("[1, 2"), "a.json: not valid JSON at byte 6");
  EXPECT_EQ(Fault("[1] 2"), "a.json: not valid JSON at byte 5");
  EXPECT_EQ(Fault(std::string("[1]\0[2]", 7)), "a.json: not valid JSON at byte 4");
  EXPECT_EQ(Fault(R"({"a": 1, "b": {"a": 2}, "a": 3})"),
            "a.json: the name \"a\" appears twice in one object");
  EXPECT_EQ(
      Fault("{\"" + std::string(5000, 'x') + "\":0,\"" + std::string(5000, 'x') + "\":0}"),
      "a.json: the name \"" + Shorten(std::string(5000, 'x')) + "\" appears twice in one object");
  EXPECT_EQ(std::string(ParseJsonObject("[]", "a.json").status().message()),
            "a.json: a JSON object is expected, found array");
}

TEST(Json, IsNestedUpToALimit) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(Fault(nested(64)), "");
  EXPECT_EQ(Fault(nested(65)), "a.json: nested deeper than 64 levels");
  EXPECT_EQ(Fault(nested(1 << 20)), "a.json: nested deeper than 64 levels");
}

TEST(Json, WholeNumbersAreNotCut) {
  const auto whole = [](const char* text) { return WholeNumber(*ParseJson(text, ""), -3, 7); };
  EXPECT_EQ(whole("-3"), -3);
  EXPECT_EQ(whole("7"), 7);
  for (const char* text : {"-4", "8", "3.0", "1e0", "\"3\"", "true", "null", "[3]", "4294967299",
                           "18446744073709551613"}) {
    EXPECT_EQ(whole(text), std::nullopt) << text;
  }
  EXPECT_EQ(WholeNumber(*ParseJson("9223372036854775807", ""), INT64_MIN, INT64_MAX), INT64_MAX);
  EXPECT_EQ(WholeNumber(*ParseJson("9223372036854775808", ""), INT64_MIN, INT64_MAX), std::nullopt);
}

// Whatever the bytes are: what is read back is what was written, and nothing but ASCII is written.
TEST(JsonString, IsReadAsTheTextThatItIs) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 2000; ++round) {
    // Plain texts, such with one byte of another kind, and any bytes.
    std::string text(random() % 20, ' ');
    const bool is_any = round % 3 == 2;
    for (char& c : text) c = static_cast<char>(is_any ? random() % 256 : ' ' + random() % 95);
    if (round % 3 == 1 && !text.empty()) text[random() % text.size()] = static_cast<char>(random());
    const std::string json = JsonString(text);
    ASSERT_TRUE(std::ranges::all_of(json, [](char c) { return c >= ' ' && c < '\x7F'; })) << json;
    std::string appended = "x";
    AppendJsonString(text, appended);
    EXPECT_EQ(appended, "x" + json);
    const auto value = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(value.is_string()) << json;
    const std::string read = value.get<std::string>();
    EXPECT_EQ(read, IsValidUtf8(text) ? text : read);
    EXPECT_TRUE(IsValidUtf8(read));
  }
}

}  // namespace
}  // namespace beamline::json_test
