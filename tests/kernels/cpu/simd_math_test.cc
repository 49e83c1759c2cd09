// The elementary functions of kernels/cpu/simd-inl.h, on the best target of this machine, against
// float64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/simd_math_test.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace beamline::cpu::HWY_NAMESPACE {

void ApplyExp(const float* x, size_t count, float* y) {
  ForEachVector(count,
                [&](size_t i, auto load, auto store) HWY_ATTR { store(Exp(load(x + i)), y + i); });
}
void ApplyTanh(const float* x, size_t count, float* y) {
  ForEachVector(count,
                [&](size_t i, auto load, auto store) HWY_ATTR { store(Tanh(load(x + i)), y + i); });
}
void ApplyErf(const float* x, size_t count, float* y) {
  ForEachVector(count,
                [&](size_t i, auto load, auto store) HWY_ATTR { store(Erf(load(x + i)), y + i); });
}

}  // namespace beamline::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace beamline::cpu {
namespace {

HWY_EXPORT(ApplyExp);
HWY_EXPORT(ApplyTanh);
HWY_EXPORT(ApplyErf);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Function = void (*)(const float*, size_t, float*);

std::vector<float> Grid(float low, float high, int count) {
  std::vector<float> x(count);
  for (int i = 0; i < count; ++i) {
    x[i] = low + (high - low) * static_cast<float>(i) / static_cast<float>(count - 1);
  }
  return x;
}

// The largest error in units in the last place of the exact result.
double WorstUlps(Function function, double (*exact)(double), const std::vector<float>& x) {
  std::vector<float> y(x.size());
  function(x.data(), x.size(), y.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = exact(x[i]);
    const float rounded = std::abs(static_cast<float>(expected));
    const double ulp = std::nextafter(rounded, kInfinity) - rounded;
    const double ulps = std::abs(y[i] - expected) / ulp;
    if (!(ulps <= worst)) worst = ulps;  // NaN, too
  }
  return worst;
}

float Value(Function function, float x) {
  float y = 0;
  function(&x, 1, &y);
  return y;
}

TEST(SimdMathTest, ExpIsAccurate) {
  const Function exp = HWY_DYNAMIC_DISPATCH(ApplyExp);
  EXPECT_LE(WorstUlps(exp, std::exp, Grid(-87.0f, 88.7f, 1000003)), 2.0);
  EXPECT_LE(WorstUlps(exp, std::exp, Grid(-1.0f, 1.0f, 1000003)), 2.0);
  EXPECT_EQ(Value(exp, 0.0f), 1.0f);
  EXPECT_EQ(Value(exp, -kInfinity), 0.0f);
  EXPECT_EQ(Value(exp, -std::numeric_limits<float>::max()), 0.0f);
  EXPECT_EQ(Value(exp, kInfinity), kInfinity);
  EXPECT_EQ(Value(exp, 89.0f), kInfinity);
  EXPECT_TRUE(std::isnan(Value(exp, std::nanf(""))));
  EXPECT_NEAR(Value(exp, -100.0f), std::exp(-100.0), 1e-44);  // subnormal
}

TEST(SimdMathTest, TanhIsAccurate) {
  const Function tanh = HWY_DYNAMIC_DISPATCH(ApplyTanh);
  EXPECT_LE(WorstUlps(tanh, std::tanh, Grid(-10.0f, 10.0f, 1000003)), 3.0);
  EXPECT_LE(WorstUlps(tanh, std::tanh, Grid(-0.01f, 0.01f, 1000003)), 3.0);
  EXPECT_EQ(Value(tanh, kInfinity), 1.0f);
  EXPECT_EQ(Value(tanh, -kInfinity), -1.0f);
  EXPECT_EQ(Value(tanh, 0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(Value(tanh, std::nanf(""))));
}

TEST(SimdMathTest, ErfIsAccurate) {
  const Function erf = HWY_DYNAMIC_DISPATCH(ApplyErf);
  EXPECT_LE(WorstUlps(erf, std::erf, Grid(-5.0f, 5.0f, 1000003)), 2.0);
  EXPECT_LE(WorstUlps(erf, std::erf, Grid(-0.01f, 0.01f, 1000003)), 2.0);
  EXPECT_EQ(Value(erf, kInfinity), 1.0f);
  EXPECT_EQ(Value(erf, -kInfinity), -1.0f);
  EXPECT_EQ(Value(erf, 0.0f), 0.0f);
  EXPECT_TRUE(std::isnan(Value(erf, std::nanf(""))));
}

}  // namespace
}  // namespace beamline::cpu
#endif  // HWY_ONCE
