// Folders of many settings against what sentence-transformers answers for them
// (tools/make_encode_golden.py). Takes another file of such rows as an argument.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.h"
#include "tests/engine/checkpoint/checkpoint_folder.h"
#include "tests/engine/demo_engine.h"

namespace beamline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

// Of float32 vectors whose numbers are around 1 (48 of them unnormalised reach 7).
constexpr float kTolerance = 2e-5f;

fs::path rows_file = fs::path(BEAMLINE_SOURCE_DIR) / "tests/golden/encode.jsonl";

std::vector<json> Rows() {
  std::ifstream stream(rows_file);
  std::vector<json> rows;
  for (std::string line; std::getline(stream, line);) rows.push_back(json::parse(line));
  return rows;
}

class GoldenFolder {
 public:
  GoldenFolder(const json& row, const json& tokenizer) {
    const fs::path base = fs::path(BEAMLINE_SOURCE_DIR) / "tests/golden/random" /
                          row.value("base", "xlm-roberta-2x24");
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy(base / file, fs::path(folder_.path()) / file);
    }
    folder_.WriteJson("tokenizer.json", tokenizer);
    for (const auto& [file, value] : row["files"].items()) folder_.WriteJson(file, value);
    if (!row.contains("tensors")) return;
    for (const auto& [file, tensors] : row["tensors"].items())
      folder_.Write(file, Weights(tensors));
  }

  absl::StatusOr<std::unique_ptr<Engine>> Serve() const {
    EngineOptions options = TestEngineOptions();
    ModelOptions model = Demo("golden");
    model.folder = folder_.path();
    options.models = {model};
    return Engine::Create(options);
  }

 private:
  // A safetensors file of vectors and matrices.
  static std::string Weights(const json& tensors) {
    json header;
    std::string data;
    for (const auto& [name, value] : tensors.items()) {
      std::vector<size_t> shape = {value.size()};
      if (value[0].is_array()) shape.push_back(value[0].size());
      const size_t begin = data.size();
      const auto add = [&data](const json& number) {
        const auto bits = std::bit_cast<std::array<char, 4>>(number.get<float>());
        data.append(bits.begin(), bits.end());
      };
      for (const json& part : value) {
        if (!part.is_array()) add(part);
        if (part.is_array()) std::ranges::for_each(part, add);
      }
      header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
    }
    return SafetensorsBytes(header.dump(), 0) + data;
  }

  TemporaryFolder folder_;
};

EncodeRequest RequestOf(const json& options, const std::string& text) {
  EncodeRequest request;
  request.model = "golden";
  request.inputs.push_back(text);
  request.prompt_name = options.value("prompt_name", "");
  if (options.contains("normalize")) request.normalize = options["normalize"].get<bool>();
  const bool left = options.value("truncate", "right") == "left";
  request.truncate = left ? EncodeTruncation::kLeft : EncodeTruncation::kRight;
  return request;
}

void ExpectAnswers(Engine& engine, const json& row) {
  const ModelInfo info = engine.Models().front();
  EXPECT_EQ(info.max_input_tokens, row.value("max_input_tokens", info.max_input_tokens));
  EXPECT_EQ(info.embedding_dimensions, row["dimensions"].get<int>());
  for (const json& answer : row["answers"]) {
    const auto text = answer["text"].get<std::string>();
    SCOPED_TRACE(text);
    const auto result = engine.EncodeAndWait(RequestOf(row["options"], text));
    ASSERT_TRUE(result.ok()) << result.status();
    const std::vector<float>& found = result->embeddings.front().values;
    const auto expected = answer["vector"].get<std::vector<float>>();
    EXPECT_THAT(found, testing::Pointwise(testing::FloatNear(kTolerance), expected));
  }
}

TEST(EncodeGoldenTest, FoldersAnswerAsInTheReference) {
  const std::vector<json> rows = Rows();
  int num_served = 0, num_refused = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const json& row = rows[i];
    SCOPED_TRACE(row["name"].get<std::string>());
    const auto engine = GoldenFolder(row, rows[0]["tokenizer.json"]).Serve();
    if (row.contains("refused")) {
      EXPECT_THAT(std::string(engine.status().message()),
                  HasSubstr(row["refused"].get<std::string>()));
      ++num_refused;
    } else if (!engine.ok()) {
      ADD_FAILURE() << engine.status();
    } else {
      ExpectAnswers(**engine, row);
      ++num_served;
    }
  }
  EXPECT_GE(num_served, 30);
  RecordProperty("refused", num_refused);
}

