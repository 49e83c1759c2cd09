// What ranks on several GPUs compute together, against float64 and against the ranks of the CPU.
// Long because each collective stands here beside its twin on the host.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "kernels/cpu/thread_communicator.h"
#include "tests/gpu/connected_gpus.h"
#include "tests/gpu/typed_arrays.h"

namespace beamline::nccl_communicator_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Device memory of bytes, with others behind them that nobody may touch.
class Bytes {
 public:
  Bytes(Backend& backend, std::vector<uint8_t> bytes) : backend_(backend), size_(bytes.size()) {
    bytes.resize(size_ + kGuard, kPattern);
    auto buffer = backend.Allocate(bytes.size());
    BEAMLINE_CHECK(buffer.ok());
    buffer_ = *std::move(buffer);
    backend.CopyToDevice(bytes.data(), buffer_->data(), bytes.size());
  }
  template <typename T>
  Bytes(Backend& backend, const std::vector<T>& values) : Bytes(backend, AsBytes(values)) {}

  template <typename T>
  T* as() const {
    return static_cast<T*>(buffer_->data());
  }
  template <typename T = uint8_t>
  std::vector<T> Read() const {
    std::vector<uint8_t> bytes(size_ + kGuard);
    BEAMLINE_CHECK(backend_.CopyToHost(buffer_->data(), bytes.data(), bytes.size()).ok());
    for (size_t i = size_; i < bytes.size(); ++i) BEAMLINE_CHECK(bytes[i] == kPattern);
    std::vector<T> values(size_ / sizeof(T));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kPattern = 0xC3;

  template <typename T>
  static std::vector<uint8_t> AsBytes(const std::vector<T>& values) {
    std::vector<uint8_t> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }

  Backend& backend_;
  size_t size_;
  std::unique_ptr<Buffer> buffer_;
};

class NcclCommunicatorTest : public RandomTest {
 protected:
  std::vector<uint8_t> RandomBytes(int64_t count) {
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random()());
    return bytes;
  }
};

// Half the unit in the last place, relative.
double Rounding(DType dtype) {
  return dtype == DType::kFloat32 ? 6e-8 : dtype == DType::kFloat16 ? 4.9e-4 : 3.91e-3;
}

class NcclSumsTest : public NcclCommunicatorTest {
 protected:
  void ExpectSums(ConnectedGpus& gpus);
};

void NcclSumsTest::ExpectSums(ConnectedGpus& gpus) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const int64_t width : {1, 7, 8, 255, 4096, 65537, 1000003, RandomInt(1, 300000)}) {
      SCOPED_TRACE(std::string(Name(dtype)) + " " + std::to_string(width));
      std::vector<TypedArray> terms;
      for (int r = 0; r < gpus.size(); ++r) {
        terms.push_back(TypedArray::Random(gpus.backend(r), dtype, 1, width, 2.0f, random()));
      }
      gpus.Run([&](int r) { gpus.communicator(r).AllReduceSum(terms[r].device()); });
      const std::vector<float> sums = terms[0].Read();
      for (int64_t i = 0; i < width; ++i) {
        double sum = 0.0, magnitude = 0.0;
        for (const TypedArray& term : terms) {
          sum += term.host()[i];
          magnitude += std::fabs(term.host()[i]);
        }
        // Of two terms the rounded sum; of more each rank may round.
        const double size = gpus.size() == 2 ? std::fabs(sum) : gpus.size() * magnitude;
        ASSERT_NEAR(sums[i], sum, Rounding(dtype) * size + 1e-7) << i;
      }
      for (int r = 1; r < gpus.size(); ++r) {
        const std::vector<float> other = terms[r].Read();
        ASSERT_EQ(std::memcmp(other.data(), sums.data(), sums.size() * sizeof(float)), 0);
      }
    }
  }
  gpus.ExpectNoFault();
}

