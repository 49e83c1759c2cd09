#include "base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace beamline::yaml_test {
namespace {

std::string Error(const std::string& text) {
  const auto node = LoadYaml("x", text);
  EXPECT_FALSE(node.ok()) << text;
  return std::string(node.status().message());
}

TEST(Yaml, OneDocument) {
  EXPECT_EQ((*LoadYaml("x", "a: 1\nb: [2, 3]\n"))["b"][1].as<int>(), 3);
  EXPECT_EQ((*LoadYaml("x", "---\na: 1\n...\n"))["a"].as<int>(), 1);
  for (const char* nothing : {"", "# a comment\n", "---\n", "~"}) {
    const auto node = LoadYaml("x", nothing);
    ASSERT_TRUE(node.ok()) << nothing << ": " << node.status();
    EXPECT_TRUE(node->IsNull()) << nothing;
  }
}

TEST(Yaml, ASecondDocumentIsRefusedWithItsLine) {
  EXPECT_EQ(Error("a: 1\n---\nb: 2\n"), "x:3: is a second document; accepted: one");
  EXPECT_EQ(Error("a: 1\n---\n---\n"), "x:3: is a second document; accepted: one");
}

// yaml-cpp's LoadAll finds one empty document after the other in these, until memory is full.
TEST(Yaml, ATextThatGoesOnBehindItsEndIsRefused) {
  for (const char* text : {"[a]]", "]", " ,21][", "[1]]", "{a: 1}}", "}", ",", "a: 1\n]\n"}) {
    EXPECT_THAT(Error(text), testing::StartsWith("x:"));
  }
}

TEST(Yaml, FaultsHaveTheirLine) {
  EXPECT_THAT(Error("a: 1\nb: [2\n"), testing::StartsWith("x:"));
  EXPECT_THAT(Error("a: *b\n"), testing::StartsWith("x:1: "));
  EXPECT_THAT(Error(std::string(100000, '[')), testing::StartsWith("x:1: "));
}

}  // namespace
}  // namespace beamline::yaml_test
