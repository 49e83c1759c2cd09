// Products of 2 to 8 rows and a large weight against the float64 twin.
#include "kernels/cuda/products/stream_tiles_product.h"

#include <cstring>

#include "tests/gpu/cuda_fixture.h"
#include "tests/gpu/product_patterns.h"
#include "tests/gpu/random_weight.h"
#include "tests/kernels/small_cases.h"

namespace beamline::stream_tiles_product_test {
namespace {

using cuda::StreamSplit;

struct Shape {
  int rows, in_features, out_features;
  StreamSplit split = StreamSplit::kAsFits;
};

// What a product is called with, in all of its variants: the number's bits.
struct Variant {
  bool biased, adds, gated, into_floats;
  Activation activation;

  static Variant Number(int number, const Shape& shape) {
    const auto bit = [number](int i) { return (number >> i & 1) != 0; };
    const bool gated = bit(2) && shape.out_features % 2 == 0;
    const bool floats = bit(3) && !gated;
    return {bit(0), bit(1) && !floats, gated, floats, static_cast<Activation>(number % 6)};
  }
};

class StreamTilesProductTest : public HopperTypedTest {
 protected:
  double Tolerance() const { return dtype() == DType::kFloat16 ? 8e-4 : 6e-3; }

  // What `values` [out_features, in_features] make of the rows `x`, with everything behind it.
  static reference::Matrix Expected(const StridedMatrix& x, int rows,
                                    const reference::Matrix& values, const Variant& variant,
                                    const TypedArray& bias, const StridedMatrix& residual) {
    const int64_t width = variant.gated ? values.rows / 2 : values.rows;
    const auto product = [&](int64_t r, int64_t c) {
      double sum = variant.biased ? bias.host()[c] : 0.0;
      for (int64_t k = 0; k < values.cols; ++k) sum += x.at(r, k) * values.at(c, k);
      return sum;
    };
    reference::Matrix expected(rows, width);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        double value = reference::Activate(variant.activation, product(r, c));
        if (variant.gated) value *= product(r, c + width);
        if (variant.adds) value += residual.at(r, c);
        expected.at(r, c) = value;
      }
    }
    return expected;
  }

  // Compares multiply(params) with the float64 product of `values`.
  template <typename Multiply>
  void Check(const Shape& shape, const Variant& variant, const reference::Matrix& values,
             Multiply multiply) {
    SCOPED_TRACE(testing::Message()
                 << shape.rows << " x " << shape.in_features << " x " << shape.out_features
                 << " split " << static_cast<int>(shape.split) << (variant.biased ? " bias" : "")
                 << (variant.adds ? " residual" : "") << (variant.gated ? " gated" : "")
                 << (variant.into_floats ? " floats" : ""));
    const int width = variant.gated ? shape.out_features / 2 : shape.out_features;
    const DType y_dtype = variant.into_floats ? DType::kFloat32 : dtype();
    const StridedMatrix x = RandomMatrix(dtype(), shape.rows, shape.in_features,
                                         shape.in_features + 8 * RandomInt(0, 2));
    const TypedArray bias =
        TypedArray::Random(backend(), dtype(), 1, shape.out_features, 1.0f, random());
    const StridedMatrix residual = RandomMatrix(dtype(), shape.rows, width, width + 3);
    const StridedMatrix y = Poisoned(y_dtype, shape.rows, width, width + RandomInt(0, 3));
    MatMulParams params;
    params.x = x.tensor();
    params.activation = variant.activation;
    params.gated = variant.gated;
    if (variant.biased) params.bias = bias.device_vector();
    if (variant.adds) params.residual = residual.tensor();
    params.y = y.tensor();
    multiply(params);
    ASSERT_TRUE(backend().Synchronize().ok());
    // A gate multiplies what rounding costs.
    const double tolerance = (variant.gated ? 4 : 1) * Tolerance();
    EXPECT_LE(y.RelativeError(Expected(x, shape.rows, values, variant, bias, residual)), tolerance);
  }

