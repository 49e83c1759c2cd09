// Host and device copies of the same numbers in any floating-point type, for comparisons with the
// float64 twin: the host's are what the device's are after rounding.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "tests/kernels/reference_ops.h"

namespace beamline {

// To the nearest, ties to even. Finite numbers of moderate size only.
inline uint16_t ToBFloat16Bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float FromBFloat16Bits(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
inline uint16_t ToFloat16Bits(float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); }
inline float FromFloat16Bits(uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

class TypedArray {
 public:
  // `values` [rows, cols] are rounded to `dtype`.
  TypedArray(Backend& backend, DType dtype, int64_t rows, int64_t cols, std::vector<float> values)
      : backend_(&backend), dtype_(dtype), rows_(rows), cols_(cols), host_(std::move(values)) {
    BEAMLINE_CHECK(static_cast<int64_t>(host_.size()) == rows * cols);
    for (float& value : host_) {
      if (dtype != DType::kFloat32) value = FromBits(ToBits(value));
    }
    auto buffer = backend.Allocate(host_.size() * SizeOf(dtype) + kGuardBytes);
    BEAMLINE_CHECK(buffer.ok());
    buffer_ = *std::move(buffer);
    Upload();
  }

  static TypedArray Random(Backend& backend, DType dtype, int64_t rows, int64_t cols, float scale,
                           std::mt19937& random) {
    std::normal_distribution<float> normal(0.0f, scale);
    std::vector<float> values(rows * cols);
    for (float& value : values) value = normal(random);
    return TypedArray(backend, dtype, rows, cols, std::move(values));
  }
  // Full of NaN, so that an element that is not written shows.
  static TypedArray Poisoned(Backend& backend, DType dtype, int64_t rows, int64_t cols) {
    return TypedArray(backend, dtype, rows, cols,
                      std::vector<float>(rows * cols, std::numeric_limits<float>::quiet_NaN()));
  }

  // Makes the device's numbers the host's again: a poisoned output is poisoned anew.
  void Upload() const {
    std::vector<uint8_t> bytes(buffer_->size(), kGuard);
    for (size_t i = 0; i < host_.size(); ++i) {
      const uint16_t bits = ToBits(host_[i]);
      if (dtype_ == DType::kFloat32) {
        std::memcpy(bytes.data() + 4 * i, &host_[i], 4);
      } else {
        std::memcpy(bytes.data() + 2 * i, &bits, 2);
      }
    }
    backend_->CopyToDevice(bytes.data(), buffer_->data(), bytes.size());
  }

  const std::vector<float>& host() const { return host_; }
  Tensor device() const { return Tensor(buffer_->data(), dtype_, {rows_, cols_}); }
  Tensor device_vector() const { return Tensor(buffer_->data(), dtype_, {rows_ * cols_}); }
  Tensor host_tensor() const { return Tensor(data(), DType::kFloat32, {rows_, cols_}); }
  Tensor host_vector() const { return Tensor(data(), DType::kFloat32, {rows_ * cols_}); }

  // What the device holds. Fails a CHECK when memory after the array was overwritten.
  std::vector<float> Read() const {
    std::vector<uint8_t> bytes(buffer_->size());
    BEAMLINE_CHECK(backend_->CopyToHost(buffer_->data(), bytes.data(), bytes.size()).ok());
    for (size_t i = bytes.size() - kGuardBytes; i < bytes.size(); ++i) {
      BEAMLINE_CHECK(bytes[i] == kGuard);
    }
    std::vector<float> values(host_.size());
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits = 0;
      if (dtype_ == DType::kFloat32) {
        std::memcpy(&values[i], bytes.data() + 4 * i, 4);
      } else {
        std::memcpy(&bits, bytes.data() + 2 * i, 2);
        values[i] = FromBits(bits);
      }
    }
    return values;
  }

  // ||device - expected|| / ||expected||, infinite for a NaN.
  double RelativeError(const reference::Matrix& expected) const {
    const std::vector<float> actual = Read();
    if (actual.size() != expected.values.size()) return std::numeric_limits<double>::infinity();
    double error = 0, norm = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      error += (actual[i] - expected.values[i]) * (actual[i] - expected.values[i]);
      norm += expected.values[i] * expected.values[i];
    }
    const double relative = std::sqrt(error / (norm > 0 ? norm : 1.0));
    return std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative;
  }

 private:
  static constexpr size_t kGuardBytes = 64;
  static constexpr uint8_t kGuard = 0xA5;

  // Of the 16-bit types.
  uint16_t ToBits(float x) const {
    return dtype_ == DType::kBFloat16 ? ToBFloat16Bits(x) : ToFloat16Bits(x);
  }
  float FromBits(uint16_t bits) const {
    return dtype_ == DType::kBFloat16 ? FromBFloat16Bits(bits) : FromFloat16Bits(bits);
  }
  float* data() const { return const_cast<float*>(host_.data()); }

  Backend* backend_;
  DType dtype_;
  int64_t rows_, cols_;
  std::vector<float> host_;
  std::unique_ptr<Buffer> buffer_;
};

class IndexArray {
 public:
  IndexArray(Backend& backend, std::vector<int32_t> values) : host_(std::move(values)) {
    auto buffer = backend.Allocate(host_.size() * sizeof(int32_t));
    BEAMLINE_CHECK(buffer.ok());
    buffer_ = *std::move(buffer);
    backend.CopyToDevice(host_.data(), buffer_->data(), host_.size() * sizeof(int32_t));
  }
  const int32_t* device() const { return static_cast<const int32_t*>(buffer_->data()); }

 private:
  std::vector<int32_t> host_;
  std::unique_ptr<Buffer> buffer_;
};

// The name of a test's type.
inline std::string DTypeName(const testing::TestParamInfo<DType>& test_info) {
  return Name(test_info.param);
}

}  // namespace beamline
