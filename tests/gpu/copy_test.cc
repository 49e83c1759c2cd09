// What copies rows and blocks, in every type: accesses of 16 bytes, and of 2 or 4 where rows or
// blocks are no multiple of them.
#include <algorithm>

#include "tests/gpu/cuda_fixture.h"

namespace beamline::copy_test {
namespace {

class CopyTest : public CudaTypedTest {
 protected:
  static void ExpectRow(std::span<const float> actual, std::span<const float> expected) {
    EXPECT_TRUE(std::equal(actual.begin(), actual.end(), expected.begin(), expected.end()));
  }
};
INSTANTIATE_TEST_SUITE_P(Types, CopyTest,
                         testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16),
                         DTypeName);

TEST_P(CopyTest, GatherRows) {
  constexpr int64_t kRows = 50, kGathered = 90;
  for (const int64_t width : {1, 37, 40, 768}) {
    SCOPED_TRACE(width);
    const TypedArray input = TypedArray::Random(backend(), dtype(), kRows, width, 1.0f, random());
    const TypedArray output = TypedArray::Poisoned(backend(), dtype(), kGathered, width);
    std::vector<int32_t> rows(kGathered);
    for (int32_t& row : rows) row = static_cast<int32_t>(random()() % kRows);
    const IndexArray ids(backend(), rows);
    backend().GatherRows({input.device(), ids.device(), output.device()});
    const std::vector<float> actual = output.Read();
    for (int64_t i = 0; i < kGathered; ++i) {
      ExpectRow(std::span(actual).subspan(i * width, width),
                std::span(input.host()).subspan(rows[i] * width, width));
    }
  }
}

TEST_P(CopyTest, CopyBlocks) {
  constexpr int64_t kBlocks = 6;
  const int came_from[kBlocks] = {0, 2, 2, 3, 0, 5};
  const BlockCopy copies[] = {{.source = 0, .target = 4}, {.source = 2, .target = 1}};
  struct Shape {
    int64_t num_kv_heads, block_size, head_dim;
  };
  for (const auto& [num_kv_heads, block_size, head_dim] :
       {Shape{3, 16, 40}, Shape{1, 1, 3}, Shape{3, 5, 7}, Shape{12, 16, 64}}) {
    const int64_t size = num_kv_heads * block_size * head_dim;
    SCOPED_TRACE(size);
    const TypedArray keys = TypedArray::Random(backend(), dtype(), kBlocks, size, 1.0f, random());
    const TypedArray values = TypedArray::Random(backend(), dtype(), kBlocks, size, 1.0f, random());
    const auto pages = [&](const TypedArray& array) {
      return Tensor(array.device().data, dtype(), {kBlocks, num_kv_heads, block_size, head_dim});
    };
    backend().CopyBlocks({{.keys = pages(keys), .values = pages(values)}, copies});
    for (const TypedArray* array : {&keys, &values}) {
      const std::vector<float> actual = array->Read();
      for (int64_t block = 0; block < kBlocks; ++block) {
        ExpectRow(std::span(actual).subspan(block * size, size),
                  std::span(array->host()).subspan(came_from[block] * size, size));
      }
    }
  }
}

}  // namespace
}  // namespace beamline::copy_test