  // Sizes on both sides of tiles, of stages, of steps and of what a block takes.
  std::vector<Shape> Shapes(int step_columns) {
    std::vector<Shape> all = {{8, 4096, 48},
                              {6, 4096, 50},
                              {2, 2048, 2115},
                              {4, 5632, 17, StreamSplit::kTwo},
                              {3, 5632, 400},
                              {8, 14336, 70},
                              {5, 14336, 34},
                              {7, 14336, 4131, StreamSplit::kFour},
                              {3, 4096, 1000, StreamSplit::kTwo},
                              {2, 4096, 33, StreamSplit::kFour},
                              {5, step_columns, 1},
                              {8, step_columns, 16},
                              {4, 1024 + step_columns, 130, StreamSplit::kTwo},
                              {6, 7168 - step_columns, 4300}};
    for (int i = 0; i < 6; ++i) {
      all.push_back(
          {RandomInt(2, 8), step_columns * RandomInt(1, 7168 / step_columns), RandomInt(1, 2500)});
    }
    return Cases(all, {all[1], all[6], all[9], all[11], all[12]});
  }
};
INSTANTIATE_TEST_SUITE_P(Types, StreamTilesProductTest,
                         testing::Values(DType::kFloat16, DType::kBFloat16), DTypeName);

TEST_P(StreamTilesProductTest, EveryShapeAndEpilogue) {
  int number = RandomInt(0, 47);
  for (const Shape& shape : Shapes(32)) {
    const RandomWeight weight =
        MakeRandomWeight(backend(), dtype(), shape.out_features, shape.in_features, random());
    for (int i = 0; i < 3; ++i, number += 11) {
      const Variant variant = Variant::Number(number, shape);
      Check(shape, variant, weight.values, [&](const MatMulParams& params) {
        cuda::StreamTilesProduct(device(), params, CudaOf(weight), shape.split);
      });
    }
  }
}

TEST_P(StreamTilesProductTest, ARowThatIsNotANumberStaysAlone) {
  const RandomWeight weight = MakeRandomWeight(backend(), dtype(), 320, 576, random());
  for (const StreamSplit split : {StreamSplit::kAsFits, StreamSplit::kTwo}) {
    for (const int rows : {2, 5, 8}) {
      ExpectNaNInItsRowAlone(backend(), weight, dtype(), rows, random(),
                             [&](const MatMulParams& params, const cuda::CudaWeight& of) {
                               cuda::StreamTilesProduct(device(), params, of, split);
                             });
    }
  }
}

TEST_P(StreamTilesProductTest, AChainHasTheBitsOfItsKernelsAlone) {
  constexpr int kWidth = 2048, kRows = 8;
  for (const StreamSplit split : {StreamSplit::kOne, StreamSplit::kTwo, StreamSplit::kFour}) {
    std::vector<RandomWeight> weights;
    std::vector<TypedArray> hidden;
    for (int i = 0; i < Cases<int>({6}, {2})[0]; ++i) {
      weights.push_back(MakeRandomWeight(backend(), dtype(), kWidth, kWidth, random()));
      hidden.push_back(TypedArray::Poisoned(backend(), dtype(), kRows, kWidth));
    }
    const TypedArray x = TypedArray::Random(backend(), dtype(), kRows, kWidth, 1.0f, random());
    ExpectAChainOfTheSameBits(backend(), weights, x, hidden, Cases<int>({40}, {2})[0],
                              [&](const MatMulParams& params, const cuda::CudaWeight& weight) {
                                cuda::StreamTilesProduct(device(), params, weight, split);
                              });
  }
}

// The number of an e4m3 that is no NaN.
float FromE4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

