// What every tokenizer promises: errors, truncation, offsets, incremental decoding, legacy files,
// speed.
#include "engine/text/tokenizer.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/golden/golden_rows.h"
#include "tests/test_seed.h"

namespace beamline::tokenizer_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kRoot = BEAMLINE_SOURCE_DIR;

std::unique_ptr<Tokenizer> Load(const fs::path& folder) {
  auto tokenizer = LoadTokenizer(folder.string());
  if (!tokenizer.ok()) {
    ADD_FAILURE() << tokenizer.status();
    return nullptr;
  }
  return *std::move(tokenizer);
}

std::vector<int32_t> Ids(const Tokenizer& tokenizer, std::string_view text,
                         const EncodeTextOptions& options = {}) {
  const auto tokens = tokenizer.Encode(text, options);
  if (!tokens.ok()) {
    ADD_FAILURE() << tokens.status();
    return {};
  }
  std::vector<int32_t> ids;
  for (const Token& token : *tokens) ids.push_back(token.id);
  return ids;
}

// A folder of its own that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "tokenizer_test_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class DemoModelTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tokenizer_ = Load(kRoot / "models" / GetParam());
    ASSERT_NE(tokenizer_, nullptr);
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

INSTANTIATE_TEST_SUITE_P(DemoModels, DemoModelTest,
                         testing::Values("translate-en-de", "embed-en", "write-en"));

TEST_P(DemoModelTest, RefusesInvalidUtf8AndNamesTheByte) {
  for (const auto& [text, byte] :
       std::vector<std::pair<std::string, int>>{{"ab\xFF", 2},
                                                {"\xC3", 0},
                                                {"a\xED\xA0\x80", 1},
                                                {"\xE2\x82\xACx\xF4\x90\x80\x80", 4}}) {
    const auto tokens = tokenizer_->Encode(text, {});
    EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tokens.status().message()),
                HasSubstr("byte " + std::to_string(byte) + " "));
  }
}

TEST_P(DemoModelTest, RefusesIdsOutsideTheVocabulary) {
  const int32_t size = tokenizer_->vocab_size();
  for (const int32_t id : {-1, size}) {
    const auto text = tokenizer_->Decode(std::vector<int32_t>{0, id}, false);
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(text.status().message()), HasSubstr(std::to_string(id)));
    EXPECT_THAT(std::string(text.status().message()), HasSubstr("0.." + std::to_string(size - 1)));
  }
}

TEST_P(DemoModelTest, TruncatesOneSideAndKeepsTheTemplate) {
  const std::string text = "the quick brown fox jumps over the lazy dog";
  const std::vector<int32_t> whole = Ids(*tokenizer_, text, {.add_special_tokens = false});
  const int32_t num_template = tokenizer_->num_template_tokens();
  const std::vector<int32_t> framed = Ids(*tokenizer_, text);
  ASSERT_EQ(framed.size(), whole.size() + static_cast<size_t>(num_template));
  for (const Truncation side : {Truncation::kRight, Truncation::kLeft}) {
    const int32_t max_tokens = num_template + 3;
    const auto cut = Ids(*tokenizer_, text, {.truncation = side, .max_tokens = max_tokens});
    ASSERT_EQ(cut.size(), static_cast<size_t>(max_tokens));
    const auto kept = side == Truncation::kRight
                          ? std::vector<int32_t>(whole.begin(), whole.begin() + 3)
                          : std::vector<int32_t>(whole.end() - 3, whole.end());
    EXPECT_NE(std::search(cut.begin(), cut.end(), kept.begin(), kept.end()), cut.end());
    EXPECT_EQ(cut.back(), num_template > 0 ? framed.back() : kept.back());
  }
}

TEST_P(DemoModelTest, TokenTextAndTokenIdAgree) {
  for (int32_t id = 0; id < tokenizer_->vocab_size(); ++id) {
    EXPECT_EQ(tokenizer_->TokenId(tokenizer_->TokenText(id)), id);
  }
  EXPECT_FALSE(tokenizer_->TokenId("no such token in any vocabulary").has_value());
  EXPECT_EQ(tokenizer_->TokenText(-1), "");
  EXPECT_EQ(tokenizer_->TokenText(tokenizer_->vocab_size()), "");
}

std::string RandomText(std::mt19937* random) {
  static const std::vector<std::string> kParts = {"hello",
                                                  " ",
                                                  "  ",
                                                  "\n",
                                                  "é",
                                                  "e\u0301",
                                                  "中文",
                                                  "👍🏽",
                                                  "</s>",
                                                  "[SEP]",
                                                  "<|endoftext|>",
                                                  "½",
                                                  "ﬁ",
                                                  "\t",
                                                  "'s",
                                                  ".",
                                                  "ß",
                                                  "İ",
                                                  "한",
                                                  "\u200d",
                                                  ">>de<<",
                                                  "12",
                                                  "x",
                                                  "\u00a0",
                                                  "\x01",
                                                  "…"};
  std::string text;
  for (size_t i = (*random)() % 30; i > 0; --i) text += kParts[(*random)() % kParts.size()];
  return text;
}

