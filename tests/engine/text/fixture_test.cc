// Small tokenizers of every kind against the rows that Hugging Face's library wrote for them
// (tools/make_tokenizer_fixtures.py). Takes another folder of such fixtures as an argument.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/text/pipeline_tokenizer.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/sanitized.h"
#include "tests/test_seed.h"

namespace beamline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kRoot = BEAMLINE_SOURCE_DIR;
fs::path fixtures_folder = kRoot / "tests/engine/text/fixtures";

std::unique_ptr<Tokenizer> Load(const fs::path& folder) {
  // The rows of a demo model lie in a folder of its name; its tokenizer.json is with the model.
  const fs::path file = fs::exists(folder / "tokenizer.json")
                            ? folder / "tokenizer.json"
                            : kRoot / "models" / folder.filename() / "tokenizer.json";
  std::ifstream stream(file);
  auto tokenizer =
      text::PipelineTokenizer::Make(json::parse(stream), file.string(), text::TokenizerConfig());
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

// Decodes token by token, copying the state on the way.
std::string DecodeIncrementally(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                                bool skip_special_tokens) {
  auto detokenizer = tokenizer.StartDecoding(skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) {
    detokenizer = detokenizer->Clone();
    text += detokenizer->Append(id);
  }
  return text + detokenizer->Finish();
}

void CheckDecoding(const Tokenizer& tokenizer, const json& row) {
  const auto ids = row["ids"].get<std::vector<int32_t>>();
  for (const bool skip : {true, false}) {
    const auto decoded = tokenizer.Decode(ids, skip);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(*decoded, row[skip ? "decoded" : "decoded_raw"].get<std::string>()) << row.dump();
    EXPECT_EQ(DecodeIncrementally(tokenizer, ids, skip), *decoded) << row.dump();
  }
}

void CheckEncoding(const Tokenizer& tokenizer, const json& row) {
  const auto text = row["text"].get<std::string>();
  const auto tokens = tokenizer.Encode(text, {});
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  std::vector<int32_t> ids;
  json offsets = json::array();
  for (size_t i = 0; i < tokens->size(); ++i) {
    const Token& token = (*tokens)[i];
    ids.push_back(token.id);
    const bool from_template = i < row["template"].size() && row["template"][i] == true;
    EXPECT_TRUE(!from_template || token.begin == token.end);
    offsets.push_back(from_template ? json{0, 0} : json{token.begin, token.end});
  }
  EXPECT_EQ(ids, row["ids"].get<std::vector<int32_t>>()) << row.dump();
  if (!row["offsets"].is_null()) {
    EXPECT_EQ(offsets, row["offsets"]) << row.dump();
  }
}

TEST(FixtureTest, EveryRowIsIdenticalBothWays) {
  int num_fixtures = 0, num_rows = 0;
  for (const auto& entry : fs::directory_iterator(fixtures_folder)) {
    SCOPED_TRACE(entry.path().filename());
    const auto tokenizer = Load(entry.path());
    ASSERT_NE(tokenizer, nullptr);
    std::ifstream rows(entry.path() / "rows.jsonl");
    for (std::string line; std::getline(rows, line); ++num_rows) {
      const json row = json::parse(line);
      if (row.contains("text")) CheckEncoding(*tokenizer, row);
      CheckDecoding(*tokenizer, row);
    }
    ++num_fixtures;
  }
  RecordProperty("fixtures", num_fixtures);
  RecordProperty("rows", num_rows);
  EXPECT_GE(num_fixtures, 33);
  EXPECT_GE(num_rows, 2500);
}

TEST(FixtureTest, IncrementalDecodingOfRandomIdsEqualsWholeDecoding) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (const auto& entry : fs::directory_iterator(fixtures_folder)) {
    SCOPED_TRACE(entry.path().filename());
    const auto tokenizer = Load(entry.path());
    ASSERT_NE(tokenizer, nullptr);
    for (int i = 0; i < 100; ++i) {
      std::vector<int32_t> ids(random() % 40);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % tokenizer->vocab_size());
      for (const bool skip : {true, false}) {
        EXPECT_EQ(DecodeIncrementally(*tokenizer, ids, skip), *tokenizer->Decode(ids, skip));
      }
    }
  }
}

// Texts that a client may make to keep the tokenizer busy: of each kind of model, with each way to
// split a text, quadratic work would take minutes.
TEST(FixtureTest, LongRunsTakeLinearTime) {
  constexpr size_t kBytes = (kSanitized ? 32 : 512) << 10;
  for (const char* name :
       {"bert_cased", "bloom", "byte_normalized", "char_bpe", "cl100k", "clip", "gemma", "gpt_neox",
        "llama2", "llama3", "o200k", "qwen2", "roberta", "t5", "unigram_bytes"}) {
    const auto tokenizer = Load(kRoot / "tests/engine/text/fixtures" / name);
    ASSERT_NE(tokenizer, nullptr);
    for (const char* unit : {"a", " ", "\u4e2d", "'s1 \n"}) {
      std::string text;
      while (text.size() < kBytes) text += unit;
      const auto start = std::chrono::steady_clock::now();
      EXPECT_TRUE(tokenizer->Encode(text, {}).ok());
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      EXPECT_LT(seconds.count(), 20) << name << " '" << unit << "'";
    }
  }
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) beamline::fixtures_folder = argv[1];
  return RUN_ALL_TESTS();
}
