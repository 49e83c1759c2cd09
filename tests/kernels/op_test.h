// The harness of the operator tests. They run on every backend that TestBackends() names: each test
// binary links one definition of it (cpu_test_backends.cc, ...).
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "tests/kernels/reference_ops.h"
#include "tests/test_seed.h"

namespace beamline {

struct BackendCase {
  std::string name;
  std::function<absl::StatusOr<std::unique_ptr<Backend>>()> make;
};

// The backends under test.
std::vector<BackendCase> TestBackends();

// Device memory between guard bytes, which Read() checks.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(Backend& backend, std::span<const T> values)
      : backend_(&backend), count_(values.size()) {
    std::vector<uint8_t> bytes(2 * kGuardBytes + count_ * sizeof(T), kGuard);
    if (count_ > 0) std::memcpy(bytes.data() + kGuardBytes, values.data(), count_ * sizeof(T));
    auto buffer = backend.Allocate(bytes.size());
    BEAMLINE_CHECK(buffer.ok());
    buffer_ = *std::move(buffer);
    backend.CopyToDevice(bytes.data(), buffer_->data(), bytes.size());
  }

  T* data() const {
    return reinterpret_cast<T*>(static_cast<uint8_t*>(buffer_->data()) + kGuardBytes);
  }
  Tensor tensor(std::initializer_list<int64_t> shape) const {
    return Tensor(data(), DType::kFloat32, shape);
  }

  std::vector<T> Read() const {
    std::vector<uint8_t> bytes(buffer_->size());
    EXPECT_TRUE(backend_->CopyToHost(buffer_->data(), bytes.data(), bytes.size()).ok());
    for (size_t i = 0; i < kGuardBytes; ++i) {
      EXPECT_EQ(bytes[i], kGuard) << "byte " << i << " before the output was overwritten";
      EXPECT_EQ(bytes[bytes.size() - 1 - i], kGuard) << "memory after the output was overwritten";
    }
    std::vector<T> values(count_);
    if (count_ > 0) std::memcpy(values.data(), bytes.data() + kGuardBytes, count_ * sizeof(T));
    return values;
  }

 private:
  static constexpr size_t kGuardBytes = 64;
  static constexpr uint8_t kGuard = 0xA5;

  Backend* backend_;
  size_t count_;
  std::unique_ptr<Buffer> buffer_;
};

class OpTest : public testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override {
    auto backend = GetParam().make();
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    seed_ = TestSeed();
    random_.seed(seed_);
    RecordProperty("seed", std::to_string(seed_));
  }
  void TearDown() override {
    if (HasFailure()) std::fprintf(stderr, "seed %u\n", seed_);
  }

  Backend& backend() { return *backend_; }

  int RandomInt(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  std::vector<float> RandomFloats(size_t count, float scale = 1.0f) {
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  std::vector<int32_t> RandomIds(size_t count, int end) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) id = RandomInt(0, end - 1);
    return ids;
  }

  DeviceArray<float> Upload(std::span<const float> values) { return {backend(), values}; }
  DeviceArray<int32_t> UploadIds(std::span<const int32_t> values) { return {backend(), values}; }
  DeviceArray<float> RandomArray(size_t count, float scale = 1.0f) {
    return Upload(RandomFloats(count, scale));
  }
  // An output: full of NaN, so that an element that is not written shows.
  DeviceArray<float> Output(size_t count) {
    return Upload(std::vector<float>(count, std::nanf("")));
  }

  // A random weight, packed for float32, and its values.
  struct Weight {
    std::unique_ptr<PackedWeight> packed;
    reference::Matrix values;
  };
  Weight RandomWeight(int64_t out_features, int64_t in_features);

  static void ExpectNear(const std::vector<float>& actual, const reference::Matrix& expected,
                         double tolerance);
  // Element for element the same bits.
  static void ExpectSameBits(std::span<const float> actual, std::span<const float> expected);

 private:
  std::unique_ptr<Backend> backend_;
  unsigned seed_ = 0;
  std::mt19937 random_;
};

// Offsets [lengths.size() + 1] of consecutive sequences.
std::vector<int32_t> OffsetsOf(const std::vector<int>& lengths);

// Instantiates a suite derived from OpTest for every backend under test.
#define BEAMLINE_INSTANTIATE_OP_TEST(Suite)                                    \
  INSTANTIATE_TEST_SUITE_P(Backends, Suite, testing::ValuesIn(TestBackends()), \
                           [](const auto& test_info) { return test_info.param.name; })

}  // namespace beamline
