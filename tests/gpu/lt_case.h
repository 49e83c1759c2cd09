// A product with everything that any epilogue of cuBLASLt needs, and its twin in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/math.h"
#include "gtest/gtest.h"
#include "kernels/cuda/epilogues/lt_product.h"
#include "tests/gpu/cuda_fixture.h"

namespace beamline {

using cuda::LtEpilogue;
using cuda::LtProduct;

// One rounding of the output. Some of cuBLASLt's kernels round to d's type before the epilogue too,
// which cancellation with the bias enlarges; its tanh is good to some 1e-5.
inline double Tolerance(DType dtype, LtEpilogue epilogue = LtEpilogue::kNone) {
  const bool gelu =
      epilogue == LtEpilogue::kGelu || epilogue == LtEpilogue::kGeluBias || UsesGeluInput(epilogue);
  if (dtype == DType::kFloat32) return gelu ? 1e-4 : 4e-6;
  const double factor = epilogue == LtEpilogue::kNone ? 1 : 2.5;
  return factor * (dtype == DType::kFloat16 ? 8e-4 : 6e-3);
}

// The tanh form and its derivative.
inline double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
inline double GeluSlope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

struct Shape {
  int64_t m, n, k;
};

// How the matrices stand in memory.
struct Layout {
  int64_t padding = 0;    // elements added to every row, multiples of 8
  int64_t rows_past = 0;  // rows of kPastTheEnd after the last one, which nothing may use
};
inline constexpr float kPastTheEnd = 1000;

// A product with everything that any epilogue needs, and its float64 twin.
struct Case {
  Case(Backend& backend, DType dtype, const Shape& s, LtEpilogue e, int transposes,
       std::mt19937& random, const Layout& in_memory = {})
      : shape(s),
        epilogue(e),
        layout(in_memory),
        stride_unit(dtype == DType::kFloat32 ? 4 : 8),
        a(Matrix(backend, dtype, (transposes & 1) != 0 ? s.k : s.m,
                 (transposes & 1) != 0 ? s.m : s.k, random, 1 / std::sqrt(float(s.k)))),
        b(Matrix(backend, dtype, (transposes & 2) != 0 ? s.n : s.k,
                 (transposes & 2) != 0 ? s.k : s.n, random, 1)),
        d(Strided(backend, dtype, s.m, s.n, RoundUp(s.n, stride_unit), [] { return NAN; })),
        bias(MakeBias(backend, dtype, random)),
        gelu_input(MakeGeluInput(backend, dtype, random)),
        mask_stride(RoundUp(CeilDiv(s.n, 8), 16)),
        mask((s.m + layout.rows_past) * mask_stride) {
    for (uint8_t& byte : mask) byte = static_cast<uint8_t>(random());
    auto buffer = backend.Allocate(mask.size());
    BEAMLINE_CHECK(buffer.ok());
    mask_buffer = *std::move(buffer);
    backend.CopyToDevice(mask.data(), mask_buffer->data(), mask.size());
    product.a = a.tensor();
    product.b = b.tensor();
    product.d = d.tensor();
    product.transpose_a = (transposes & 1) != 0;
    product.transpose_b = (transposes & 2) != 0;
    product.epilogue = e;
    if (ReadsBias(e) || WritesBias(e)) product.bias = bias.device_vector();
    if (UsesReluMask(e)) {
      product.aux = Tensor(mask_buffer->data(), DType::kInt8, {s.m, mask_stride});
    }
    if (UsesGeluInput(e)) product.aux = gelu_input.tensor();
  }

  template <typename Next>
  StridedMatrix Strided(Backend& backend, DType dtype, int64_t rows, int64_t cols, int64_t stride,
                        Next next) const {
    stride += layout.padding;
    std::vector<float> values((rows + layout.rows_past) * stride, kPastTheEnd);
    for (int64_t i = 0; i < rows * stride; ++i) values[i] = next();
    return {backend, dtype, rows, cols, stride, std::move(values)};
  }
  StridedMatrix Matrix(Backend& backend, DType dtype, int64_t rows, int64_t cols,
                       std::mt19937& random, float scale) const {
    std::normal_distribution<float> normal(0.0f, scale);
    return Strided(backend, dtype, rows, cols, RoundUp(cols, stride_unit),
                   [&] { return normal(random); });
  }
  TypedArray MakeBias(Backend& backend, DType dtype, std::mt19937& random) const {
    const int64_t size = epilogue == LtEpilogue::kBgradA ? shape.m : shape.n;
    if (WritesBias(epilogue)) return TypedArray::Poisoned(backend, dtype, 1, size);
    return TypedArray::Random(backend, dtype, 1, size, 1.0f, random);
  }
  // An output of the forward epilogues, an input of the backward ones.
  StridedMatrix MakeGeluInput(Backend& backend, DType dtype, std::mt19937& random) const {
    const bool input = epilogue == LtEpilogue::kDGelu || epilogue == LtEpilogue::kDGeluBgrad;
    std::normal_distribution<float> normal;
    return Strided(backend, dtype, shape.m, shape.n, RoundUp(shape.n, 8),
                   [&] { return input ? normal(random) : NAN; });
  }

  double A(int64_t i, int64_t k) const { return product.transpose_a ? a.at(k, i) : a.at(i, k); }
  double B(int64_t k, int64_t j) const { return product.transpose_b ? b.at(j, k) : b.at(k, j); }
  bool MaskBit(int64_t i, int64_t j) const {
    return ((mask[i * mask_stride + j / 8] >> (j % 8)) & 1) != 0;
  }

