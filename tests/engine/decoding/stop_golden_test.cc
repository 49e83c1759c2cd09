// Where stop strings end an answer, against transformers' generate(stop_strings=...) with
// tokenizers of every kind (tests/golden/stop_strings.jsonl, written by tools/make_stop_golden.py).
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/decoding/sequence_text.h"
#include "engine/decoding/stop_matcher.h"
#include "engine/text/tokenizer.h"
#include "tests/golden/golden_rows.h"

namespace beamline::stop_golden_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::unique_ptr<Tokenizer> Load(const std::string& name) {
  const fs::path root = BEAMLINE_SOURCE_DIR;
  const fs::path model = root / "models" / name;
  const fs::path folder = fs::exists(model) ? model : root / "tests/engine/text/fixtures" / name;
  auto tokenizer = LoadTokenizer(folder.string());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

// Tokens until a stop string is found; all of them without one.
size_t NumTokens(const json& row, const Tokenizer& tokenizer, bool skip_special_tokens) {
  const StopStrings strings(row["stop"].get<std::vector<std::string>>());
  SequenceText text(tokenizer, strings, {.skip_special_tokens = skip_special_tokens});
  const auto ids = row["ids"].get<std::vector<int32_t>>();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (text.Append(ids[i])) return i + 1;
  }
  return ids.size();
}

TEST(StopGolden, AnswersEndWhereTheReferenceEndsThem) {
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  int num_rows = 0;
  for (const json& row : GoldenRows("stop_strings.jsonl")) {
    const auto name = row["tokenizer"].get<std::string>();
    if (!tokenizers.contains(name)) tokenizers[name] = Load(name);
    ASSERT_NE(tokenizers[name], nullptr);
    for (const bool skip : {true, false}) {
      EXPECT_EQ(NumTokens(row, *tokenizers[name], skip), row["num_tokens"].get<size_t>())
          << row.dump();
    }
    ++num_rows;
  }
  EXPECT_EQ(num_rows, 307);
  EXPECT_EQ(tokenizers.size(), 12);
}

}  // namespace
}  // namespace beamline::stop_golden_test
