// Requests that are pooled in different ways, at once and within small limits, against each request
// by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/engine/decoding/random_options.h"
#include "tests/engine/random_model.h"
#include "tests/test_seed.h"

namespace beamline::encode_batch_test {
namespace {

// The order of additions may depend on what shares the batch; the vectors' numbers are around 1.
constexpr float kTolerance = 2e-5f;

class EncodeBatchTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> ServeWith(int32_t max_sequences) const {
    ModelOptions options = model_.Options("bert");
    options.max_sequences = max_sequences;
    auto engine = Serve({options});
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  EncodeRequest AnyRequest() {
    EncodeRequest request;
    request.model = "bert";
    for (int32_t i = random_.Int(1, 6); i > 0; --i) {
      TokenIds ids(random_.Int(1, 40));
      for (int32_t& id : ids) id = random_.Int(3, 90);
      request.inputs.emplace_back(ids);
    }
    request.per_token = random_.Chance(0.3);
    if (!request.per_token) request.pooling = static_cast<Pooling>(random_.Int(0, 4));
    request.normalize = random_.Chance(0.5);
    if (random_.Chance(0.3)) request.dimensions = random_.Int(1, 40);
    return request;
  }

  const RandomStack model_{"bert-3x40", 100, /*with_template=*/false};
  Random random_{TestSeed()};
};

void ExpectEqual(const EncodeResult& found, const EncodeResult& expected) {
  ASSERT_EQ(found.embeddings.size(), expected.embeddings.size());
  for (size_t i = 0; i < found.embeddings.size(); ++i) {
    const Embedding &a = found.embeddings[i], &b = expected.embeddings[i];
    EXPECT_EQ(a.num_tokens, b.num_tokens);
    EXPECT_EQ(a.num_vectors, b.num_vectors);
    EXPECT_EQ(a.dimensions, b.dimensions);
    EXPECT_THAT(a.values, testing::Pointwise(testing::FloatNear(kTolerance), b.values));
  }
}

TEST_F(EncodeBatchTest, ATokenEachIsMoreVectorsThanSequencesMayRun) {
  const auto small = ServeWith(1), large = ServeWith(256);
  ASSERT_TRUE(small != nullptr && large != nullptr);
  EncodeRequest request;
  request.model = "bert";
  request.inputs = {TokenIds(40, 7), TokenIds{8, 9, 10}};
  request.per_token = true;
  const auto found = small->EncodeAndWait(request), expected = large->EncodeAndWait(request);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(found->embeddings[0].num_vectors, 40);
  ExpectEqual(*found, *expected);
}

TEST_F(EncodeBatchTest, EachGetsItsOwnVectors) {
  const auto alone = ServeWith(256);
  ASSERT_NE(alone, nullptr);
  for (const int32_t max_sequences : {2, 7, 256}) {
    const auto engine = ServeWith(max_sequences);
    ASSERT_NE(engine, nullptr);
    std::vector<EncodeRequest> requests(60);
    for (EncodeRequest& request : requests) request = AnyRequest();
    std::vector<std::shared_ptr<RecordingEncodeSink>> sinks;
    for (const EncodeRequest& request : requests) {
      sinks.push_back(std::make_shared<RecordingEncodeSink>());
      const auto handle = engine->Encode(request, sinks.back());
      ASSERT_TRUE(handle.ok()) << handle.status();
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      const auto found = sinks[i]->Wait(), expected = alone->EncodeAndWait(requests[i]);
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_TRUE(expected.ok()) << expected.status();
      ExpectEqual(*found, *expected);
    }
  }
}

}  // namespace
}  // namespace beamline::encode_batch_test