TEST_F(NcclSumsTest, SumsAreTheSameBitsOnEveryRank) {
  ConnectedGpus gpus;
  ExpectSums(gpus);
}

// As on GPUs whose links have no atomic operations.
TEST_F(NcclSumsTest, SumsOfNcclAloneToo) {
  ASSERT_EQ(setenv("BEAMLINE_PEER_SUMS", "0", 1), 0);
  ConnectedGpus gpus;
  ASSERT_EQ(unsetenv("BEAMLINE_PEER_SUMS"), 0);
  ExpectSums(gpus);
}

TEST_F(NcclSumsTest, SumsOfRanksThatJoinToo) {
  ConnectedGpus gpus(std::chrono::seconds(20), RankTraffic::kCollectives, /*joins=*/true);
  ExpectSums(gpus);
}

// Short sums between NCCL's own collectives and in recordings, on ranks of which one replays what
// another one runs.
TEST_F(NcclSumsTest, SumsAndBroadcastsFollowEachOther) {
  ConnectedGpus gpus;
  const int size = gpus.size();
  std::vector<Bytes> arrays;
  for (int r = 0; r < size; ++r) arrays.emplace_back(gpus.backend(r), std::vector<float>(4096));
  for (int round = 0; round < 40; ++round) {
    gpus.Run([&](int r) {
      const Tensor x(arrays[r].as<void>(), DType::kFloat32, {4096});
      const std::vector<float> ones(4096, 1.0f);
      gpus.backend(r).CopyToDevice(ones.data(), x.data, 4096 * sizeof(float));
      const auto work = [&] {
        for (int i = 0; i < 10; ++i) {
          gpus.communicator(r).AllReduceSum(x);
          if (i % 3 == 0) gpus.communicator(r).Broadcast(x, i % size);
        }
      };
      if ((round + r) % 5 == 0) return work();
      gpus.backend(r).Replay(1, work);
    });
    const auto expected = static_cast<float>(std::pow(size, 10));
    for (int r = 0; r < size; ++r) {
      for (const float value : arrays[r].Read<float>()) ASSERT_EQ(value, expected) << round;
    }
  }
  gpus.ExpectNoFault();
}

class NcclMessagesTest : public NcclCommunicatorTest {
 protected:
  void ExpectMessages(ConnectedGpus& gpus);
};

void NcclMessagesTest::ExpectMessages(ConnectedGpus& gpus) {
  const int size = gpus.size();
  constexpr int64_t kCounts[] = {1, 1000, 2000003};
  std::vector<Bytes> arrays;
  for (int r = 0; r < size; ++r) {
    arrays.emplace_back(gpus.backend(r), std::vector<uint8_t>(kCounts[2], 0));
  }
  for (int round = 0; round < 12; ++round) {
    const std::vector<uint8_t> first = RandomBytes(kCounts[2]), second = RandomBytes(kCounts[2]);
    const int64_t count = kCounts[round % 3];
    gpus.Run([&](int r) {
      const Tensor x(arrays[r].as<void>(), DType::kInt8, {count});
      for (const std::vector<uint8_t>* const sent : {&first, &second}) {
        if (r == 0) gpus.backend(0).CopyToDevice(sent->data(), x.data, count);
        // Of each size one rank replays what another one still runs.
        gpus.backend(r).Replay(100 * count + (round < 6 && r == 1 ? round : 0), [&] {
          if (r > 0) gpus.communicator(r).Receive(x, r - 1);
          if (r + 1 < size) gpus.communicator(r).Send(x, r + 1);
        });
        std::vector<uint8_t> now = arrays[r].Read();
        now.resize(count);
        ASSERT_TRUE(std::equal(now.begin(), now.end(), sent->begin())) << "rank " << r;
      }
    });
  }
  gpus.ExpectNoFault();
}

// From stage to stage in the order in which they were sent, of any size, recorded too.
TEST_F(NcclMessagesTest, MessagesArriveInOrder) {
  ConnectedGpus gpus(std::chrono::seconds(20), RankTraffic::kMessages);
  ExpectMessages(gpus);
}