// Every number that e4m3 has, and scales of each kind: the kernel widens exactly, so that only the
// sums and the result are rounded.
TEST_P(StreamTilesProductTest, E4m3WithEveryScale) {
  int number = RandomInt(0, 47);
  for (const Shape& shape : Shapes(64)) {
    std::vector<uint8_t> bits(int64_t{shape.out_features} * shape.in_features);
    for (uint8_t& byte : bits) {
      do byte = static_cast<uint8_t>(RandomInt(0, 255));
      while ((byte & 0x7f) == 0x7f);
    }
    auto data = backend().Allocate(bits.size());
    ASSERT_TRUE(data.ok());
    backend().CopyToDevice(bits.data(), (*data)->data(), bits.size());
    const int block_rows = (shape.out_features + 127) / 128;
    const int block_columns = (shape.in_features + 127) / 128;
    for (int kind = 0; kind < 3; ++kind, number += 11) {
      const int rows = kind == 2 ? block_rows : 1;
      const int columns = kind == 0 ? 1 : kind == 1 ? shape.out_features : block_columns;
      std::vector<float> numbers = Normal(int64_t{rows} * columns, 0.001f);
      const TypedArray scales(backend(), DType::kFloat32, rows, columns, numbers);
      reference::Matrix values(shape.out_features, shape.in_features);
      for (int r = 0; r < shape.out_features; ++r) {
        for (int c = 0; c < shape.in_features; ++c) {
          const float scale = kind == 0   ? numbers[0]
                              : kind == 1 ? numbers[r]
                                          : numbers[r / 128 * block_columns + c / 128];
          values.at(r, c) =
              double{FromE4m3(bits[int64_t{r} * shape.in_features + c])} * double{scale};
        }
      }
      cuda::E4m3Matrix weight = {(*data)->data(), shape.out_features, shape.in_features,
                                 shape.in_features,
                                 kind == 2 ? scales.device() : scales.device_vector()};
      const Variant variant = Variant::Number(number, shape);
      Check(shape, variant, values, [&](const MatMulParams& params) {
        cuda::StreamTilesProduct(device(), params, weight, shape.split);
      });
    }
  }
}

// Nibbles with a scale and a zero for each group of 128 columns: widened exactly too.
TEST_P(StreamTilesProductTest, Int4WithScalesAndZeros) {
  int number = RandomInt(0, 47);
  for (const Shape& shape : Shapes(128)) {
    const int64_t out = shape.out_features, in = shape.in_features;
    const int64_t groups = in / 128, group_stride = (groups + 3) / 4 * 4;
    std::vector<uint32_t> words(out * in / 8);
    std::vector<uint8_t> group_bytes(out * group_stride * 4, 0xff);
    reference::Matrix values(out, in);
    for (int64_t r = 0; r < out; ++r) {
      for (int64_t c = 0; c < in; ++c) {
        uint8_t* const group = group_bytes.data() + 4 * (r * group_stride + c / 128);
        if (c % 128 == 0) {
          const uint16_t scale = ToFloat16Bits(0.001f * static_cast<float>(RandomInt(1, 20)));
          std::memcpy(group, &scale, 2);
          group[2] = static_cast<uint8_t>(RandomInt(0, 15));
        }
        uint16_t scale = 0;
        std::memcpy(&scale, group, 2);
        const auto nibble = static_cast<uint32_t>(RandomInt(0, 15));
        words[(r * in + c) / 8] |= nibble << 4 * (c % 2 * 4 + c % 8 / 2);
        values.at(r, c) = (static_cast<double>(nibble) - group[2]) * double{FromFloat16Bits(scale)};
      }
    }
    auto data = backend().Allocate(words.size() * 4),
         scales = backend().Allocate(group_bytes.size());
    ASSERT_TRUE(data.ok() && scales.ok());
    backend().CopyToDevice(words.data(), (*data)->data(), words.size() * 4);
    backend().CopyToDevice(group_bytes.data(), (*scales)->data(), group_bytes.size());
    const cuda::Int4Matrix weight = {(*data)->data(),   out,         in, in / 2,
                                     (*scales)->data(), group_stride};
    for (int i = 0; i < 2; ++i, number += 11) {
      const Variant variant = Variant::Number(number, shape);
      Check(shape, variant, values, [&](const MatMulParams& params) {
        cuda::StreamTilesProduct(device(), params, weight, shape.split);
      });
    }
  }
}

}  // namespace
}  // namespace beamline::stream_tiles_product_test
