// Operators over rows: embedding, normalisation, gathering, pooling, block copies.
#include <algorithm>

#include "tests/kernels/op_test.h"

namespace beamline::row_op_test {
namespace {

constexpr double kTolerance = 3e-6;

class RowOpTest : public OpTest {};
BEAMLINE_INSTANTIATE_OP_TEST(RowOpTest);

TEST_P(RowOpTest, EmbedAddsTheTables) {
  for (int hidden_size : {1, 40, 193, 256}) {
    const int num_tokens = RandomInt(1, 60);
    const auto tokens = RandomArray(101 * hidden_size);
    const auto positions = RandomArray(64 * hidden_size);
    const auto types = RandomArray(2 * hidden_size);
    const auto token_ids = UploadIds(RandomIds(num_tokens, 101));
    const auto position_ids = UploadIds(RandomIds(num_tokens, 64));
    const auto type_ids = UploadIds(RandomIds(num_tokens, 2));
    for (bool all_tables : {true, false}) {
      const auto output = Output(num_tokens * hidden_size);
      EmbedParams params;
      params.token_ids = token_ids.data();
      params.num_tokens = num_tokens;
      params.token_table = tokens.tensor({101, hidden_size});
      params.token_scale = 1.75f;
      params.output = output.tensor({num_tokens, hidden_size});
      if (all_tables) {
        params.positions = position_ids.data();
        params.type_ids = type_ids.data();
        params.position_table = positions.tensor({64, hidden_size});
        params.type_table = types.tensor({2, hidden_size});
      }
      backend().Embed(params);
      ExpectNear(output.Read(), reference::Embed(params), kTolerance);
    }
  }
}

TEST_P(RowOpTest, EmbedNormalisesItsSum) {
  for (int hidden_size : {1, 15, 120, 193, 256, 1001, 2048, 12256}) {
    const int num_tokens = RandomInt(1, 40);
    const auto tokens = RandomArray(101 * hidden_size, 3.0f);
    const auto positions = RandomArray(64 * hidden_size);
    const auto gain = RandomArray(hidden_size);
    const auto bias = RandomArray(hidden_size);
    const auto token_ids = UploadIds(RandomIds(num_tokens, 101));
    const auto position_ids = UploadIds(RandomIds(num_tokens, 64));
    for (NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
      for (bool biased : {true, false}) {
        SCOPED_TRACE(testing::Message() << hidden_size << " columns, biased " << biased);
        const auto output = Output(num_tokens * hidden_size);
        EmbedParams params;
        params.token_ids = token_ids.data();
        params.positions = position_ids.data();
        params.num_tokens = num_tokens;
        params.token_table = tokens.tensor({101, hidden_size});
        params.position_table = positions.tensor({64, hidden_size});
        params.token_scale = 0.5f;
        params.norm.kind = kind;
        params.norm.gain = gain.tensor({hidden_size});
        if (biased) params.norm.bias = bias.tensor({hidden_size});
        params.norm.epsilon = 1e-3f;
        params.output = output.tensor({num_tokens, hidden_size});
        backend().Embed(params);
        ExpectNear(output.Read(), reference::Embed(params), 2e-5);
      }
    }
  }
}

TEST_P(RowOpTest, NormMatchesReference) {
  for (int hidden_size : {1, 15, 120, 256, 1001}) {
    for (NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
      const int num_rows = RandomInt(1, 70);
      const size_t size = num_rows * hidden_size;
      const auto x = RandomArray(size, 3.0f);
      const auto residual = RandomArray(size);
      const auto gain = RandomArray(hidden_size);
      const auto bias = RandomArray(hidden_size);
      const auto sum = Output(size);
      const auto y = Output(size);
      NormParams params;
      params.kind = kind;
      params.x = x.tensor({num_rows, hidden_size});
      params.residual = residual.tensor({num_rows, hidden_size});
      params.gain = gain.tensor({hidden_size});
      params.bias = bias.tensor({hidden_size});
      params.sum = sum.tensor({num_rows, hidden_size});
      params.y = y.tensor({num_rows, hidden_size});
      backend().Norm(params);
      const reference::NormResult expected = reference::Norm(params);
      ExpectNear(y.Read(), expected.y, 2e-5);
      ExpectNear(sum.Read(), expected.sum, kTolerance);
    }
  }
}

TEST_P(RowOpTest, NormAddsBehindItself) {
  for (int hidden_size : {1, 15, 120, 256, 4096, 12000}) {
    for (int num_rows : {1, 5, 2500}) {
      if (int64_t{num_rows} * hidden_size > 1 << 20) continue;
      for (const bool in_place : {false, true}) {
        SCOPED_TRACE(testing::Message() << num_rows << " rows of " << hidden_size);
        const size_t size = static_cast<size_t>(num_rows) * hidden_size;
        const auto x = RandomArray(size, 3.0f);
        const std::vector<float> added = RandomFloats(size);
        const auto addend = Upload(added);
        const auto output = Output(size);
        const auto gain = RandomArray(hidden_size);
        NormParams params;
        params.kind = NormKind::kRmsNorm;
        params.x = x.tensor({num_rows, hidden_size});
        params.gain = gain.tensor({hidden_size});
        params.addend = addend.tensor({num_rows, hidden_size});
        params.y = (in_place ? addend : output).tensor({num_rows, hidden_size});
        const reference::Matrix expected = reference::Norm(params).y;
        backend().Norm(params);
        ExpectNear((in_place ? addend : output).Read(), expected, 2e-5);
      }
    }
  }
}

// A large common offset is where a variance of squares minus the square of the mean would fail (by
// a tenth and more). What a sum of 256 floats near 1,000 rounds, a walk of steps of 0.008 to 0.016,
// moves the mean by some 5e-4; the tolerance is four times that.
TEST_P(RowOpTest, NormKeepsPrecisionFarFromZero) {
  const int hidden_size = 256;
  std::vector<float> values = RandomFloats(hidden_size);
  for (float& value : values) value += 1000.0f;
  const auto x = Upload(values);
  const auto gain = Upload(std::vector<float>(hidden_size, 1.0f));
  const auto y = Output(hidden_size);
  NormParams params;
  params.x = x.tensor({1, hidden_size});
  params.gain = gain.tensor({hidden_size});
  params.y = y.tensor({1, hidden_size});
  const reference::NormResult expected = reference::Norm(params);
  backend().Norm(params);
  ExpectNear(y.Read(), expected.y, 2e-3);
}

TEST_P(RowOpTest, NormMayWriteOverItsInputs) {
  const int num_rows = 40;
  const int hidden_size = 72;
  const auto x = RandomArray(num_rows * hidden_size);
  const auto residual = RandomArray(num_rows * hidden_size);
  const auto gain = RandomArray(hidden_size);
  NormParams params;
  params.x = x.tensor({num_rows, hidden_size});
  params.residual = residual.tensor({num_rows, hidden_size});
  params.gain = gain.tensor({hidden_size});
  params.sum = params.residual;
  params.y = params.x;
  const reference::NormResult expected = reference::Norm(params);
  backend().Norm(params);
  ExpectNear(x.Read(), expected.y, 2e-5);
  ExpectNear(residual.Read(), expected.sum, kTolerance);
}

// Sequences shorter than a kernel, empty ones, and rows with gaps between them.
TEST_P(RowOpTest, UnfoldMatchesReference) {
  for (const int width : {1, 24, 257}) {
    for (const int kernel_size : {1, 3, 5, 9}) {
      SCOPED_TRACE(testing::Message() << width << " wide, kernel " << kernel_size);
      const std::vector<int32_t> offsets = OffsetsOf({1, 7, 0, 2, 40, 0});
      const int64_t num_tokens = offsets.back();
      const auto input = RandomArray(num_tokens * (width + 3));
      const auto device_offsets = UploadIds(offsets);
      const auto output = Output(num_tokens * width * kernel_size);
      UnfoldParams params;
      params.input = input.tensor({num_tokens, width + 3}).Columns(0, width);
      params.offsets = device_offsets.data();
      params.num_sequences = static_cast<int>(offsets.size()) - 1;
      params.kernel_size = kernel_size;
      params.output = output.tensor({num_tokens, int64_t{width} * kernel_size});
      backend().Unfold(params);
      ExpectNear(output.Read(), reference::Unfold(params), 0.0);
    }
  }
}

TEST_P(RowOpTest, GatherRowsCopies) {
  const std::vector<float> input = RandomFloats(50 * 37);
  const std::vector<int32_t> rows = RandomIds(90, 50);
  const auto device_input = Upload(input);
  const auto device_rows = UploadIds(rows);
  const auto output = Output(90 * 37);
  backend().GatherRows(
      {device_input.tensor({50, 37}), device_rows.data(), output.tensor({90, 37})});
  const std::vector<float> actual = output.Read();
  for (int i = 0; i < 90; ++i) {
    ExpectSameBits(std::span(actual).subspan(i * 37, 37),
                   std::span(input).subspan(rows[i] * 37, 37));
  }
}

TEST_P(RowOpTest, CopyBlocksMovesKeysAndValues) {
  const int block_values = 3 * 16 * 40;
  const std::vector<float> keys = RandomFloats(6 * block_values);
  const std::vector<float> values = RandomFloats(6 * block_values);
  const auto device_keys = Upload(keys);
  const auto device_values = Upload(values);
  const KvLayer layer = {.keys = device_keys.tensor({6, 3, 16, 40}),
                         .values = device_values.tensor({6, 3, 16, 40}),
                         .key_layout = backend().key_layout()};
  const BlockCopy copies[] = {{.source = 0, .target = 4}, {.source = 2, .target = 1}};
  backend().CopyBlocks({layer, copies});
  const std::vector<float> new_keys = device_keys.Read();
  const std::vector<float> new_values = device_values.Read();
  const int came_from[] = {0, 2, 2, 3, 0, 5};
  for (int block = 0; block < 6; ++block) {
    const auto part = [&](const std::vector<float>& all, int b) {
      return std::span(all).subspan(b * block_values, block_values);
    };
    ExpectSameBits(part(new_keys, block), part(keys, came_from[block]));
    ExpectSameBits(part(new_values, block), part(values, came_from[block]));
  }
}

TEST_P(RowOpTest, PoolMatchesReference) {
  const std::vector<int> lengths = {1, 300, 2, 7, 64};
  const std::vector<int32_t> offsets = OffsetsOf(lengths);
  const auto device_offsets = UploadIds(offsets);
  for (int hidden_size : {40, 257}) {
    const auto hidden = RandomArray(offsets.back() * hidden_size);
    for (Pooling pooling :
         {Pooling::kMean, Pooling::kCls, Pooling::kLast, Pooling::kMax, Pooling::kMeanSqrtLength}) {
      for (bool normalize : {false, true}) {
        const auto output = Output(lengths.size() * hidden_size);
        PoolParams params;
        params.pooling = pooling;
        params.normalize = normalize;
        params.hidden = hidden.tensor({offsets.back(), hidden_size});
        params.offsets = device_offsets.data();
        params.num_sequences = static_cast<int>(lengths.size());
        params.output = output.tensor({params.num_sequences, hidden_size});
        backend().Pool(params);
        ExpectNear(output.Read(), reference::Pool(params), 1e-5);
      }
    }
  }
}

TEST_P(RowOpTest, PoolKeepsAZeroVectorAtZero) {
  const auto hidden = Upload(std::vector<float>(3 * 20, 0.0f));
  const auto offsets = UploadIds(std::vector<int32_t>{0, 3});
  const auto output = Output(20);
  PoolParams params;
  params.normalize = true;
  params.hidden = hidden.tensor({3, 20});
  params.offsets = offsets.data();
  params.num_sequences = 1;
  params.output = output.tensor({1, 20});
  backend().Pool(params);
  ExpectSameBits(output.Read(), std::vector<float>(20, 0.0f));
}

// Whether the work runs or its recording does, it computes on what the memory holds.
TEST_P(RowOpTest, ReplayComputesOnNewContents) {
  const int num_rows = 5, hidden_size = 96;
  const size_t size = num_rows * hidden_size;
  const auto x = Output(size), between = Output(size), y = Output(size);
  const auto gain = RandomArray(hidden_size);
  NormParams first, second;
  first.x = x.tensor({num_rows, hidden_size});
  first.gain = second.gain = gain.tensor({hidden_size});
  first.y = second.x = between.tensor({num_rows, hidden_size});
  second.residual = first.x;
  second.y = y.tensor({num_rows, hidden_size});
  for (int i = 0; i < 4; ++i) {
    const std::vector<float> values = RandomFloats(size);
    const std::vector<float> poison(size, std::nanf(""));
    backend().CopyToDevice(values.data(), x.data(), size * sizeof(float));
    backend().CopyToDevice(poison.data(), between.data(), size * sizeof(float));
    backend().CopyToDevice(poison.data(), y.data(), size * sizeof(float));
    backend().Replay(17, [&] {
      backend().Norm(first);
      backend().Norm(second);
    });
    ExpectNear(between.Read(), reference::Norm(first).y, 2e-5);
    ExpectNear(y.Read(), reference::Norm(second).y, 2e-5);
  }
}

TEST_P(RowOpTest, FillTokensTakesWordsOfAReadBack) {
  const int num_words = RandomInt(1, 500);
  auto words = backend().AllocateReadBack(num_words * sizeof(int32_t));
  ASSERT_TRUE(words.ok()) << words.status();
  const std::vector<int32_t> values = RandomIds(num_words, 1 << 30);
  backend().CopyToDevice(values.data(), (*words)->device(), num_words * sizeof(int32_t));
  std::vector<int32_t> expected = RandomIds(700, 1000);
  const auto token_ids = UploadIds(expected);
  std::vector<TokenFill> fills;
  for (int32_t target = RandomInt(0, 3); target < 700; target += RandomInt(1, 4)) {
    fills.push_back({RandomInt(0, num_words - 1), target});
    expected[target] = values[fills.back().source];
  }
  backend().FillTokens({static_cast<const int32_t*>((*words)->device()), fills, token_ids.data()});
  EXPECT_EQ(token_ids.Read(), expected);

  const int num_read = RandomInt(0, num_words);
  (*words)->Start(num_read * sizeof(int32_t));
  ASSERT_TRUE((*words)->Wait().ok());
  EXPECT_TRUE((*words)->Done());
  const auto* read = static_cast<const int32_t*>((*words)->host());
  EXPECT_TRUE(std::equal(read, read + num_read, values.begin()));
}

}  // namespace
}  // namespace beamline::row_op_test