TEST_F(NcclMessagesTest, MessagesOfRanksThatJoinToo) {
  ConnectedGpus gpus(std::chrono::seconds(20), RankTraffic::kMessages, /*joins=*/true);
  ExpectMessages(gpus);
}

// Parts whose widths differ, between whose rows lie others' elements.
TEST_F(NcclCommunicatorTest, GathersColumnsInTheOrderOfRanks) {
  ConnectedGpus gpus;
  const int size = gpus.size();
  for (const DType dtype : {DType::kInt8, DType::kBFloat16, DType::kFloat32, DType::kInt64}) {
    const auto element = static_cast<int64_t>(SizeOf(dtype));
    for (int round = 0; round < 14; ++round) {
      const int64_t num_rows = round % 3 == 0 ? 1 : RandomInt(2, 300);
      int64_t width = RandomInt(1, 700);
      if (round % 2 == 0) width = 8 * size * RandomInt(1, 40);
      const int64_t gap = round % 4 < 2 ? 0 : RandomInt(1, 9), whole_gap = round % 5 < 3 ? 0 : 3;
      SCOPED_TRACE(std::string(Name(dtype)) + " " + std::to_string(num_rows) + " x " +
                   std::to_string(width));
      const auto begin = [&](int r) { return width * r / size; };
      std::vector<std::vector<uint8_t>> parts;
      std::vector<Bytes> sent, received;
      const std::vector<uint8_t> poison(num_rows * (width + whole_gap) * element, 0xEE);
      for (int r = 0; r < size; ++r) {
        const int64_t own = begin(r + 1) - begin(r);
        parts.push_back(RandomBytes(num_rows * (own + gap) * element));
        sent.emplace_back(gpus.backend(r), parts.back());
        received.emplace_back(gpus.backend(r), poison);
      }
      gpus.Run([&](int r) {
        const int64_t own = begin(r + 1) - begin(r);
        gpus.communicator(r).AllGather(
            Tensor(sent[r].as<void>(), dtype, {num_rows, own + gap}).Columns(0, own),
            Tensor(received[r].as<void>(), dtype, {num_rows, width + whole_gap}).Columns(0, width));
      });
      std::vector<uint8_t> expected = poison;
      for (int64_t row = 0; row < num_rows; ++row) {
        for (int r = 0; r < size; ++r) {
          const int64_t own = begin(r + 1) - begin(r);
          std::copy_n(parts[r].begin() + row * (own + gap) * element, own * element,
                      expected.begin() + (row * (width + whole_gap) + begin(r)) * element);
        }
      }
      for (int r = 0; r < size; ++r) ASSERT_EQ(received[r].Read(), expected) << "rank " << r;
    }
  }
  gpus.ExpectNoFault();
}

TEST_F(NcclCommunicatorTest, BroadcastsFromAnyRank) {
  ConnectedGpus gpus;
  for (int root = 0; root < gpus.size(); ++root) {
    for (const int count : {1, 3, 1000, RandomInt(1, 100000)}) {
      std::vector<std::vector<uint8_t>> values;
      std::vector<Bytes> arrays;
      for (int r = 0; r < gpus.size(); ++r) {
        values.push_back(RandomBytes(count * 4));
        arrays.emplace_back(gpus.backend(r), values.back());
      }
      gpus.Run([&](int r) {
        gpus.communicator(r).Broadcast(Tensor(arrays[r].as<void>(), DType::kInt32, {count}), root);
      });
      for (const Bytes& array : arrays) ASSERT_EQ(array.Read(), values[root]);
    }
  }
  gpus.ExpectNoFault();
}

