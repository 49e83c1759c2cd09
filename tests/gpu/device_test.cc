// What one GPU says of itself, and what it reads back.
#include "kernels/cuda/device/device.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/cuda/device/code_architecture.h"
#include "tests/gpu/cuda_fixture.h"

namespace beamline::device_test {
namespace {

using DeviceTest = CudaTest;
using testing::HasSubstr;

TEST_F(DeviceTest, RunsCodeOfThisBuildThatItsArchitectureAllows) {
  const cudaDeviceProp& properties = device().properties();
  int architecture = 0;
  ASSERT_EQ(cuda::FindCodeArchitecture(&architecture), cudaSuccess);
  EXPECT_EQ(device().code_architecture(), architecture);
  EXPECT_GE(architecture, 80);
  EXPECT_LE(architecture, properties.major * 10 + properties.minor);
}

TEST_F(DeviceTest, SaysHowLargeHeadsMayBe) {
  EXPECT_TRUE(backend().SupportsHeadDim(256).ok());
  const absl::Status status = backend().SupportsHeadDim(257);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("at most 256 elements, not of 257"),
            std::string::npos)
      << status;
}

TEST_F(DeviceTest, SaysHowLongRowsMayBe) {
  const auto most = static_cast<int>((device().properties().sharedMemPerBlockOptin - 2048) / 4);
  EXPECT_GE(most, 12288);
  EXPECT_TRUE(backend().SupportsHiddenSize(most).ok());
  const absl::Status status = backend().SupportsHiddenSize(most + 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(status.message()).find("rows of at most"), std::string::npos) << status;
  // The longest row is computed.
  const TypedArray x = TypedArray::Random(backend(), DType::kFloat32, 1, most, 1.0f, random());
  const TypedArray gain(backend(), DType::kFloat32, 1, most, std::vector<float>(most, 1.0f));
  const TypedArray y = TypedArray::Poisoned(backend(), DType::kFloat32, 1, most);
  NormParams params, expected;
  params.x = x.device(), expected.x = x.host_tensor();
  params.gain = gain.device_vector(), expected.gain = gain.host_vector();
  params.y = y.device(), expected.y = y.host_tensor();
  backend().Norm(params);
  EXPECT_LE(y.RelativeError(reference::Norm(expected).y), 3e-6);
}

TEST_F(DeviceTest, TellsAChoiceOnce) {
  const auto attend = [this](int head_dim, int length) {
    const DType dtype = DType::kBFloat16;
    const TypedArray x = TypedArray::Random(backend(), dtype, length, head_dim, 0.3f, random());
    const TypedArray output = TypedArray::Poisoned(backend(), dtype, length, head_dim);
    const IndexArray offsets(backend(), {0, length});
    AttentionParams params;
    params.query = params.key = params.value = x.device();
    params.output = output.device();
    params.num_heads = params.num_kv_heads = params.num_sequences = 1;
    params.head_dim = head_dim;
    params.query_offsets = offsets.device();
    params.max_query_length = length;
    backend().Attention(params);
    EXPECT_TRUE(backend().Synchronize().ok());
  };
  std::vector<std::string> lines;
  backend().SetLog([&lines](const std::string& line) { lines.push_back(line); });
  attend(64, 40);
  attend(64, 50);  // other numbers, the same choice
  ASSERT_EQ(lines.size(), 1u);
  // Which of the two is the GPU's generation.
  EXPECT_THAT(lines[0], testing::AnyOf(HasSubstr("wgmma kernel"), HasSubstr("tensor core kernel")));
  attend(20, 40);  // 40 bytes
  attend(64, 40);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[1], HasSubstr("math kernel"));
  backend().SetLog({});
  attend(64, 1);
  EXPECT_EQ(lines.size(), 2u);
}

