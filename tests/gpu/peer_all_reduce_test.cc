// What sums over ranks compute.
#include "kernels/cuda/communication/peer_all_reduce.h"

#include <cmath>
#include <cstring>

#include "tests/gpu/peer_fixture.h"

namespace beamline::peer_all_reduce_test {
namespace {

using cuda::PeerAlgorithm;

class PeerAllReduceTest : public PeerTest {
 protected:
  void ExpectSum(DType dtype, int64_t count, int64_t offset, PeerAlgorithm algorithm);
};

float Rounded(float x, DType dtype) {
  if (dtype == DType::kFloat16) return FromFloat16Bits(ToFloat16Bits(x));
  if (dtype == DType::kBFloat16) return FromBFloat16Bits(ToBFloat16Bits(x));
  return x;
}

// Half a unit in the last place.
double Tolerance(DType dtype) {
  return dtype == DType::kFloat32 ? 6e-8 : dtype == DType::kFloat16 ? 4.9e-4 : 4e-3;
}

// `offset` elements lie before x, as many as make it unaligned, and three behind it.
void PeerAllReduceTest::ExpectSum(DType dtype, int64_t count, int64_t offset,
                                  PeerAlgorithm algorithm) {
  SCOPED_TRACE(testing::Message() << size() << " ranks, " << count << " of " << Name(dtype)
                                  << " at " << offset << ", one-shot "
                                  << (algorithm == PeerAlgorithm::kOneShot));
  const std::vector<TypedArray> arrays = Terms(dtype, 1, offset + count + 3);
  Run([&](int rank) { peer(rank).Sum(arrays[rank].device().Columns(offset, count), algorithm); });
  std::vector<std::vector<float>> results;
  for (const TypedArray& array : arrays) results.push_back(array.Read());
  ExpectNoFault();
  int64_t num_wrong = 0;
  for (int64_t i = 0; i < offset + count + 3; ++i) {
    const bool is_summed = i >= offset && i < offset + count;
    float sum = arrays[0].host()[i];
    double exact = sum, magnitude = std::abs(exact);
    for (int rank = 1; rank < size(); ++rank) {
      sum += arrays[rank].host()[i];
      exact += arrays[rank].host()[i];
      magnitude += std::abs(arrays[rank].host()[i]);
    }
    const float expected = Rounded(sum, dtype);
    for (int rank = 0; rank < size(); ++rank) {
      const float actual = results[rank][i];
      if (!is_summed) {
        num_wrong += actual != arrays[rank].host()[i];
        continue;
      }
      num_wrong += std::memcmp(&actual, &expected, sizeof(actual)) != 0;
      const double bound = Tolerance(dtype) * std::abs(exact) + size() * 6e-8 * magnitude;
      num_wrong += !(std::abs(actual - exact) <= bound + 6e-8);
    }
  }
  EXPECT_EQ(num_wrong, 0);
}

TEST_F(PeerAllReduceTest, SumsAreThoseInTheOrderOfTheRanks) {
  for (const int ranks : {2, 3, 4, 5, 8}) {
    Open(ranks);
    std::vector<int64_t> counts = {1, 2, 7, 8, 9, 255, 4096, 4097, 40000};
    for (int i = 0; i < 6; ++i) counts.push_back(1 + random()() % 30000);
    if (ranks == 2) counts.insert(counts.end(), {131072, 200001});
    for (const DType dtype : kPeerTypes) {
      for (const int64_t count : counts) {
        const int64_t offset = random()() % 2 == 0 ? 0 : random()() % 8;
        ExpectSum(dtype, count, offset, PeerAlgorithm::kTwoShot);
        if (cuda::FitsOneShot(ranks, count * static_cast<int64_t>(SizeOf(dtype)))) {
          ExpectSum(dtype, count, offset, PeerAlgorithm::kOneShot);
        }
      }
    }
  }
}

// What a sanitizer has time for.
TEST_F(PeerAllReduceTest, SmallSums) {
  Open(2);
  for (const PeerAlgorithm algorithm : {PeerAlgorithm::kOneShot, PeerAlgorithm::kTwoShot}) {
    for (const int64_t count : {1, 9, 4097}) {
      ExpectSum(DType::kBFloat16, count, 1, algorithm);
      ExpectSum(DType::kFloat32, count, 0, algorithm);
    }
  }
}

// Parts of whole vectors, beside their place in the whole or there already.
TEST_F(PeerAllReduceTest, GathersParts) {
  for (const int ranks : {2, 3, 8}) {
    Open(ranks);
    for (const int64_t count : {4, 8, 1024, 2048, 20000}) {
      const bool in_place = count % 8 == 0;
      const auto bytes = static_cast<size_t>(count) * sizeof(float);
      const std::vector<TypedArray> parts = Terms(DType::kFloat32, 1, count);
      std::vector<TypedArray> wholes = Terms(DType::kFloat32, 1, count * size() + 3);
      Run([&](int rank) {
        float* const whole = wholes[rank].device().as<float>();
        const void* part = parts[rank].device().data;
        if (in_place) {
          const std::vector<float>& values = parts[rank].host();
          part = whole + rank * count;
          backend(rank).CopyToDevice(values.data(), whole + rank * count, bytes);
        }
        ASSERT_TRUE(peer(rank).TakesGather(part, whole, bytes));
        for (int i = 0; i < 3; ++i) peer(rank).Gather(part, whole, bytes);
      });
      for (int rank = 0; rank < size(); ++rank) {
        const std::vector<float> whole = wholes[rank].Read();
        for (int r = 0; r < size(); ++r) {
          ASSERT_TRUE(
              std::equal(parts[r].host().begin(), parts[r].host().end(), whole.begin() + r * count))
              << rank << " of " << size() << ", " << count;
        }
        for (int64_t i = count * size(); i < count * size() + 3; ++i) {
          ASSERT_EQ(whole[i], wholes[rank].host()[i]);
        }
      }
    }
    ExpectNoFault();
  }
  const float* const some = nullptr;
  EXPECT_FALSE(peer(0).TakesGather(some, some, 0));
  EXPECT_FALSE(peer(0).TakesGather(some, some, 20));
  EXPECT_FALSE(peer(0).TakesGather(some + 1, some, 16));
  EXPECT_FALSE(peer(0).TakesGather(some, some, size_t{64} << 20));
}

// Several tiles a block, and the longest that one-shot takes.
TEST_F(PeerAllReduceTest, SumsLongArrays) {
  for (const int ranks : {2, 4}) {
    Open(ranks);
    ExpectSum(DType::kBFloat16, (int64_t{5} << 20) + 13, 0, PeerAlgorithm::kTwoShot);
    ExpectSum(DType::kFloat32, (int64_t{3} << 20) + 1, 1, PeerAlgorithm::kTwoShot);
    const int64_t most = cuda::PeerLayout(ranks).packet_vecs * 8;
    ExpectSum(DType::kFloat16, most, 0, PeerAlgorithm::kOneShot);
  }
}

TEST_F(PeerAllReduceTest, NoElementsAreNoCall) {
  Open(2);
  Run([&](int rank) { peer(rank).Sum(Tensor(nullptr, DType::kFloat16, {0, 5})); });
  Run([&](int rank) {
    // One rank alone: the other need not come.
    if (rank == 0) peer(rank).Sum(Tensor(nullptr, DType::kFloat32, {0}));
    EXPECT_TRUE(backend(rank).Synchronize().ok());
  });
  ExpectSum(DType::kFloat32, 100, 0, PeerAlgorithm::kOneShot);
}

TEST_F(PeerAllReduceTest, TakesWhatItIsFasterFor) {
  Open(2);
  for (const DType dtype : kPeerTypes) {
    EXPECT_TRUE(peer(0).Takes(dtype, 4096));
    const int64_t most = cuda::MostPeerBytes(2) / static_cast<int64_t>(SizeOf(dtype));
    EXPECT_TRUE(peer(1).Takes(dtype, most));
    EXPECT_FALSE(peer(1).Takes(dtype, most + 1));
  }
  EXPECT_FALSE(peer(0).Takes(DType::kInt32, 4096));
}

}  // namespace
}  // namespace beamline::peer_all_reduce_test
