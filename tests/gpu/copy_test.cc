// What copies rows and blocks, in every type: accesses of 16 bytes, and of 2 or 4 where rows or
// blocks are no multiple of them.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "kernels/filled_copy.h"
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

// A pooled vector comes to the host with its kernel, unless something was called in between.
TEST_P(CopyTest, OnePooledVectorComesToTheHost) {
  constexpr int64_t kRows = 40;
  for (const int64_t width : {1, 37, 768, 4096, 5000}) {
    SCOPED_TRACE(width);
    const TypedArray hidden = TypedArray::Random(backend(), dtype(), kRows, width, 1.0f, random());
    const TypedArray output = TypedArray::Poisoned(backend(), DType::kFloat32, 2, width);
    const IndexArray offsets(backend(), {0, 3, kRows});
    const auto pool = [&](int first, int count) {
      backend().Pool({.pooling = Pooling::kLast,
                      .hidden = hidden.device(),
                      .offsets = offsets.device() + first,
                      .num_sequences = count,
                      .output = output.device().First(count)});
    };
    const auto expect = [&](std::initializer_list<int64_t> rows) {
      std::vector<float> actual(rows.size() * width);
      ASSERT_TRUE(
          backend()
              .CopyToHost(output.device().data, actual.data(), actual.size() * sizeof(float))
              .ok());
      int64_t i = 0;
      for (const int64_t row : rows) {
        ExpectRow(std::span(actual).subspan(width * i++, width),
                  std::span(hidden.host()).subspan(row * width, width));
      }
    };
    pool(0, 1);
    expect({2});
    expect({2});  // once more: by a copy
    pool(0, 2);
    expect({2, kRows - 1});
    pool(1, 1);
    expect({kRows - 1, kRows - 1});  // more than was pooled
    pool(0, 1);
    pool(1, 1);
    expect({kRows - 1});
    pool(0, 1);
    backend().GatherRows({output.device().Rows(1, 1), offsets.device(), output.device().First(1)});
    expect({kRows - 1});
    pool(0, 1);
    const std::vector<float> others(hidden.host().begin(), hidden.host().begin() + width);
    backend().CopyToDevice(others.data(), output.device().data, width * sizeof(float));
    expect({0});
  }
}

// Operators read what the host has written to memory that both see, before and after it is written
// anew.
TEST_P(CopyTest, OperatorsReadMemoryOfTheHost) {
  constexpr int64_t kRows = 50, kGathered = 90, kWidth = 40;
  const TypedArray input = TypedArray::Random(backend(), dtype(), kRows, kWidth, 1.0f, random());
  HostVisibleMemory* const memory = HostVisibleMemory::Of(backend());
  ASSERT_NE(memory, nullptr);
  auto visible = memory->AllocateHostVisible(kGathered * sizeof(int32_t));
  ASSERT_TRUE(visible.ok()) << visible.status();
  auto* const ids = static_cast<int32_t*>((*visible)->data());
  std::vector<TypedArray> outputs;
  std::vector<int32_t> rows;
  for (int round = 0; round < 20; ++round) {
    outputs.push_back(TypedArray::Poisoned(backend(), dtype(), kGathered, kWidth));
    memory->WaitForReaders();
    for (int i = 0; i < kGathered; ++i) {
      rows.push_back(ids[i] = static_cast<int32_t>(random()() % kRows));
    }
    backend().GatherRows({input.device(), ids, outputs.back().device()});
  }
  size_t next = 0;
  for (const TypedArray& output : outputs) {
    const std::vector<float> actual = output.Read();
    for (int64_t i = 0; i < kGathered; ++i) {
      ExpectRow(std::span(actual).subspan(i * kWidth, kWidth),
                std::span(input.host()).subspan(rows[next++] * kWidth, kWidth));
    }
  }
}

// What is copied and filled by one launch, and what is too much for one.
TEST_P(CopyTest, CopiesAndFills) {
  constexpr int kMostWords = 512, kMostFills = 64, kWords = 300;
  FilledCopy* const copy = FilledCopy::Of(backend());
  ASSERT_NE(copy, nullptr);
  const auto draw = [&](int count) {
    std::vector<int32_t> values(count);
    for (int32_t& value : values) value = static_cast<int32_t>(random()());
    return values;
  };
  for (const auto& [num_values, num_fills, fits] :
       {std::tuple(1, 1, true), std::tuple(70, 1, true), std::tuple(kMostWords, kMostFills, true),
        std::tuple(400, 33, true), std::tuple(kMostWords + 1, 1, false),
        std::tuple(kMostWords, kMostFills + 1, false)}) {
    SCOPED_TRACE(num_values);
    const std::vector<int32_t> words = draw(kWords), before = draw(num_values);
    std::vector<int32_t> values = draw(num_values);
    const IndexArray chosen(backend(), words), filled(backend(), before);
    std::vector<int32_t> targets(num_values);
    std::iota(targets.begin(), targets.end(), 0);
    std::shuffle(targets.begin(), targets.end(), random());
    std::vector<TokenFill> fills(num_fills);
    for (int i = 0; i < num_fills; ++i) {
      fills[i] = {static_cast<int32_t>(random()() % kWords), targets[i]};
    }
    auto* const to = const_cast<int32_t*>(filled.device());
    const size_t bytes = values.size() * sizeof(int32_t);
    EXPECT_EQ(copy->CopyAndFill(values.data(), to, bytes, {chosen.device(), fills, to}), fits);
    for (const TokenFill& fill : fills) values[fill.target] = words[fill.source];
    std::vector<int32_t> actual(values.size());
    ASSERT_TRUE(backend().CopyToHost(to, actual.data(), bytes).ok());
    EXPECT_EQ(actual, fits ? values : before);
  }
}

}  // namespace
}  // namespace beamline::copy_test
