// Times operators on a GPU and creates their inputs.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "kernels/backend.h"

namespace beamline {

inline constexpr double kRoundSeconds = 0.02;
inline constexpr int kNumRounds = 5;
inline constexpr size_t kRotationBytes = size_t{192} << 20;

inline constexpr int kMostRecordedCalls = 64;
inline constexpr int kReplaysToRecord =
    3;  // the first replay runs the calls, later ones capture the graph

enum class Recording : uint8_t { kYes, kNo };  // kNo: copies host values, so it cannot be captured

struct Line {
  std::string name;
  double microseconds = 0;
  double host_microseconds = 0;
  double tera_flops = 0;
  double giga_bytes = 0;
};

class Bench {
 public:
  Bench(Backend& backend, const std::string& pattern) : backend_(backend), pattern_(pattern) {
    for (float& value : numbers_) value = std::uniform_real_distribution<float>(-1, 1)(random_);
  }

  // Whether the line with this name is requested.
  bool Wants(const std::string& name) const { return std::regex_search(name, pattern_); }

  // Random device memory. 16-bit types also get numbers in [-1, 1).
  void* Random(size_t bytes, DType dtype) {
    const size_t element = SizeOf(dtype);
    std::vector<uint8_t> host(std::min<size_t>(bytes, size_t{8} << 20));
    for (size_t i = 0; i + element <= host.size(); i += element) {
      const float value = Next();
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      if (dtype == DType::kBFloat16) bits >>= 16;
      if (dtype == DType::kFloat16) {
        const auto half = static_cast<_Float16>(value);
        std::memcpy(&bits, &half, sizeof(half));
      }
      std::memcpy(host.data() + i, &bits, element);
    }
    auto buffer = backend_.Allocate(bytes);
    BEAMLINE_CHECK(buffer.ok());
    char* const data = static_cast<char*>((*buffer)->data());
    for (size_t done = 0; done < bytes; done += host.size()) {
      backend_.CopyToDevice(host.data(), data + done, std::min(host.size(), bytes - done));
    }
    buffers_.push_back(*std::move(buffer));
    return data;
  }
  Tensor RandomTensor(std::initializer_list<int64_t> shape, DType dtype) {
    Tensor tensor(nullptr, dtype, shape);
    tensor.data = Random(static_cast<size_t>(tensor.num_elements()) * SizeOf(dtype), dtype);
    return tensor;
  }
  const int32_t* Ids(const std::vector<int32_t>& values) {
    auto buffer = backend_.Allocate(values.size() * sizeof(int32_t));
    BEAMLINE_CHECK(buffer.ok());
    backend_.CopyToDevice(values.data(), (*buffer)->data(), values.size() * sizeof(int32_t));
    buffers_.push_back(*std::move(buffer));
    return static_cast<const int32_t*>(buffers_.back()->data());
  }
  std::unique_ptr<PackedWeight> Weight(int64_t out_features, int64_t in_features, DType dtype) {
    std::vector<float> values(out_features * in_features);
    for (float& value : values) value = Next();
    const HostMatrix part = {.data = values.data(), .rows = out_features, .cols = in_features};
    auto weight = backend_.PackWeight({&part, 1}, dtype);
    BEAMLINE_CHECK(weight.ok());
    return *std::move(weight);
  }
  void Clear() { buffers_.clear(); }

  // Times run(i) with increasing i, and adds a line.
  void Time(const std::string& name, double flops, double bytes,
            const std::function<void(int)>& run, Recording recording = Recording::kYes) {
    int next = 0;
    const double launched = SecondsOf([&](int calls) {
      for (int call = 0; call < calls; ++call) run(next++);
    });
    double seconds = launched;
    if (recording == Recording::kYes && backend_.Records()) {
      const int recorded =
          std::clamp(static_cast<int>(kRoundSeconds / launched), 1, kMostRecordedCalls);
      const uint64_t key = ++last_recording_;
      const auto replay = [&](int replays) {
        for (int i = 0; i < replays; ++i) {
          backend_.Replay(key, [&] {
            for (int call = 0; call < recorded; ++call) run(next++);
          });
        }
      };
      replay(kReplaysToRecord);
      seconds = SecondsOf(replay) / recorded;
    }
    lines_.push_back(
        {name, seconds * 1e6, launched * 1e6, flops / seconds * 1e-12, bytes / seconds * 1e-9});
    fmt::print("{:<62} {:>9.2f} us {:>9.2f} us {:>7.1f} TFLOP/s {:>6.0f} GB/s\n", name,
               seconds * 1e6, launched * 1e6, lines_.back().tera_flops, lines_.back().giga_bytes);
    std::fflush(stdout);
  }
  Backend& backend() { return backend_; }
  const std::vector<Line>& lines() const { return lines_; }

 private:
  // Random numbers are drawn once and repeat with a period that is not a multiple of any row.
  static constexpr size_t kNumbers = 999983;

  float Next() {
    if (++position_ == kNumbers) position_ = 0;
    return numbers_[position_];
  }

  // Seconds per item of work(count), which does `count` items.
  double SecondsOf(const std::function<void(int)>& work) {
    const auto round = [&](int count) {
      const auto begin = std::chrono::steady_clock::now();
      work(count);
      BEAMLINE_CHECK(backend_.Synchronize().ok());
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    round(3);
    const double estimate = round(5) / 5;
    const int count = std::clamp(static_cast<int>(kRoundSeconds / estimate), 2, 2000);
    std::vector<double> seconds;
    for (int r = 0; r < kNumRounds; ++r) seconds.push_back(round(count) / count);
    std::sort(seconds.begin(), seconds.end());
    return seconds[kNumRounds / 2];
  }

  Backend& backend_;
  const std::regex pattern_;
  std::mt19937 random_{7};
  std::vector<float> numbers_ = std::vector<float>(kNumbers);
  size_t position_ = 0;
  uint64_t last_recording_ = 0;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<Line> lines_;
};

}  // namespace beamline
