// A client with a long queue and one that comes later.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "tests/engine/demo_engine.h"

namespace beamline::fair_share_test {
namespace {

// Notes how many had finished before.
template <typename Base, typename Result>
class OrderSink : public Base {
 public:
  explicit OrderSink(std::atomic<int>& finished) : finished_(finished) {}
  void OnFinish(absl::StatusOr<Result> result) override {
    EXPECT_TRUE(result.ok()) << result.status();
    place_.set_value(finished_.fetch_add(1));
  }
  int Place() { return place_.get_future().get(); }

 private:
  std::atomic<int>& finished_;
  std::promise<int> place_;
};
using GenerateOrder = OrderSink<GenerateSink, GenerateResult>;
using EncodeOrder = OrderSink<EncodeSink, EncodeResult>;

TEST(FairShareTest, GenerationTakesTurnsBetweenClients) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("write-en")};
  options.models[0].max_sequences = 1;
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::atomic<int> finished = 0;
  std::vector<std::shared_ptr<GenerateOrder>> busy;
  GenerateRequest request = Write("Package: share", 40);
  request.limits.ignore_eos = true;
  request.client = "busy";
  for (int i = 0; i < 16; ++i) {
    busy.push_back(std::make_shared<GenerateOrder>(finished));
    ASSERT_TRUE((*engine)->Generate(request, busy.back()).ok());
  }
  request.client = "quiet";
  request.limits.max_new_tokens = 2;
  const auto quiet = std::make_shared<GenerateOrder>(finished);
  ASSERT_TRUE((*engine)->Generate(request, quiet).ok());
  // Those that ran when it came, one more, and a loaded machine's delay.
  EXPECT_LE(quiet->Place(), 8);
  for (size_t i = 0; i < busy.size(); ++i) EXPECT_LE(busy[i]->Place(), static_cast<int>(i) + 1);
}

TEST(FairShareTest, ABigEncodeRequestLetsASmallOneThrough) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("embed-en")};
  options.models[0].max_batch_tokens = 512;
  auto engine = Engine::Create(options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::atomic<int> finished = 0;
  EncodeRequest big;
  big.model = "embed-en";
  big.client = "busy";
  big.inputs.assign(1024, Prompt(TokenIds(8, 5)));
  EncodeRequest small = big;
  small.client = "quiet";
  small.inputs.resize(1);
  const auto last = std::make_shared<EncodeOrder>(finished);
  const auto first = std::make_shared<EncodeOrder>(finished);
  ASSERT_TRUE((*engine)->Encode(big, last).ok());
  ASSERT_TRUE((*engine)->Encode(small, first).ok());
  EXPECT_EQ(first->Place(), 0);
  EXPECT_EQ(last->Place(), 1);
}

}  // namespace
}  // namespace beamline::fair_share_test