// What ranks bring, sorted as the operator leaves it, with many ties and infinities.
struct Lists {
  std::vector<int32_t> counts;
  int max_count = 0;
  std::vector<int32_t> first_columns;  // [ranks + 1]
  std::vector<std::vector<float>> values, raw_values, normalizers;
  std::vector<std::vector<int32_t>> ids;

  Lists(int num_ranks, int num_rows, int most, int64_t columns, std::mt19937& random)
      : max_count(most) {
    std::normal_distribution<float> normal(0.0f, 2.0f);
    for (int row = 0; row < num_rows; ++row)
      counts.push_back(1 + static_cast<int>(random() % most));
    for (int r = 0; r <= num_ranks; ++r) {
      first_columns.push_back(static_cast<int32_t>(columns * r / num_ranks));
    }
    for (int r = 0; r < num_ranks; ++r) {
      const int width = first_columns[r + 1] - first_columns[r];
      auto& own_values = values.emplace_back(num_rows * most, std::nanf(""));
      auto& own_ids = ids.emplace_back(num_rows * most, -9);
      auto& own_raw = raw_values.emplace_back(num_rows * most, std::nanf(""));
      for (int row = 0; row < num_rows; ++row) {
        std::vector<std::pair<float, int32_t>> found;
        for (int id = 0; id < width; ++id) {
          float value = std::round(4 * normal(random)) / 4;
          if (random() % 50 == 0) value = random() % 2 == 0 ? -kInfinity : kInfinity;
          found.emplace_back(-value, id);
        }
        std::sort(found.begin(), found.end());
        for (int i = 0; i < std::min(counts[row], width); ++i) {
          own_values[row * most + i] = -found[i].first;
          own_ids[row * most + i] = found[i].second;
          own_raw[row * most + i] = normal(random);
        }
        // NaN at the end counts as -infinity.
        const int last = row * most + std::min(counts[row], width) - 1;
        if (row % 7 == 3) own_values[last] = std::nanf("");
      }
      auto& own_normalizers = normalizers.emplace_back(num_rows);
      for (float& normalizer : own_normalizers) {
        normalizer = 10 + 3 * normal(random);
        if (random() % 20 == 0) normalizer = random() % 2 == 0 ? -kInfinity : std::nanf("");
      }
    }
  }
};

struct Merged {
  std::vector<float> values, raw_values, normalizers;
  std::vector<int32_t> ids;
};

MergeCandidatesParams ParamsOf(const Lists& lists, int rank) {
  return {.counts = lists.counts,
          .max_count = lists.max_count,
          .first_column = lists.first_columns[rank],
          .num_columns = lists.first_columns[rank + 1] - lists.first_columns[rank]};
}

Merged MergeOnCpu(const Lists& lists, int num_ranks, bool with_raw, bool with_normalizers) {
  const size_t entries = lists.counts.size() * lists.max_count;
  std::vector<Merged> merged(
      num_ranks,
      {std::vector<float>(entries, 77.0f), std::vector<float>(entries, 77.0f),
       std::vector<float>(lists.counts.size(), 77.0f), std::vector<int32_t>(entries, 77)});
  auto communicators = MakeThreadCommunicators(num_ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < num_ranks; ++r) {
    threads.emplace_back([&, r] {
      MergeCandidatesParams params = ParamsOf(lists, r);
      params.values = lists.values[r].data(), params.merged_values = merged[r].values.data();
      params.ids = lists.ids[r].data(), params.merged_ids = merged[r].ids.data();
      if (with_raw) {
        params.raw_values = lists.raw_values[r].data();
        params.merged_raw_values = merged[r].raw_values.data();
      }
      if (with_normalizers) {
        params.log_normalizers = lists.normalizers[r].data();
        params.merged_log_normalizers = merged[r].normalizers.data();
      }
      communicators[r]->MergeCandidates(params);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return merged[0];
}

// Bit for bit, but that any NaN is one.
void ExpectSame(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(actual[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i])) << i;
    }
  }
}

