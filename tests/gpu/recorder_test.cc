// Replay through the backend: when work runs, when its recording does, and that both compute on
// what the memory holds now.
#include "kernels/cuda/device/recorder.h"

#include "tests/gpu/cuda_fixture.h"

namespace beamline::recorder_test {
namespace {

constexpr int64_t kRows = 20;
constexpr int64_t kInFeatures = 65;  // no whole accesses: x is padded in scratch memory
constexpr int64_t kOutFeatures = 96;

// The work is a product by cuBLASLt between two kernels.
class RecorderTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    const std::vector<float> values = Normal(kOutFeatures * kInFeatures, 0.1f);
    std::copy(values.begin(), values.end(), weight_values_.values.begin());
    const HostMatrix part = {.data = values.data(), .rows = kOutFeatures, .cols = kInFeatures};
    auto weight = backend().PackWeight({&part, 1}, DType::kFloat32);
    ASSERT_TRUE(weight.ok()) << weight.status();
    weight_ = *std::move(weight);
    x_ = std::make_unique<TypedArray>(backend(), DType::kFloat32, kRows, kInFeatures,
                                      Normal(kRows * kInFeatures));
    y_ = std::make_unique<TypedArray>(
        TypedArray::Poisoned(backend(), DType::kFloat32, kRows, kOutFeatures));
    // Chooses the algorithm, which takes more scratch memory than the work itself.
    for (int i = 0; i < 3; ++i) Work();
    num_calls_ = 0;
    first_key_ += 10000;
  }

  void Work() {
    ++num_calls_;
    backend().MatMul({.x = x_->device(),
                      .weight = weight_.get(),
                      .activation = Activation::kGelu,
                      .y = y_->device()});
  }
  // Replays on new numbers, and returns how often the work itself was called for it.
  template <typename WorkOfKey>
  int Replay(uint64_t key, const WorkOfKey& work) {
    const int before = num_calls_;
    std::vector<float> values = Normal(kRows * kInFeatures);
    backend().CopyToDevice(values.data(), x_->device().data, values.size() * sizeof(float));
    y_->Upload();
    backend().Replay(first_key_ + key, work);
    const Tensor x(values.data(), DType::kFloat32, {kRows, kInFeatures});
    const reference::Matrix expected =
        reference::MatMul({.x = x, .activation = Activation::kGelu}, weight_values_);
    EXPECT_LE(y_->RelativeError(expected), 3e-6) << "key " << key;
    EXPECT_TRUE(backend().Synchronize().ok());
    return num_calls_ - before;
  }
  int Replay(uint64_t key) {
    return Replay(key, [this] { Work(); });
  }

  // Of this test: the tests share a backend, and their memory does not outlive them.
  uint64_t first_key() const { return first_key_; }

  void MoveScratch() {
    const uint64_t generation = device().scratch_generation();
    for (size_t bytes = size_t{32} << 20; device().scratch_generation() == generation; bytes *= 2) {
      device().BeginOperator();
      ASSERT_NE(device().TakeScratch<char>(bytes), nullptr);
    }
  }

 private:
  static inline uint64_t first_key_ = 0;
  int num_calls_ = 0;
  std::unique_ptr<PackedWeight> weight_;
  reference::Matrix weight_values_{kOutFeatures, kInFeatures};
  std::unique_ptr<TypedArray> x_, y_;
};

TEST_F(RecorderTest, RunsThenRecordsThenReplays) {
  EXPECT_TRUE(backend().Records());
  EXPECT_EQ(Replay(7), 1);  // as it is
  EXPECT_EQ(Replay(7), 1);  // recorded
  EXPECT_EQ(Replay(7), 0);
  EXPECT_EQ(Replay(8), 1);  // another key's work is another's
  EXPECT_EQ(Replay(7), 0);
}

TEST_F(RecorderTest, RecordsAnewWhenTheScratchMemoryHasMoved) {
  EXPECT_EQ(Replay(7) + Replay(7) + Replay(7), 2);
  MoveScratch();
  EXPECT_EQ(Replay(7), 1);
  EXPECT_EQ(Replay(7), 1);
  EXPECT_EQ(Replay(7), 0);
}

TEST_F(RecorderTest, ForgetsWhatWasNotUsedForLongest) {
  constexpr uint64_t kUsed = 1, kUnused = 2;
  for (const uint64_t key : {kUsed, kUnused}) {
    EXPECT_EQ(Replay(key) + Replay(key) + Replay(key), 2);
  }
  for (uint64_t key = 1000; key < 1300; ++key) {
    backend().Replay(first_key() + key, [this] { Work(); });
    if (key % 50 == 0) {
      EXPECT_EQ(Replay(kUsed), 0);
    }
  }
  EXPECT_EQ(Replay(kUsed), 0);
  EXPECT_EQ(Replay(kUnused), 1);
}

TEST_F(RecorderTest, RunsWhatCannotBeRecorded) {
  const auto waiting = [this] {
    Work();
    // The capture is over with it, which is no fault of the device.
    static_cast<void>(cudaStreamSynchronize(device().stream()));
    cudaGetLastError();
  };
  EXPECT_EQ(Replay(9, waiting), 1);
  EXPECT_EQ(Replay(9, waiting), 2);  // tried once, then run
  EXPECT_EQ(Replay(9, waiting), 1);
  EXPECT_EQ(Replay(9, waiting), 1);
}

// What a capture forbids is no fault of the device: the work runs unrecorded.
TEST_F(RecorderTest, AFaultOfTheCaptureIsNotTheDevices) {
  const auto waiting = [this] {
    Work();
    static_cast<void>(backend().Synchronize());
  };
  EXPECT_EQ(Replay(9, waiting), 1);
  EXPECT_EQ(Replay(9, waiting), 2);  // tried once, then run
  EXPECT_TRUE(device().ok()) << device().status();
  EXPECT_EQ(Replay(9, waiting), 1);
}

// A recording would repeat the values of the day it was made.
TEST_F(RecorderTest, DoesNotRecordWhatComesFromTheHost) {
  const IndexArray words(backend(), {10, 11, 12, 13});
  const IndexArray tokens(backend(), {0, 0, 0, 0});
  TokenFill fill = {};
  const auto filling = [&] {
    Work();
    backend().FillTokens({words.device(), {&fill, 1}, const_cast<int32_t*>(tokens.device())});
  };
  for (int32_t i = 0; i < 4; ++i) {
    fill = {.source = 3 - i, .target = i};
    EXPECT_EQ(Replay(9, filling), i == 1 ? 2 : 1);
  }
  std::vector<int32_t> filled(4);
  ASSERT_TRUE(backend().CopyToHost(tokens.device(), filled.data(), 16).ok());
  EXPECT_EQ(filled, (std::vector<int32_t>{13, 12, 11, 10}));
}

TEST_F(RecorderTest, DoesNotRecordWhatTheHostWaitsFor) {
  auto read_back = backend().AllocateReadBack(sizeof(float));
  ASSERT_TRUE(read_back.ok()) << read_back.status();
  const auto reading = [&] {
    Work();
    (*read_back)->Start(sizeof(float));
  };
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Replay(9, reading), i == 1 ? 2 : 1);
    EXPECT_TRUE((*read_back)->Wait().ok());
  }
}

}  // namespace
}  // namespace beamline::recorder_test
