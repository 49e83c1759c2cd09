// Beams share what they have in common: a wide beam over a long prompt holds the prompt once.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/math.h"
#include "tests/engine/demo_engine.h"

namespace beamline::beam_memory_test {
namespace {

constexpr int32_t kNewTokens = 100;  // 99 of them are computed: the last one is only returned

// The most blocks that were in use after any step. A step is reported before what it freed is
// counted, so the last step's blocks are missing: a request must not begin a block in it.
class PeakObserver : public EngineObserver {
 public:
  void Watch(Engine& engine) { engine_ = &engine; }
  void OnStep(const std::string& model, const StepReport&) override {
    Engine* const engine = engine_;
    if (engine == nullptr) return;
    const int64_t used = engine->Stats(model)->used_blocks;
    if (used > peak_) peak_ = used;
  }
  int64_t TakePeak() { return peak_.exchange(0); }

 private:
  std::atomic<Engine*> engine_ = nullptr;
  std::atomic<int64_t> peak_ = 0;
};

class BeamMemoryTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    EngineOptions options = TestEngineOptions();
    options.models = {Demo(GetParam())};
    options.models[0].prefix_cache = false;
    auto engine = Engine::Create(options, &observer_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    observer_.Watch(*engine_);
    info_ = engine_->Models()[0];
  }

  int32_t Blocks(int32_t tokens) const { return CeilDiv(tokens, info_.block_size); }

  int64_t PeakBlocks(int32_t prompt_tokens, int32_t width) {
    GenerateRequest request = Write("", kNewTokens);
    request.model = GetParam();
    TokenIds prompt(prompt_tokens);
    for (int32_t i = 0; i < prompt_tokens; ++i) prompt[i] = 300 + (i * 37) % 5000;
    request.prompt = prompt;
    if (width > 1) request.decoding = BeamOptions{.width = width};
    request.limits.ignore_eos = true;
    const auto result = engine_->GenerateAndWait(request);
    EXPECT_TRUE(result.ok()) << result.status();
    for (int wait = 0; wait < 500 && engine_->Stats(info_.name)->used_blocks > 0; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(engine_->Stats(info_.name)->used_blocks, 0);
    return observer_.TakePeak();
  }

  PeakObserver observer_;
  std::unique_ptr<Engine> engine_;
  ModelInfo info_;
};

TEST_P(BeamMemoryTest, AWideBeamHoldsItsPromptOnce) {
  constexpr int32_t kWidth = 8;
  const bool translates = info_.task == ModelTask::kTranslate;
  // A prompt of whole blocks, and one whose last block every beam has to copy.
  for (const int32_t prompt_tokens : {384, 391}) {
    if (kSanitized && prompt_tokens == 384) continue;
    SCOPED_TRACE(prompt_tokens);
    const int32_t shared_blocks =
        translates ? Blocks(prompt_tokens) : prompt_tokens / info_.block_size;
    const int32_t alone_blocks = translates ? Blocks(prompt_tokens) + Blocks(kNewTokens)
                                            : Blocks(prompt_tokens + kNewTokens - 1);
    const int32_t generated_blocks = alone_blocks - shared_blocks;  // of one beam
    const int64_t one = PeakBlocks(prompt_tokens, 1);
    const int64_t eight = PeakBlocks(prompt_tokens, kWidth);
    EXPECT_EQ(one, alone_blocks);
    EXPECT_GT(eight, one);
    // Beam 1 and the other beams' generated parts are the most, beams that share tokens take less.
    EXPECT_LE(eight, one + (kWidth - 1) * generated_blocks);
    RecordProperty("prompt_" + std::to_string(prompt_tokens) + "_beam_1_blocks",
                   static_cast<int>(one));
    RecordProperty("prompt_" + std::to_string(prompt_tokens) + "_beam_8_blocks",
                   static_cast<int>(eight));
    RecordProperty("prompt_" + std::to_string(prompt_tokens) + "_generated_blocks",
                   generated_blocks);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BeamMemoryTest, testing::Values("write-en", "translate-en-de"),
                         [](const auto& model) {
                           return std::string(model.param).substr(0, 5) == "write" ? "Write"
                                                                                   : "Translate";
                         });

}  // namespace
}  // namespace beamline::beam_memory_test