// More rows than a launch carries counts of, more candidates than some ranks have columns.
TEST_F(NcclCommunicatorTest, MergesCandidatesAsTheCpuDoes) {
  ConnectedGpus gpus;
  const int size = gpus.size();
  const struct {
    int num_rows, most;
    int64_t columns;
  } shapes[] = {{1, 1, 100}, {9, 20, 61}, {700, 8, 50}, {5, 300, 401}, {3, 40, 9}};
  for (const auto& shape : shapes) {
    for (const bool with_raw : {false, true}) {
      for (const bool with_normalizers : {false, true}) {
        SCOPED_TRACE(std::to_string(shape.num_rows) + " rows, " + std::to_string(shape.most));
        const Lists lists(size, shape.num_rows, shape.most, shape.columns, random());
        const Merged expected = MergeOnCpu(lists, size, with_raw, with_normalizers);
        const size_t entries = lists.counts.size() * lists.max_count;
        std::vector<Merged> merged(size);
        gpus.Run([&](int r) {
          Backend& backend = gpus.backend(r);
          const Bytes values(backend, lists.values[r]), ids(backend, lists.ids[r]);
          const Bytes raw(backend, lists.raw_values[r]), normalizers(backend, lists.normalizers[r]);
          const std::vector<float> poison(entries, 77.0f);
          const Bytes merged_values(backend, poison), merged_raw(backend, poison);
          const Bytes merged_ids(backend, std::vector<int32_t>(entries, 77));
          const Bytes merged_normalizers(backend, std::vector<float>(lists.counts.size(), 77.0f));
          MergeCandidatesParams params = ParamsOf(lists, r);
          params.values = values.as<float>(), params.merged_values = merged_values.as<float>();
          params.ids = ids.as<int32_t>(), params.merged_ids = merged_ids.as<int32_t>();
          if (with_raw) {
            params.raw_values = raw.as<float>();
            params.merged_raw_values = merged_raw.as<float>();
          }
          if (with_normalizers) {
            params.log_normalizers = normalizers.as<float>();
            params.merged_log_normalizers = merged_normalizers.as<float>();
          }
          gpus.communicator(r).MergeCandidates(params);
          merged[r] = {merged_values.Read<float>(), merged_raw.Read<float>(),
                       merged_normalizers.Read<float>(), merged_ids.Read<int32_t>()};
        });
        for (const Merged& found : merged) {
          ASSERT_EQ(found.ids, expected.ids);
          ExpectSame(found.values, expected.values);
          ExpectSame(found.raw_values, expected.raw_values);
          ExpectSame(found.normalizers, expected.normalizers);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  gpus.ExpectNoFault();
}

// Collectives between kernels that overlap, recorded on all ranks; then on some of them alone.
TEST_F(NcclCommunicatorTest, RecordingsComputeOnWhatTheMemoryHolds) {
  ConnectedGpus gpus;
  const int size = gpus.size();
  constexpr int64_t kRows = 3, kWidth = 1000;
  std::vector<TypedArray> parts, wholes, gains;
  for (int r = 0; r < size; ++r) {
    const int64_t own = kWidth * (r + 1) / size - kWidth * r / size;
    parts.push_back(TypedArray::Poisoned(gpus.backend(r), DType::kFloat32, kRows, own));
    wholes.push_back(TypedArray::Poisoned(gpus.backend(r), DType::kFloat32, kRows, kWidth));
    gains.emplace_back(gpus.backend(r), DType::kFloat32, 1, kWidth,
                       std::vector<float>(kWidth, 1.0f));
  }
  std::vector<int> calls(size, 0);
  const auto work = [&](int r) {
    ++calls[r];
    const Tensor whole = wholes[r].device();
    gpus.communicator(r).AllGather(parts[r].device(), whole);
    const NormParams norm = {.x = whole, .gain = gains[r].device_vector(), .y = whole};
    gpus.backend(r).Norm(norm);
    gpus.communicator(r).AllReduceSum(whole);
    gpus.backend(r).Norm(norm);
    gpus.communicator(r).Broadcast(whole, size - 1);
  };
  // The rows that come out are normed, whatever went in.
  const auto expected = [&](const std::vector<std::vector<float>>& values) {
    reference::Matrix rows(kRows, kWidth);
    for (int64_t row = 0; row < kRows; ++row) {
      double mean = 0.0, squares = 0.0;
      int64_t column = 0;
      for (const auto& part : values) {
        const auto own = static_cast<int64_t>(part.size()) / kRows;
        for (int64_t i = 0; i < own; ++i)
          rows.values[row * kWidth + column++] = part[row * own + i];
      }
      for (int64_t i = 0; i < kWidth; ++i) mean += rows.values[row * kWidth + i] / kWidth;
      for (int64_t i = 0; i < kWidth; ++i) {
        double& x = rows.values[row * kWidth + i];
        x -= mean;
        squares += x * x / kWidth;
      }
      for (int64_t i = 0; i < kWidth; ++i) rows.values[row * kWidth + i] /= std::sqrt(squares);
    }
    return rows;
  };
  for (int round = 0; round < 12; ++round) {
    std::vector<std::vector<float>> values(size);
    std::normal_distribution<float> normal(1.0f, 2.0f);
    for (int r = 0; r < size; ++r) {
      values[r].resize(parts[r].host().size());
      for (float& value : values[r]) value = normal(random());
    }
    gpus.Run([&](int r) {
      gpus.backend(r).CopyToDevice(values[r].data(), parts[r].device().data,
                                   values[r].size() * sizeof(float));
      wholes[r].Upload();
      if (round >= 8 && r == round % size) return work(r);  // beside the others' recordings
      gpus.backend(r).Replay(1, [&] { work(r); });
    });
    const reference::Matrix rows = expected(values);
    for (int r = 0; r < size; ++r) {
      ASSERT_LE(wholes[r].RelativeError(rows), 1e-5) << "round " << round << " rank " << r;
    }
  }
  for (int r = 0; r < size; ++r) {
    const int alone = static_cast<int>(4 / size + (r < 4 % size ? 1 : 0));
    EXPECT_EQ(calls[r], 2 + alone) << r;  // as it is, recorded, and by itself
  }
  gpus.ExpectNoFault();
}

// Ranks that come at any time, and do not wait for each other between collectives.
TEST_F(NcclCommunicatorTest, ManyCallsBehindEachOther) {
  ConnectedGpus gpus;
  const int size = gpus.size();
  constexpr int kCalls = 500;
  std::vector<unsigned> seeds;
  for (int r = 0; r < size; ++r) seeds.push_back(random()());
  gpus.Run([&](int r) {
    std::mt19937 delays(seeds[r]);
    const Bytes x(gpus.backend(r), std::vector<float>(33, 1.0f));
    const Bytes whole(gpus.backend(r), std::vector<float>(size, 0.0f));
    Communicator& communicator = gpus.communicator(r);
    for (int call = 0; call < kCalls; ++call) {
      if (delays() % 20 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(delays() % 500));
      // Another rank's value each time, times the number of ranks.
      communicator.Broadcast(Tensor(x.as<void>(), DType::kFloat32, {33}), call % size);
      communicator.AllGather(Tensor(x.as<void>(), DType::kFloat32, {1}),
                             Tensor(whole.as<void>(), DType::kFloat32, {size}));
      if (call < 10) communicator.AllReduceSum(Tensor(x.as<void>(), DType::kFloat32, {33}));
    }
    const float expected = static_cast<float>(std::pow(size, 10));
    for (const float value : x.Read<float>()) ASSERT_EQ(value, expected);
    for (const float value : whole.Read<float>()) ASSERT_EQ(value, expected);
  });
  gpus.ExpectNoFault();
}

}  // namespace
}  // namespace beamline::nccl_communicator_test
