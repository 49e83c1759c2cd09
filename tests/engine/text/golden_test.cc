// The demo models' tokenizers against the reference rows that transformers wrote.
#include <string>
#include <vector>

#include "engine/text/tokenizer.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_rows.h"

namespace beamline::golden_test {
namespace {

const std::string kRoot = BEAMLINE_SOURCE_DIR;

std::vector<int32_t> Ids(const std::vector<Token>& tokens) {
  std::vector<int32_t> ids;
  for (const Token& token : tokens) ids.push_back(token.id);
  return ids;
}

class GoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTest, EveryRowIsIdenticalBothWays) {
  const auto tokenizer = LoadTokenizer(kRoot + "/models/" + GetParam());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto rows = GoldenRows(std::string("tokenize.") + GetParam() + ".jsonl");
  EXPECT_EQ(rows.size(), 150);
  for (const auto& row : rows) {
    const auto text = row["text"].get<std::string>();
    const auto expected = row["ids"].get<std::vector<int32_t>>();
    const auto tokens = (*tokenizer)->Encode(text, {});
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    EXPECT_EQ(Ids(*tokens), expected) << text;
    for (const bool skip : {true, false}) {
      const auto decoded = (*tokenizer)->Decode(expected, skip);
      ASSERT_TRUE(decoded.ok()) << decoded.status();
      EXPECT_EQ(*decoded, row[skip ? "decoded" : "decoded_raw"].get<std::string>());
      const auto detokenizer = (*tokenizer)->StartDecoding(skip);
      std::string pieces;
      for (const int32_t id : expected) pieces += detokenizer->Append(id);
      EXPECT_EQ(pieces + detokenizer->Finish(), *decoded);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DemoModels, GoldenTest,
                         testing::Values("translate-en-de", "embed-en", "write-en"));

}  // namespace
}  // namespace beamline::golden_test