TEST_F(DeviceTest, CopiesOfAnySizeAndPlaceWriteTheirOwnBytesAlone) {
  constexpr size_t kRoom = 8192;
  const auto buffer = backend().Allocate(kRoom);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  std::vector<uint8_t> expected(kRoom, 0xA5);
  for (const size_t bytes : {0, 1, 3, 4, 100, 512, 2047, 2048, 2049, 5000}) {
    for (const size_t offset : {0, 1, 2, 4, 1000, 1003}) {
      std::ranges::fill(expected, uint8_t{0xA5});
      backend().CopyToDevice(expected.data(), (*buffer)->data(), kRoom);
      std::vector<uint8_t> values(bytes);
      for (uint8_t& value : values) value = static_cast<uint8_t>(random()());
      backend().CopyToDevice(values.data(), static_cast<char*>((*buffer)->data()) + offset, bytes);
      std::ranges::copy(values, expected.begin() + static_cast<std::ptrdiff_t>(offset));
      std::ranges::fill(values, uint8_t{0});  // may be reused at once
      std::vector<uint8_t> actual(kRoom);
      ASSERT_TRUE(backend().CopyToHost((*buffer)->data(), actual.data(), kRoom).ok());
      ASSERT_EQ(actual, expected) << bytes << " bytes at " << offset;
    }
  }
}

TEST_F(DeviceTest, FewBytesAndManyComeToTheHostFromAnyPlace) {
  constexpr size_t kRoom = 40'000;
  const auto buffer = backend().Allocate(kRoom);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  std::vector<uint8_t> values(kRoom);
  for (uint8_t& value : values) value = static_cast<uint8_t>(random()());
  backend().CopyToDevice(values.data(), (*buffer)->data(), kRoom);
  for (const size_t bytes : {0, 1, 3, 4, 100, 3072, 16383, 16384, 16385, 30'000}) {
    for (const size_t offset : {0, 1, 2, 4, 16, 1000, 1003}) {
      std::vector<uint8_t> actual(bytes + 1, 0xA5);
      const char* const from = static_cast<const char*>((*buffer)->data()) + offset;
      ASSERT_TRUE(backend().CopyToHost(from, actual.data(), bytes).ok());
      ASSERT_TRUE(std::equal(actual.begin(), actual.end() - 1,
                             values.begin() + static_cast<std::ptrdiff_t>(offset)))
          << bytes << " bytes at " << offset;
      ASSERT_EQ(actual.back(), 0xA5) << bytes << " bytes at " << offset;
    }
  }
}

TEST_F(DeviceTest, AReadBackBringsFewBytesAndManyInTurn) {
  constexpr size_t kRoom = 65536;
  auto words = backend().AllocateReadBack(kRoom);
  ASSERT_TRUE(words.ok()) << words.status();
  ASSERT_TRUE((*words)->Wait().ok());  // of nothing
  std::vector<uint8_t> values(kRoom);
  for (const size_t bytes : {64, 16385, 12, 0, 65536, 16384, 64, 1}) {
    for (uint8_t& value : values) value = static_cast<uint8_t>(random()());
    backend().CopyToDevice(values.data(), (*words)->device(), kRoom);
    (*words)->Start(bytes);
    ASSERT_TRUE((*words)->Wait().ok());
    EXPECT_TRUE((*words)->Done());
    EXPECT_EQ(std::memcmp((*words)->host(), values.data(), bytes), 0) << bytes << " bytes";
  }
  (*words)->Start(64);  // its end waits for the copy
}

// A read-back that is asked too early is no fault of what is launched next.
TEST_F(DeviceTest, AReadBackThatIsNotDoneLeavesNoErrorBehind) {
  constexpr int64_t kRows = 4096;
  auto words = backend().AllocateReadBack(64);
  ASSERT_TRUE(words.ok()) << words.status();
  const StridedMatrix x = RandomMatrix(DType::kFloat32, kRows, kRows, kRows);
  const TypedArray gain = TypedArray::Random(backend(), DType::kFloat32, 1, kRows, 1.0f, random());
  const NormParams norm = {.x = x.tensor(), .gain = gain.device_vector(), .y = x.tensor()};
  bool waited = false;
  for (int attempt = 0; attempt < 20 && !waited; ++attempt) {
    for (int i = 0; i < 50; ++i) backend().Norm(norm);
    (*words)->Start(64);
    waited = !(*words)->Done();
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
    backend().Norm(norm);
    ASSERT_TRUE((*words)->Wait().ok());
    EXPECT_TRUE((*words)->Done());
  }
  EXPECT_TRUE(waited) << "the work was always done at once";
  EXPECT_TRUE(backend().Synchronize().ok());
}

}  // namespace
}  // namespace beamline::device_test
