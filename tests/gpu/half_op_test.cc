// The operators in float16 and bfloat16, and in float32 at sizes that only a GPU is asked for,
// against the float64 twin on the same (rounded) inputs.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "absl/strings/str_format.h"
#include "base/math.h"
#include "tests/gpu/half_op_fixture.h"
#include "tests/kernels/small_cases.h"

namespace beamline::half_op_test {
namespace {

INSTANTIATE_TEST_SUITE_P(Types, HalfOpTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(HalfOpTest, MatMulWithEveryEpilogue) {
  struct Shape {
    int rows, in_features, half;
  };
  const std::vector<Shape> all = {{1, 256, 128}, {3, 72, 50},    {5, 4096, 64},  {8, 1024, 64},
                                  {12, 96, 80},  {16, 320, 40},  {17, 200, 33},  {130, 256, 96},
                                  {77, 65, 64},  {1, 776, 33},   {1, 1024, 50},  {1, 2040, 9},
                                  {1, 3072, 20}, {1, 4088, 17},  {1, 5120, 30},  {4, 512, 256},
                                  {2, 1024, 40}, {3, 520, 1060}, {1, 768, 1200}, {3, 5120, 30}};
  for (const Shape& shape : Cases(all, {all[2], all[4], all[6], all[7], all[12], all[15]})) {
    const Weight weight = RandomWeight(2 * shape.half, shape.in_features);
    const TypedArray x = Random(shape.rows, shape.in_features, 1.5f);
    const TypedArray bias = Random(1, 2 * shape.half);
    for (Activation activation :
         Cases<Activation>({Activation::kNone, Activation::kRelu, Activation::kGelu,
                            Activation::kGeluTanh, Activation::kSilu, Activation::kTanh},
                           {Activation::kGelu})) {
      for (int variant : Cases<int>({0, 1, 2, 3, 4, 5, 6, 7}, {0, 6, 7})) {
        const bool gated = (variant & 1) != 0;
        const int columns = gated ? shape.half : 2 * shape.half;
        const TypedArray residual = Random(shape.rows, columns);
        const TypedArray y = Output(shape.rows, columns);
        SCOPED_TRACE(testing::Message()
                     << shape.rows << "x" << shape.in_features << "x" << 2 * shape.half
                     << " activation " << static_cast<int>(activation) << " variant " << variant);
        MatMulParams params, expected;
        params.weight = expected.weight = weight.packed.get();
        params.activation = expected.activation = activation;
        params.gated = expected.gated = gated;
        params.x = x.device();
        expected.x = x.host_tensor();
        if ((variant & 2) != 0) {
          params.bias = bias.device_vector();
          expected.bias = bias.host_vector();
        }
        if ((variant & 4) != 0) {
          params.residual = residual.device();
          expected.residual = residual.host_tensor();
        }
        params.y = y.device();
        expected.y = y.host_tensor();
        backend().MatMul(params);
        ExpectClose(y, reference::MatMul(expected, weight.values));
      }
    }
  }
}

// Enough rows that a thread of the finishing pass takes several, and a number that leaves some
// over.
TEST_P(HalfOpTest, ManyRowsAreFinished) {
  constexpr int kRows = 4099, kInFeatures = 8, kHalf = 2112;
  const Weight weight = RandomWeight(2 * kHalf, kInFeatures);
  const TypedArray x = Random(kRows, kInFeatures), bias = Random(1, 2 * kHalf);
  for (bool gated : {false, true}) {
    const int columns = gated ? kHalf : 2 * kHalf;
    const TypedArray y = Output(kRows, columns);
    MatMulParams params, expected;
    params.weight = expected.weight = weight.packed.get();
    params.activation = expected.activation = gated ? Activation::kSilu : Activation::kTanh;
    params.gated = expected.gated = gated;
    params.x = x.device(), expected.x = x.host_tensor();
    params.bias = bias.device_vector(), expected.bias = bias.host_vector();
    params.y = y.device(), expected.y = y.host_tensor();
    backend().MatMul(params);
    ExpectClose(y, reference::MatMul(expected, weight.values));
  }
}

// The exact GELU behind a product of many rows has kernels of its own: with rows, columns and
// input features that are not multiples of what they compute at once, and where y has gaps.
TEST_P(HalfOpTest, ManyRowsWithGelu) {
  struct Shape {
    int rows, in_features, out_features, gap;
  };
  for (const Shape& shape :
       {Shape{3001, 40, 392, 0}, {1500, 65, 1032, 8}, {9001, 16, 3080, 0}, {2000, 24, 1001, 0}}) {
    const Weight weight = RandomWeight(shape.out_features, shape.in_features);
    const TypedArray x = Random(shape.rows, shape.in_features);
    const TypedArray bias = Random(1, shape.out_features);
    const int stride = shape.out_features + shape.gap;
    const TypedArray y = Output(shape.rows, stride);
    MatMulParams params, expected;
    params.weight = expected.weight = weight.packed.get();
    params.activation = expected.activation = Activation::kGelu;
    params.x = x.device(), expected.x = x.host_tensor();
    params.bias = bias.device_vector(), expected.bias = bias.host_vector();
    params.y = y.device().Columns(0, shape.out_features);
    expected.y = y.host_tensor().Columns(0, shape.out_features);
    backend().MatMul(params);
    const reference::Matrix result = reference::MatMul(expected, weight.values);
    const std::vector<float> actual = y.Read();
    double error = 0, norm = 0;
    int64_t wrong = 0;
    std::string first;  // row, column, value and expectation of the first that are far off
    for (int r = 0; r < shape.rows; ++r) {
      for (int c = 0; c < stride; ++c) {
        const double value = actual[int64_t{r} * stride + c];
        if (c >= shape.out_features) {
          ASSERT_TRUE(std::isnan(value)) << "between the rows";
          continue;
        }
        error += std::pow(value - result.at(r, c), 2);
        norm += std::pow(result.at(r, c), 2);
        if (!(std::abs(value - result.at(r, c)) <= 0.1) && ++wrong <= 16) {
          first += absl::StrFormat(" (%d, %d) %g for %g", r, c, value, result.at(r, c));
        }
      }
    }
    EXPECT_TRUE(std::sqrt(error / norm) <= Tolerance(dtype()))
        << shape.rows << " rows: error " << std::sqrt(error / norm) << "; " << wrong
        << " far off:" << first;
  }
}

// Tiles of one step each: what leaves of one tile is still under way when the next one is ready.
TEST_P(HalfOpTest, ManyRowsWithGeluGiveTheSameBits) {
  constexpr int kRows = 9001, kInFeatures = 16, kOutFeatures = 3080, kRounds = 50;
  const Weight weight = RandomWeight(kOutFeatures, kInFeatures);
  const TypedArray x = Random(kRows, kInFeatures), y = Output(kRows, kOutFeatures);
  MatMulParams params;
  params.weight = weight.packed.get();
  params.activation = Activation::kGelu;
  params.x = x.device();
  params.y = y.device();
  backend().MatMul(params);
  const std::vector<float> first = y.Read();
  for (int round = 0; round < kRounds; ++round) {
    for (int again = 0; again < 4; ++again) backend().MatMul(params);
    const std::vector<float> next = y.Read();
    const auto at = std::mismatch(first.begin(), first.end(), next.begin()).first - first.begin();
    ASSERT_TRUE(next == first) << "round " << round << ": row " << at / kOutFeatures << ", column "
                               << at % kOutFeatures;
  }
}

// Few rows take another kernel where the weight is large, unless a gate or a norm goes with them.
TEST_P(HalfOpTest, FewRowsOfALargeWeight) {
  constexpr int kInFeatures = 696, kOutFeatures = 50257;  // 67 MiB in 16 bits
  const Weight weight = RandomWeight(kOutFeatures, kInFeatures);
  for (int rows : {2, 3, 16}) {
    const TypedArray x = Random(rows, kInFeatures), bias = Random(1, kOutFeatures);
    const TypedArray y = Output(rows, kOutFeatures);
    MatMulParams params, expected;
    params.weight = expected.weight = weight.packed.get();
    params.activation = expected.activation = Activation::kGelu;
    params.x = x.device(), expected.x = x.host_tensor();
    params.bias = bias.device_vector(), expected.bias = bias.host_vector();
    params.y = y.device(), expected.y = y.host_tensor();
    backend().MatMul(params);
    ExpectClose(y, reference::MatMul(expected, weight.values));
  }
}

// Half precision rounds what this compares.
class Float32OpTest : public HalfOpTest {};
INSTANTIATE_TEST_SUITE_P(Types, Float32OpTest, testing::Values(DType::kFloat32), DTypeName);

// erf(x / sqrt(2)) = 2 gelu(x) / x - 1 to within 2e-7, over every magnitude and both signs: by the
// product of few rows and by the finishing pass.
TEST_P(Float32OpTest, GeluIsExactAtEveryMagnitude) {
  constexpr int kColumns = 64;
  std::vector<float> identity(kColumns * kColumns);
  for (int i = 0; i < kColumns; ++i) identity[i * kColumns + i] = 1.0f;
  const HostMatrix part = {.data = identity.data(), .rows = kColumns, .cols = kColumns};
  const auto weight = backend().PackWeight({&part, 1}, dtype());
  ASSERT_TRUE(weight.ok()) << weight.status();
  for (int rows : {4, 8192}) {
    // Exponents -40 to 40, and many numbers where erf bends.
    std::uniform_real_distribution<float> exponent(-40.0f, 40.0f), near(-7.0f, 7.0f);
    std::vector<float> values(rows * kColumns);
    for (size_t i = 0; i < values.size(); ++i) {
      const float magnitude = std::exp2(exponent(random_));
      values[i] = i % 4 != 0 ? near(random_) : i % 8 == 0 ? magnitude : -magnitude;
    }
    values[0] = 0.0f, values[1] = -0.0f, values[2] = 1e30f, values[3] = -1e30f;
    const TypedArray x(backend(), dtype(), rows, kColumns, values);
    const TypedArray y = Output(rows, kColumns);
    MatMulParams params;
    params.x = x.device();
    params.weight = weight->get();
    params.activation = Activation::kGelu;
    params.y = y.device();
    backend().MatMul(params);
    const std::vector<float> actual = y.Read();
    for (size_t i = 0; i < values.size(); ++i) {
      const double expected = reference::Activate(Activation::kGelu, values[i]);
      const double erf_error = 2e-7 * 0.5 * std::abs(double{values[i]});
      ASSERT_LE(std::abs(actual[i] - expected), erf_error + 1.2e-7 * std::abs(expected))
          << "of " << values[i];
    }
  }
}

TEST_P(HalfOpTest, LogitsAreFloat32) {
  for (int rows : {1, 5, 16, 40}) {
    for (int vocab_size : Cases<int>({8000, 6001}, {601})) {
      const Weight weight = RandomWeight(vocab_size, 192);
      const TypedArray x = Random(rows, 192);
      const TypedArray bias = Random(1, vocab_size);
      // As the engine loads it: float32, and a whole tile of it may be read.
      const int tiles = RoundUp(vocab_size, 64);
      const TypedArray padded_bias =
          TypedArray::Random(backend(), DType::kFloat32, 1, tiles, 1.0f, random_);
      enum Bias { kNone, kOfX, kPadded };
      for (const auto& [biased, padding] :
           {std::pair(kNone, 0), {kOfX, 0}, {kNone, 63}, {kOfX, 63}, {kPadded, 0}, {kPadded, 63}}) {
        const int stride = RoundUp(vocab_size, padding + 1);
        const TypedArray y = Output(rows, stride, DType::kFloat32);
        MatMulParams params, expected;
        params.weight = expected.weight = weight.packed.get();
        params.x = x.device();
        expected.x = x.host_tensor();
        if (biased == kOfX) {
          params.bias = bias.device_vector();
          expected.bias = bias.host_vector();
        } else if (biased == kPadded) {
          params.bias = padded_bias.device().Columns(0, vocab_size);
          expected.bias = padded_bias.host_tensor().Columns(0, vocab_size);
        }
        params.y = y.device().Columns(0, vocab_size);
        params.y_owns_padding = true;
        expected.y = y.host_tensor().Columns(0, vocab_size);
        backend().MatMul(params);
        const reference::Matrix result = reference::MatMul(expected, weight.values);
        const std::vector<float> actual = y.Read();
        double error = 0, norm = 0;
        for (int r = 0; r < rows; ++r) {
          for (int c = 0; c < vocab_size; ++c) {
            error += std::pow(actual[r * stride + c] - result.at(r, c), 2);
            norm += std::pow(result.at(r, c), 2);
          }
        }
        // Nothing is rounded to half precision on the way.
        EXPECT_TRUE(std::sqrt(error / norm) <= Tolerance(DType::kFloat32)) << rows << " rows";
      }
    }
  }
}

TEST_P(HalfOpTest, NormAddsTheResidual) {
  // The last two straddle what a launch gets of shared memory without asking.
  for (int hidden_size : {8, 64, 256, 512, 768, 1000, 1023, 1024, 1032, 5120, 12224, 12288}) {
    for (NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
      const int rows = hidden_size == 512 ? 1301 : RandomInt(1, 40);
      const TypedArray x = Random(rows, hidden_size, 2.0f), residual = Random(rows, hidden_size);
      const TypedArray gain = Random(1, hidden_size), bias = Random(1, hidden_size);
      const TypedArray y = Output(rows, hidden_size), sum = Output(rows, hidden_size);
      NormParams params, expected;
      params.kind = expected.kind = kind;
      params.x = x.device(), expected.x = x.host_tensor();
      params.residual = residual.device(), expected.residual = residual.host_tensor();
      params.gain = gain.device_vector(), expected.gain = gain.host_vector();
      params.bias = bias.device_vector(), expected.bias = bias.host_vector();
      params.y = y.device(), expected.y = y.host_tensor();
      params.sum = sum.device();
      backend().Norm(params);
      const reference::NormResult result = reference::Norm(expected);
      ExpectClose(y, result.y);
      ExpectClose(sum, result.sum);
    }
  }
}

// Into the addend's memory, as layers do.
TEST_P(HalfOpTest, NormAddsBehindItself) {
  for (int hidden_size : {8, 512, 1023, 5120}) {
    for (const int rows : {1, 37, 2600}) {
      const TypedArray x = Random(rows, hidden_size, 2.0f), addend = Random(rows, hidden_size);
      const TypedArray gain = Random(1, hidden_size);
      NormParams params, expected;
      params.kind = expected.kind = NormKind::kRmsNorm;
      params.x = x.device(), expected.x = x.host_tensor();
      params.gain = gain.device_vector(), expected.gain = gain.host_vector();
      params.addend = params.y = addend.device(), expected.addend = addend.host_tensor();
      backend().Norm(params);
      ExpectClose(addend, reference::Norm(expected).y);
    }
  }
}

TEST_P(HalfOpTest, NormDoesNotDependOnItsBatch) {
  for (int hidden_size : {768, 1024, 5120}) {
    constexpr int kRows = 1200;
    const TypedArray x = Random(kRows, hidden_size), gain = Random(1, hidden_size);
    const auto norm = [&](int first, int count) {
      const TypedArray y = Output(count, hidden_size);
      NormParams params;
      params.x = x.device().First(count);
      params.x.data = static_cast<char*>(params.x.data) + first * hidden_size * SizeOf(dtype());
      params.gain = gain.device_vector();
      params.y = y.device();
      backend().Norm(params);
      return y.Read();
    };
    const std::vector<float> all = norm(0, kRows);
    for (const auto& [first, count] : {std::pair(0, 1), {1199, 1}, {700, 40}, {3, 1197}}) {
      const std::vector<float> part = norm(first, count);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + first * hidden_size));
    }
  }
}

TEST_P(HalfOpTest, EmbedAddsItsTables) {
  for (int hidden_size : {64, 100, 768, 1023, 5120}) {
    const int num_tokens = 45;
    const TypedArray tokens = Random(300, hidden_size), positions = Random(60, hidden_size),
                     types = Random(2, hidden_size);
    std::vector<int32_t> ids(num_tokens), places(num_tokens), kinds(num_tokens);
    for (int i = 0; i < num_tokens; ++i) {
      ids[i] = RandomInt(0, 299), places[i] = RandomInt(0, 59), kinds[i] = RandomInt(0, 1);
    }
    const IndexArray device_ids = Ids(ids), device_places = Ids(places), device_kinds = Ids(kinds);
    const TypedArray gain = Random(1, hidden_size), bias = Random(1, hidden_size);
    EmbedParams params, expected;
    params.num_tokens = expected.num_tokens = num_tokens;
    params.token_scale = expected.token_scale = 3.5f;
    params.token_ids = device_ids.device(), expected.token_ids = ids.data();
    params.positions = device_places.device(), expected.positions = places.data();
    params.type_ids = device_kinds.device(), expected.type_ids = kinds.data();
    params.token_table = tokens.device(), expected.token_table = tokens.host_tensor();
    params.position_table = positions.device(), expected.position_table = positions.host_tensor();
    params.type_table = types.device(), expected.type_table = types.host_tensor();
    for (int variant = 0; variant < 4; ++variant) {
      const TypedArray output = Output(num_tokens, hidden_size);
      params.output = output.device(), expected.output = output.host_tensor();
      if (variant > 0)
        params.norm.gain = gain.device_vector(), expected.norm.gain = gain.host_vector();
      if (variant > 1)
        params.norm.bias = bias.device_vector(), expected.norm.bias = bias.host_vector();
      params.norm.kind = expected.norm.kind =
          variant == 3 ? NormKind::kRmsNorm : NormKind::kLayerNorm;
      backend().Embed(params);
      ExpectClose(output, reference::Embed(expected));
    }
  }
}

// What an aborted collective has left as tokens is read within the table.
TEST_P(HalfOpTest, EmbedTakesTokensThatAreNone) {
  const std::vector<int32_t> ids = {0, -1, 299, 300, 1065353216, INT32_MIN};
  const std::vector<int32_t> in_table = {0, 299, 299, 299, 299, 299};
  const TypedArray tokens = Random(300, 768), output = Output(std::ssize(ids), 768);
  const IndexArray device_ids = Ids(ids);
  EmbedParams params, expected;
  params.num_tokens = expected.num_tokens = std::ssize(ids);
  params.token_ids = device_ids.device(), expected.token_ids = in_table.data();
  params.token_table = tokens.device(), expected.token_table = tokens.host_tensor();
  params.output = output.device(), expected.output = output.host_tensor();
  backend().Embed(params);
  ExpectClose(output, reference::Embed(expected));
}

TEST_P(HalfOpTest, PoolsEveryWay) {
  const std::vector<int32_t> offsets = {0, 1, 34, 34, 60, 300};
  const auto num_sequences = static_cast<int>(offsets.size()) - 1;
  const IndexArray device_offsets = Ids(offsets);
  const Pooling ways[] = {Pooling::kMean, Pooling::kCls, Pooling::kLast, Pooling::kMax,
                          Pooling::kMeanSqrtLength};
  // Many groups of threads a block, few, one; rows of whole 16-byte parts and others.
  for (int hidden_size : Cases<int>({8, 200, 203, 768, 5000, 12800}, {203, 768, 5000})) {
    const TypedArray hidden = Random(300, hidden_size);
    for (int way = 0; way < 2 * static_cast<int>(std::size(ways)); ++way) {
      const Pooling pooling = ways[way / 2];
      const bool normalize = way % 2 != 0;
      const TypedArray output = Output(num_sequences, hidden_size, DType::kFloat32);
      PoolParams params, expected;
      params.pooling = expected.pooling = pooling;
      params.normalize = expected.normalize = normalize;
      params.num_sequences = expected.num_sequences = num_sequences;
      params.hidden = hidden.device(), expected.hidden = hidden.host_tensor();
      params.offsets = device_offsets.device(), expected.offsets = offsets.data();
      params.output = output.device(), expected.output = output.host_tensor();
      backend().Pool(params);
      ExpectClose(output, reference::Pool(expected), Tolerance(DType::kFloat32));
    }
  }
}

}  // namespace
}  // namespace beamline::half_op_test
