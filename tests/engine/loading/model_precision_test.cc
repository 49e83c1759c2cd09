#include "engine/loading/model_precision.h"

#include <gtest/gtest.h>

#include <optional>

namespace beamline::model_precision_test {
namespace {

TEST(ModelPrecisionTest, DtypeStandsForWhatIsNotSet) {
  ModelOptions options;
  EXPECT_EQ(PrecisionOf(options), Precision(DType::kFloat32));
  options.dtype = DType::kBFloat16;
  EXPECT_EQ(PrecisionOf(options), Precision(DType::kBFloat16));
  options.compute = "float32";
  EXPECT_EQ(PrecisionOf(options), Precision(DType::kBFloat16, DType::kFloat32, std::nullopt));
  options.weights = "float16";
  options.cache = "bfloat16";
  EXPECT_EQ(PrecisionOf(options), Precision(DType::kFloat16, DType::kFloat32, DType::kBFloat16));
}

TEST(ModelPrecisionTest, AWordThatIsNoTypeCountsAsNone) {
  ModelOptions options;
  options.weights = "int8";
  EXPECT_EQ(PrecisionOf(options), Precision(DType::kFloat32));
}

}  // namespace
}  // namespace beamline::model_precision_test
