// Data types and non-owning tensor views, used by all operators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace beamline {

enum class DType : uint8_t { kFloat32, kFloat16, kBFloat16, kFloat8E4M3, kInt8, kInt32, kInt64 };

// Bytes per element.
constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kFloat8E4M3:
    case DType::kInt8:
      return 1;
    case DType::kInt64:
      return 8;
  }
  return 0;
}

// "float32", "bfloat16", ...: as in flags, config files and the API.
const char* Name(DType dtype);

// A dense, row-major view of memory that it does not own, on any device. The last dimension is
// contiguous. row_stride (elements between rows of the flattened leading dimensions) may exceed it,
// so that a slice of a matrix's columns is a tensor too.
struct Tensor {
  static constexpr int kMaxRank = 4;

  void* data = nullptr;
  DType dtype = DType::kFloat32;
  int rank = 0;
  std::array<int64_t, kMaxRank> dims = {};
  int64_t row_stride = 0;

  Tensor() = default;
  // A contiguous tensor. REQUIRES: at most kMaxRank dimensions.
  Tensor(void* memory, DType type, std::initializer_list<int64_t> shape);

  bool empty() const { return data == nullptr; }
  int64_t dim(int i) const { return dims[i < 0 ? rank + i : i]; }
  // Product of all dimensions but the last.
  int64_t num_rows() const;
  int64_t num_elements() const { return num_rows() * dim(-1); }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  template <typename T>
  T* row(int64_t i) const {
    return static_cast<T*>(data) + i * row_stride;
  }

  // Columns [begin, begin + width) of every row. REQUIRES: they exist.
  Tensor Columns(int64_t begin, int64_t width) const;
  // The first `count` entries of the leading dimension.
  Tensor First(int64_t count) const;
  // Rows [begin, begin + count) of a matrix. REQUIRES: they exist.
  Tensor Rows(int64_t begin, int64_t count) const;
  // "[3, 256] float32", for messages.
  std::string DebugString() const;
};

}  // namespace beamline
