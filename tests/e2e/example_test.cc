// The example program prints what a server answers to the same requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/client.h"
#include "fmt/format.h"
#include "tests/e2e/server_process.h"

namespace beamline::example_test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

constexpr char kPrompt[] = "Package: zip\nSynopsis:";
constexpr char kUsage[] = "usage: beamline-example-generate GENERATOR_FOLDER ENCODER_FOLDER TEXT\n";

std::string DemoModel(const std::string& name) {
  return std::string(BEAMLINE_SOURCE_DIR) + "/models/" + name;
}

TEST(Example, GeneratesAndEncodesAsAServerDoes) {
  ChildProcess example(BEAMLINE_EXAMPLE_BINARY,
                       {DemoModel("write-en"), DemoModel("embed-en"), kPrompt});
  ASSERT_EQ(example.Wait(), 0) << example.err();
  Client client({.address = SharedServer().address()});
  v1::GenerateRequest generate;
  generate.set_model("write-en");
  generate.mutable_prompt()->set_text(kPrompt);
  generate.mutable_greedy();
  generate.mutable_limits()->set_max_new_tokens(48);
  const auto generated = client.Generate(generate);
  ASSERT_TRUE(generated.ok()) << generated.status();
  v1::EncodeRequest encode;
  encode.set_model("embed-en");
  encode.add_inputs()->set_text(kPrompt);
  const auto encoded = client.Encode(encode);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  const v1::Embedding& embedding = encoded->embeddings(0);

  const std::string& text = generated->sequences(0).text();
  ASSERT_THAT(example.out(), StartsWith(text + "\n["));
  const std::string rest = example.out().substr(text.size() + 1);
  EXPECT_THAT(rest.substr(0, rest.find('\n')),
              MatchesRegex(fmt::format("\\[{} tokens in [0-9]+\\.[0-9] ms\\]",
                                       generated->usage().generated_tokens())));
  EXPECT_EQ(
      rest.substr(rest.find('\n') + 1),
      fmt::format("embedding of {} dimensions: {:.4f} {:.4f} {:.4f} ...\n", embedding.dimensions(),
                  embedding.values(0), embedding.values(1), embedding.values(2)));
}

TEST(Example, HelpIsNoError) {
  for (const char* flag : {"--help", "-h"}) {
    ChildProcess example(BEAMLINE_EXAMPLE_BINARY, {flag});
    EXPECT_EQ(example.Wait(), 0);
    EXPECT_EQ(example.out(), kUsage);
    EXPECT_EQ(example.err(), "");
  }
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{}, {"a", "b"}, {"-x"}}) {
    ChildProcess example(BEAMLINE_EXAMPLE_BINARY, wrong);
    EXPECT_EQ(example.Wait(), 2);
    EXPECT_EQ(example.out(), "");
    EXPECT_EQ(example.err(), kUsage);
  }
}

TEST(Example, AModelThatCannotDoItIsOneLine) {
  ChildProcess example(BEAMLINE_EXAMPLE_BINARY,
                       {DemoModel("embed-en"), DemoModel("embed-en"), kPrompt});
  EXPECT_EQ(example.Wait(), 1);
  EXPECT_THAT(example.err(), StartsWith("beamline-example-generate: INVALID_ARGUMENT: "));
  EXPECT_EQ(example.err().find('\n'), example.err().size() - 1) << example.err();
}

}  // namespace
}  // namespace beamline::example_test