// What a request asks beside the folder's settings, over a folder that pools the mean.
class EncodeOptionsTest : public ::testing::Test {
 protected:
  void Serve(const std::string& name) {
    const std::vector<json> rows = Rows();
    for (const json& row : rows) {
      if (row.value("name", "") == name) row_ = row;
    }
    ASSERT_TRUE(row_.is_object()) << name;
    auto engine = GoldenFolder(row_, rows[0]["tokenizer.json"]).Serve();
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  // The reference's vector of the first text.
  std::vector<float> Expected() const {
    return row_["answers"][0]["vector"].get<std::vector<float>>();
  }
  std::string Text() const { return row_["answers"][0]["text"].get<std::string>(); }
  TokenIds Ids() const {
    TokenIds ids;
    const auto tokens = (*engine_->FindTokenizer("golden"))->Encode(Text(), {});
    for (const Token& token : *tokens) ids.push_back(token.id);
    return ids;
  }
  absl::StatusOr<std::vector<float>> Encode(const EncodeRequest& request) const {
    auto result = engine_->EncodeAndWait(request);
    if (!result.ok()) return result.status();
    return std::move(result->embeddings.front().values);
  }
  void Expect(const EncodeRequest& request, const std::vector<float>& expected) const {
    const auto found = Encode(request);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(*found, testing::Pointwise(testing::FloatNear(kTolerance), expected));
  }
  static EncodeRequest Request(Prompt input) {
    EncodeRequest request;
    request.model = "golden";
    request.inputs.push_back(std::move(input));
    return request;
  }

  json row_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EncodeOptionsTest, DimensionsAreAPrefixThatIsNormalisedAgainWhereAllWere) {
  Serve("mean, normalize True");
  EncodeRequest request = Request(Text());
  std::vector<float> prefix = Expected();
  prefix.resize(10);
  double squares = 0;
  for (const float x : prefix) squares += static_cast<double>(x) * x;
  for (float& x : prefix) x = static_cast<float>(x / std::sqrt(squares));
  request.dimensions = 10;
  Expect(request, prefix);
  Serve("mean, normalize False");
  prefix = Expected();
  prefix.resize(10);
  Expect(request, prefix);
  request.dimensions = 49;
  EXPECT_THAT(std::string(Encode(request).status().message()),
              HasSubstr("dimensions is 49; accepted: 1 to 48"));
}

TEST_F(EncodeOptionsTest, PoolingAndNormalisingAreTheRequests) {
  const std::vector<std::pair<Pooling, std::string>> poolings = {{Pooling::kMean, "mean"},
                                                                 {Pooling::kCls, "cls"},
                                                                 {Pooling::kLast, "lasttoken"},
                                                                 {Pooling::kMax, "max"}};
  for (const auto& [pooling, name] : poolings) {
    for (const bool normalize : {false, true}) {
      SCOPED_TRACE(name);
      Serve(name + ", normalize " + (normalize ? "True" : "False"));
      const std::vector<float> expected = Expected();
      // Over a folder that does otherwise.
      const std::string other = pooling == Pooling::kMean ? "cls" : "mean";
      Serve(other + ", normalize " + (normalize ? "False" : "True"));
      EncodeRequest request = Request(Text());
      request.pooling = pooling;
      request.normalize = normalize;
      Expect(request, expected);
    }
  }
}

TEST_F(EncodeOptionsTest, VectorsOfTokensHaveTheMeanOfTheText) {
  Serve("mean, normalize False");
  EncodeRequest request = Request(Text());
  request.per_token = true;
  const auto vectors = Encode(request);
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  const size_t num_tokens = Ids().size(), size = Expected().size();
  ASSERT_EQ(vectors->size(), num_tokens * size);
  std::vector<float> mean(size);
  for (size_t i = 0; i < vectors->size(); ++i) {
    mean[i % size] += (*vectors)[i] / static_cast<float>(num_tokens);
  }
  EXPECT_THAT(mean, testing::Pointwise(testing::FloatNear(kTolerance), Expected()));
}

TEST_F(EncodeOptionsTest, IdsAreTakenAsTheyAreAndCutOnEitherSide) {
  Serve("mean, normalize False");
  const TokenIds ids = Ids();
  Expect(Request(ids), Expected());
  const TokenIds many(70, 9);
  EXPECT_THAT(std::string(Encode(Request(many)).status().message()),
              HasSubstr("inputs[0] has 70 tokens; accepted: at most 64; set truncate"));
  // Behind or before as many ids as the window holds less.
  TokenIds right = many, left = many;
  std::copy(ids.begin(), ids.end(), right.begin());
  std::copy(ids.begin(), ids.end(), left.end() - static_cast<std::ptrdiff_t>(ids.size()));
  EncodeRequest request = Request(right);
  request.truncate = EncodeTruncation::kRight;
  Expect(request, *Encode(Request(TokenIds(right.begin(), right.begin() + 64))));
  request = Request(left);
  request.truncate = EncodeTruncation::kLeft;
  Expect(request, *Encode(Request(TokenIds(left.end() - 64, left.end()))));
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) beamline::rows_file = argv[1];
  return RUN_ALL_TESTS();
}
