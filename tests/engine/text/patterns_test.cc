// Patterns of Split and Replace against what Hugging Face's library made of them
// (tools/make_pattern_rows.py). Takes another file of such rows as an argument.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/text/component_json.h"
#include "engine/text/normalizers.h"
#include "engine/text/pre_tokenizers.h"
#include "engine/text/split_text.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace beamline {
namespace {

using nlohmann::json;
using text::JsonNode;

std::filesystem::path rows_file =
    std::filesystem::path(BEAMLINE_SOURCE_DIR) / "tests/engine/text/patterns.jsonl";

// In the order of the rows.
constexpr const char* kBehaviors[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                      "Contiguous"};

// The bounds of all pieces, one after the other, each as its distance from the one before.
absl::StatusOr<std::vector<int32_t>> Split(const json& pattern, const json& row,
                                           const std::string& given) {
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", kBehaviors[row[1].get<size_t>()]},
                      {"invert", row[2] == 1}};
  const auto made = text::MakePreTokenizer(JsonNode(split, "tokenizer.json"), false);
  if (!made.ok()) return made.status();
  text::SplitText pieces(given);
  if (absl::Status status = made->pre_tokenizer->Split(&pieces); !status.ok()) return status;
  std::vector<int32_t> bounds;
  int32_t last = 0;
  for (const text::Piece& piece : pieces.pieces()) {
    bounds.push_back(piece.begin - last);
    bounds.push_back(piece.end - piece.begin);
    last = piece.end;
  }
  return bounds;
}

absl::StatusOr<std::string> Replace(const json& pattern, const std::string& given) {
  const json replace = {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", "<>"}};
  const auto normalizer = text::MakeNormalizer(JsonNode(replace, "tokenizer.json"));
  if (!normalizer.ok()) return normalizer.status();
  text::AlignedText aligned;
  aligned.Assign(given, 0);
  if (absl::Status status = (*normalizer)->Normalize(&aligned); !status.ok()) return status;
  return aligned.text();
}

// What some random patterns with absent groups in repeats do, in which the reference bounds less.
bool TakesTooMuch(const absl::Status& status) {
  return status.message().find(" steps for this text") != std::string::npos;
}

TEST(PatternsTest, EveryPatternMeansTheSame) {
  std::ifstream file(rows_file);
  std::string line;
  ASSERT_TRUE(std::getline(file, line)) << rows_file;
  const auto texts = json::parse(line)["texts"].get<std::vector<std::string>>();
  size_t num_rows = 0, num_refused = 0, num_costly = 0;
  while (std::getline(file, line)) {
    const json row = json::parse(line);
    const json& pattern = row["pattern"];
    SCOPED_TRACE(testing::Message() << "pattern " << pattern.get<std::string>());
    ++num_rows;
    if (!row.contains("splits")) {
      ++num_refused;
      EXPECT_FALSE(Replace(pattern, "a").ok());
      continue;
    }
    for (const json& split : row["splits"]) {
      const auto& given = texts[split[0].get<size_t>()];
      const auto bounds = Split(pattern, split, given);
      if (TakesTooMuch(bounds.status())) {
        ++num_costly;
        break;
      }
      ASSERT_TRUE(bounds.ok()) << bounds.status();
      EXPECT_EQ(*bounds, split[3].get<std::vector<int32_t>>())
          << given << " " << kBehaviors[split[1].get<size_t>()] << " inverted " << split[2];
    }
    const auto& given = texts[row["replaced"][0].get<size_t>()];
    const auto replaced = Replace(pattern, given);
    if (TakesTooMuch(replaced.status())) continue;
    ASSERT_TRUE(replaced.ok()) << replaced.status();
    EXPECT_EQ(*replaced, row["replaced"][1].get<std::string>()) << given;
  }
  EXPECT_GT(num_rows, 2000u);
  EXPECT_GT(num_refused, 100u);
  EXPECT_LE(num_costly, num_rows / 1000);
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) beamline::rows_file = argv[1];
  return RUN_ALL_TESTS();
}