TEST_P(DemoModelTest, OffsetsAreInRangeOnCharacterBoundariesAndInOrder) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 500; ++i) {
    const std::string text = RandomText(&random);
    const auto tokens = tokenizer_->Encode(text, {});
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    int32_t previous_begin = 0;
    for (const Token& token : *tokens) {
      ASSERT_LE(token.begin, token.end) << text;
      ASSERT_LE(token.end, static_cast<int32_t>(text.size())) << text;
      ASSERT_GE(token.begin, previous_begin) << text;
      previous_begin = token.begin;
      for (const int32_t edge : {token.begin, token.end}) {
        ASSERT_TRUE(edge == static_cast<int32_t>(text.size()) ||
                    !IsContinuationByte(text[static_cast<size_t>(edge)]))
            << text;
      }
    }
  }
}

TEST_P(DemoModelTest, IncrementalDecodingGivesWholeCharactersThatAddUp) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 300; ++i) {
    std::vector<int32_t> ids = Ids(*tokenizer_, RandomText(&random));
    for (int j = 0; j < 5; ++j) {
      ids.push_back(static_cast<int32_t>(random() % tokenizer_->vocab_size()));
    }
    const bool skip = random() % 2 == 0;
    auto detokenizer = tokenizer_->StartDecoding(skip);
    std::string decoded;
    for (const int32_t id : ids) {
      auto fork = detokenizer->Clone();
      const std::string piece = detokenizer->Append(id);
      EXPECT_EQ(fork->Append(id), piece);
      EXPECT_EQ(FindInvalidUtf8(piece), std::nullopt);
      decoded += piece;
    }
    decoded += detokenizer->Finish();
    EXPECT_EQ(decoded, *tokenizer_->Decode(ids, skip));
  }
}

// Quadratic work on a megabyte would take minutes.
TEST_P(DemoModelTest, TakesLinearTimeOnARunOfOneCharacter) {
  for (const char* unit : {"a", " ", "\u4e2d", "\u0301", "<", "1", "a "}) {
    std::string text;
    while (text.size() < (1 << 20)) text += unit;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(tokenizer_->Encode(text, {}).ok());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 20) << unit;
  }
}

TEST(TokenizerTest, DescribesTheDemoModels) {
  const auto translate = Load(kRoot / "models/translate-en-de");
  EXPECT_EQ(translate->Kind(), "SentencePiece (Marian)");
  EXPECT_EQ(translate->vocab_size(), 8000);
  EXPECT_EQ(translate->model_max_length(), 512);
  EXPECT_TRUE(translate->IsSpecial(0));
  EXPECT_FALSE(translate->IsSpecial(14));
  const auto embed = Load(kRoot / "models/embed-en");
  EXPECT_EQ(embed->Kind(), "WordPiece");
  EXPECT_EQ(embed->num_template_tokens(), 2);
  EXPECT_EQ(embed->model_max_length(), 256);
  const auto write = Load(kRoot / "models/write-en");
  EXPECT_EQ(write->Kind(), "byte-level BPE");
  EXPECT_EQ(write->vocab_size(), 6000);
  EXPECT_TRUE(Ids(*write, "").empty());
}

TEST(TokenizerTest, HalfACharacterWaitsForItsRest) {
  const auto tokenizer = Load(kRoot / "models/write-en");
  const std::vector<int32_t> ids = Ids(*tokenizer, "\U0001F9EC");  // in no merge: four byte tokens
  ASSERT_EQ(ids.size(), 4u);
  auto detokenizer = tokenizer->StartDecoding(true);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(detokenizer->Append(ids[i]), "");
  auto fork = detokenizer->Clone();
  EXPECT_EQ(detokenizer->Append(ids[3]), "\U0001F9EC");
  EXPECT_EQ(detokenizer->Finish(), "");
  EXPECT_EQ(fork->Finish(), "\uFFFD");  // an end that never came, as Decode writes it
}

TEST(TokenizerTest, MarianCutsALanguageCode) {
  const auto tokenizer = Load(kRoot / "models/translate-en-de");
  const auto tokens = *tokenizer->Encode(">>de<< Hello", {});
  EXPECT_EQ(tokens[0].id, 1);
  EXPECT_EQ(tokens[0].begin, 0);
  EXPECT_EQ(tokens[0].end, 6);
  EXPECT_EQ(tokens.back().id, 0);
  EXPECT_EQ(Ids(*tokenizer, "a </s> b"), (std::vector<int32_t>{14, 0, 561, 0}));
}

TEST(TokenizerTest, MarianRefusesArgumentsOfItsModels) {
  TemporaryFolder folder;
  for (const char* name : {"source.spm", "target.spm", "vocab.json"}) {
    fs::copy(kRoot / "models/translate-en-de" / name, folder.path() / name);
  }
  std::ofstream(folder.path() / "tokenizer_config.json")
      << R"({"sp_model_kwargs": {"enable_sampling": true}})";
  EXPECT_THAT(std::string(LoadTokenizer(folder.path().string()).status().message()),
              HasSubstr("\"sp_model_kwargs\" is {\"enable_sampling\":true}; no arguments are"));
}