  // a b + c_values, and with `with_bias` what the epilogue's nonlinearity reads.
  reference::Matrix Inner(bool with_bias) const {
    reference::Matrix inner(shape.m, shape.n);
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        double& sum = inner.at(i, j);
        for (int64_t k = 0; k < shape.k; ++k) sum += A(i, k) * B(k, j);
        if (with_bias && ReadsBias(epilogue)) sum += bias.host()[j];
        if (c_values != nullptr) sum += c_values->at(i, j);
      }
    }
    return inner;
  }
  reference::Matrix Outer(reference::Matrix inner) const {
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        double& x = inner.at(i, j);
        switch (epilogue) {
          case LtEpilogue::kRelu:
          case LtEpilogue::kReluBias:
          case LtEpilogue::kReluAux:
          case LtEpilogue::kReluAuxBias:
            x = std::max(x, 0.0);
            break;
          case LtEpilogue::kGelu:
          case LtEpilogue::kGeluBias:
          case LtEpilogue::kGeluAux:
          case LtEpilogue::kGeluAuxBias:
            x = Gelu(x);
            break;
          case LtEpilogue::kDRelu:
          case LtEpilogue::kDReluBgrad:
            x = MaskBit(i, j) ? x : 0.0;
            break;
          case LtEpilogue::kDGelu:
          case LtEpilogue::kDGeluBgrad:
            x *= GeluSlope(gelu_input.at(i, j));
            break;
          default:
            break;
        }
      }
    }
    return inner;
  }
  // Every addend may be rounded once to d's type, and the sum once more; addends may cancel, and so
  // may the terms of a product and those of GELU's slope, whose errors are then those of their
  // inputs.
  testing::AssertionResult BiasGradientIsRight(const reference::Matrix& inner,
                                               const reference::Matrix& outer) const {
    const std::vector<float> actual = bias.Read();
    const bool of_operand = epilogue == LtEpilogue::kBgradA || epilogue == LtEpilogue::kBgradB;
    for (size_t j = 0; j < actual.size(); ++j) {
      const auto column = static_cast<int64_t>(j);
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < (of_operand ? shape.k : shape.m); ++i) {
        const double addend = epilogue == LtEpilogue::kBgradA   ? A(column, i)
                              : epilogue == LtEpilogue::kBgradB ? B(i, column)
                                                                : outer.at(i, column);
        sum += addend;
        const double size = UsesGeluInput(epilogue) ? inner.at(i, column) : 0;
        squares +=
            std::max({addend * addend, size * size, of_operand ? 0.0 : SquaredTerms(i, column)});
      }
      const double error = std::abs(actual[j] - sum);
      const double unit = Tolerance(product.d.dtype, epilogue);
      // False for a NaN.
      if (error <= unit * (3 * std::sqrt(squares) + std::abs(sum) + 0.01)) continue;
      return testing::AssertionFailure()
             << "column " << j << ": " << actual[j] << " instead of " << sum;
    }
    return testing::AssertionSuccess();
  }

  // Of the sum that an element of the product is.
  double SquaredTerms(int64_t i, int64_t j) const {
    double squares = 0;
    for (int64_t k = 0; k < shape.k; ++k) {
      const double term = A(i, k) * B(k, j);
      squares += term * term;
    }
    return squares;
  }

  static double Norm(const reference::Matrix& matrix) {
    double squares = 0;
    for (const double value : matrix.values) squares += value * value;
    return std::sqrt(squares);
  }

  // Norm of a matrix of float16's distances between numbers near 0, which do not shrink with them.
  double SmallestSteps() const {
    if (product.d.dtype != DType::kFloat16) return 0;
    return std::ldexp(std::sqrt(static_cast<double>(shape.m * shape.n)), -24);
  }

  void ExpectResults(Backend& backend) {
    const double tolerance = Tolerance(product.d.dtype, epilogue);
    const reference::Matrix inner = Inner(true);
    const reference::Matrix outer = Outer(inner);
    // A bias may cancel most of the product, whose own rounding stays.
    const double size = Norm(outer);
    EXPECT_LE(d.RelativeError(outer) * (size > 0 ? size : 1.0),
              tolerance * std::max(size, Norm(Inner(false))) + SmallestSteps());
    if (WritesBias(epilogue)) {
      EXPECT_TRUE(BiasGradientIsRight(inner, outer));
    }
    if (epilogue == LtEpilogue::kGeluAux || epilogue == LtEpilogue::kGeluAuxBias) {
      EXPECT_LE(gelu_input.RelativeError(inner) * Norm(inner),
                tolerance * std::max(Norm(inner), Norm(Inner(false))) + SmallestSteps());
    }
    if (epilogue != LtEpilogue::kReluAux && epilogue != LtEpilogue::kReluAuxBias) return;
    ASSERT_TRUE(backend.CopyToHost(mask_buffer->data(), mask.data(), mask.size()).ok());
    for (int64_t i = 0; i < shape.m; ++i) {
      for (int64_t j = 0; j < shape.n; ++j) {
        // Near 0 the sign may be rounding's.
        if (std::abs(inner.at(i, j)) < 5 * tolerance) continue;
        ASSERT_EQ(MaskBit(i, j), inner.at(i, j) > 0) << "row " << i << ", column " << j;
      }
    }
  }

  Shape shape;
  LtEpilogue epilogue;
  Layout layout;
  int64_t stride_unit;  // elements, 16 bytes
  StridedMatrix a, b, d;
  TypedArray bias;
  StridedMatrix gelu_input;
  int64_t mask_stride;  // bytes
  std::vector<uint8_t> mask;
  std::unique_ptr<Buffer> mask_buffer;
  const StridedMatrix* c_values = nullptr;  // what the product's c holds
  LtProduct product;
};

}  // namespace beamline
