#include "kernels/tensor.h"

#include "base/check.h"
#include "fmt/format.h"

namespace beamline {

const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat16:
      return "float16";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat8E4M3:
      return "float8_e4m3";
    case DType::kInt8:
      return "int8";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
  }
  return "unknown";
}

Tensor::Tensor(void* memory, DType type, std::initializer_list<int64_t> shape)
    : data(memory), dtype(type), rank(static_cast<int>(shape.size())) {
  BEAMLINE_CHECK(rank >= 1 && rank <= kMaxRank);
  int i = 0;
  for (int64_t extent : shape) dims[i++] = extent;
  row_stride = dims[rank - 1];
}

int64_t Tensor::num_rows() const {
  int64_t rows = 1;
  for (int i = 0; i + 1 < rank; ++i) rows *= dims[i];
  return rows;
}

Tensor Tensor::Columns(int64_t begin, int64_t width) const {
  BEAMLINE_CHECK(begin >= 0 && width >= 0 && begin + width <= dim(-1));
  Tensor view = *this;
  view.data = static_cast<char*>(data) + begin * static_cast<int64_t>(SizeOf(dtype));
  view.dims[rank - 1] = width;
  return view;
}

Tensor Tensor::First(int64_t count) const {
  BEAMLINE_CHECK(count >= 0 && count <= dim(0));
  Tensor view = *this;
  view.dims[0] = count;
  return view;
}

Tensor Tensor::Rows(int64_t begin, int64_t count) const {
  BEAMLINE_CHECK(rank == 2 && begin >= 0 && count >= 0 && begin + count <= dim(0));
  Tensor view = First(count);
  const size_t bytes = static_cast<size_t>(begin * row_stride) * SizeOf(dtype);
  if (data != nullptr) view.data = as<char>() + bytes;
  return view;
}

std::string Tensor::DebugString() const {
  std::string text = "[";
  for (int i = 0; i < rank; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", dims[i]);
  return text + "] " + Name(dtype);
}

}  // namespace beamline