// The same rows from the files that were there before tokenizer.json.
void ExpectGoldenRows(const fs::path& folder, const std::string& model) {
  const auto tokenizer = Load(folder);
  ASSERT_NE(tokenizer, nullptr);
  const auto rows = GoldenRows("tokenize." + model + ".jsonl");
  EXPECT_EQ(rows.size(), 150);
  for (const auto& row : rows) {
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(Ids(*tokenizer, row["text"].get<std::string>()), ids);
    EXPECT_EQ(*tokenizer->Decode(ids, true), row["decoded"].get<std::string>());
    EXPECT_EQ(*tokenizer->Decode(ids, false), row["decoded_raw"].get<std::string>());
  }
}

TEST(LegacyFilesTest, VocabTxtGivesTheGoldenRows) {
  TemporaryFolder folder;
  for (const char* name : {"vocab.txt", "tokenizer_config.json"}) {
    fs::copy(kRoot / "models/embed-en" / name, folder.path() / name);
  }
  ExpectGoldenRows(folder.path(), "embed-en");
}

TEST(LegacyFilesTest, VocabJsonAndMergesTxtGiveTheGoldenRows) {
  TemporaryFolder folder;
  for (const char* name : {"vocab.json", "merges.txt"}) {
    fs::copy(kRoot / "models/write-en" / name, folder.path() / name);
  }
  ExpectGoldenRows(folder.path(), "write-en");
}

TEST(LoadTokenizerTest, NamesWhatIsMissing) {
  TemporaryFolder folder;
  const auto empty = LoadTokenizer(folder.path().string());
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("tokenizer.json"));

  std::ofstream(folder.path() / "vocab.json") << "{\"<unk>\": 0}";
  std::ofstream(folder.path() / "source.spm") << "this is no model";
  const auto no_model = LoadTokenizer(folder.path().string());
  EXPECT_EQ(no_model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(no_model.status().message()), HasSubstr("source.spm"));
}

// A tokenizer of words, with this normalizer.
void WriteWords(const fs::path& folder, const nlohmann::json& normalizer) {
  const nlohmann::json token = {{"id", 3}, {"content", "New"}, {"normalized", true}};
  const nlohmann::json vocab = {{"?", 0}, {"dog", 1}, {"cat", 2}};
  const nlohmann::json file = {
      {"added_tokens", {token}},
      {"normalizer", normalizer},
      {"pre_tokenizer", {{"type", "Whitespace"}}},
      {"model", {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocab}}}};
  std::ofstream(folder / "tokenizer.json") << file;
}

TEST(LoadTokenizerTest, LowercasesBeforeItNormalizes) {
  TemporaryFolder folder;
  const auto ids = [&](bool lower_case) {
    const auto tokenizer = LoadTokenizer(folder.path().string(), lower_case);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? Ids(**tokenizer, "Dog DOG New NEW") : std::vector<int32_t>();
  };
  WriteWords(folder.path(), nullptr);
  EXPECT_EQ(ids(false), (std::vector<int32_t>{0, 0, 3, 0}));
  EXPECT_EQ(ids(true), (std::vector<int32_t>{1, 1, 3, 3}));
  const nlohmann::json replace = {
      {"type", "Replace"}, {"pattern", {{"String", "Dog"}}}, {"content", "cat"}};
  WriteWords(folder.path(), replace);
  EXPECT_EQ(ids(false), (std::vector<int32_t>{2, 0, 3, 0}));
  EXPECT_EQ(ids(true), (std::vector<int32_t>{1, 1, 3, 3}));
  // A sequence that lowercases itself stays as it is.
  WriteWords(folder.path(),
             {{"type", "Sequence"},
              {"normalizers", nlohmann::json::array({replace, {{"type", "Lowercase"}}})}});
  EXPECT_EQ(ids(true), (std::vector<int32_t>{2, 1, 3, 3}));
}

TEST(LoadTokenizerTest, ReadsTheLongestInput) {
  TemporaryFolder folder;
  WriteWords(folder.path(), nullptr);
  const auto load = [&](const nlohmann::json& config) {
    std::ofstream(folder.path() / "tokenizer_config.json") << config;
    return LoadTokenizer(folder.path().string());
  };
  const auto length = [&](const nlohmann::json& config) {
    const auto tokenizer = load(config);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? (*tokenizer)->model_max_length() : -1;
  };
  EXPECT_EQ(length(nlohmann::json::object()), 0);
  EXPECT_EQ(length({{"model_max_length", 128}}), 128);
  EXPECT_EQ(length({{"model_max_length", 1e30}}), 0);
  EXPECT_EQ(length({{"model_max_length", nullptr}, {"max_len", 64}}), 0);
  EXPECT_EQ(length({{"max_len", 64}}), 64);
  for (const nlohmann::json& bad : {nlohmann::json(0), nlohmann::json(-5), nlohmann::json(12.5),
                                    nlohmann::json("128"), nlohmann::json(true)}) {
    EXPECT_THAT(std::string(load({{"model_max_length", bad}}).status().message()),
                HasSubstr("tokenizer_config.json: \"model_max_length\" is " + bad.dump()));
  }
}

}  // namespace
}  // namespace beamline::tokenizer_test
