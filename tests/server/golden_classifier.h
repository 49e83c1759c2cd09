// The engine that serves one folder of tests/golden/classifiers, and what transformers answers by
// it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>

#include "tests/engine/demo_engine.h"
#include "tests/golden/golden_rows.h"

namespace beamline {

// A folder, and over how many parts it is served.
struct GoldenClassifier {
  const char* folder;
  int num_ranks = 1;
  int num_stages = 1;
};

inline void PrintTo(const GoldenClassifier& model, std::ostream* out) { *out << model.folder; }

class GoldenClassifierTest : public ::testing::TestWithParam<GoldenClassifier> {
 protected:
  // Of scores, which are at most 1: what sums in another order err.
  static constexpr float kTolerance = 2e-5f;

  void SetUp() override {
    auto engine = Serve(GetParam());
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    expected_ = GoldenFile(std::string("classifiers/") + GetParam().folder + "/expected.json");
    ASSERT_GT(expected_["rows"].size(), 4u);
  }

  std::unique_ptr<Engine> engine_;  // its model is "golden"
  nlohmann::json expected_;

 private:
  static absl::StatusOr<std::unique_ptr<Engine>> Serve(const GoldenClassifier& model) {
    EngineOptions options = TestEngineOptions();
    ModelOptions one = Demo("golden");
    one.folder = std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/classifiers/" + model.folder;
    one.tensor_parallel = one.pipeline_parallel = 1;
    one.device = TestDevice();
    if (model.num_ranks * model.num_stages > 1) {
      one = OnStages(one, model.num_stages, model.num_ranks);
    }
    options.models = {one};
    return Engine::Create(options);
  }
};

}  // namespace beamline
