// The bfloat16 product with oneDNN, which uses AVX512-BF16 and AMX
// (docs/decisions/0002-cpu-matmul.md).
//
// A oneDNN primitive is compiled for one number of rows. So a block of rows is cut into powers of
// two, whose primitives are made when the weight is packed. Nothing is compiled while serving.
#include <omp.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/math.h"
#include "fmt/format.h"
#include "kernels/cpu/bf16_convert.h"
#include "kernels/cpu/cpu_weight.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace beamline::cpu {
namespace {

constexpr int kNumRowSizes = 7;  // 1, 2, 4 .. 64 rows
constexpr int kMaxRows = 1 << (kNumRowSizes - 1);
constexpr int64_t kStripGranule = 32;
constexpr int64_t kMaxStripWidth = 512;

// Makes oneDNN use one OpenMP thread, as our threads already divide the work. The setting is per
// calling thread.
class SingleOpenMpThread {
 public:
  SingleOpenMpThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~SingleOpenMpThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  SingleOpenMpThread(const SingleOpenMpThread&) = delete;
  SingleOpenMpThread& operator=(const SingleOpenMpThread&) = delete;

 private:
  int before_;
};

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

dnnl::matmul::primitive_desc MakeDescription(int num_rows, int64_t in_features, int64_t width,
                                             const dnnl::memory::desc& weights) {
  const dnnl::memory::desc x({num_rows, in_features}, Type::bf16, Tag::ab);
  const dnnl::memory::desc y({num_rows, width}, Type::f32, Tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul::primitive_desc(Engine(), x, weights, y, attributes);
#else
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(x, weights, y), attributes, Engine());
#endif
}

// Products x [2^i, in_features] * weights [in_features, width], all with the same layout of the
// weights.
struct StripProducts {
  struct Product {
    dnnl::matmul primitive;
    dnnl::memory::desc x;
    dnnl::memory::desc y;
    dnnl::memory::desc scratchpad;
  };

  StripProducts(int64_t in_features, int64_t width)
      : weights(MakeDescription(kMaxRows, in_features, width,
                                {{in_features, width}, Type::bf16, Tag::any})
                    .weights_desc()) {
    for (int i = 0; i < kNumRowSizes; ++i) {
      const auto description = MakeDescription(1 << i, in_features, width, weights);
      products[i] = {dnnl::matmul(description), description.src_desc(), description.dst_desc(),
                     description.scratchpad_desc()};
      scratchpad_bytes = std::max(scratchpad_bytes, description.scratchpad_desc().get_size());
    }
  }

  dnnl::memory::desc weights;
  std::array<Product, kNumRowSizes> products;
  size_t scratchpad_bytes = 0;
};

// Weights of one shape share their compiled products.
std::shared_ptr<const StripProducts> GetStripProducts(int64_t in_features, int64_t width) {
  static std::mutex mutex;  // guards `all`
  static std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const StripProducts>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const StripProducts>& products = all[{in_features, width}];
  if (products == nullptr) products = std::make_shared<StripProducts>(in_features, width);
  return products;
}

// Enough strips for every thread, none too wide for the cache, as even as the granule allows.
int64_t ChooseStripWidth(int64_t out_features, int num_threads) {
  const int64_t num_granules = CeilDiv(out_features, kStripGranule);
  const int64_t needed = CeilDiv(out_features, kMaxStripWidth);
  const int64_t num_strips = std::max(needed, std::min<int64_t>(num_threads, num_granules));
  return CeilDiv(num_granules, num_strips) * kStripGranule;
}

class BFloat16Weight : public CpuWeight {
 public:
  BFloat16Weight(std::span<const HostMatrix> parts, int num_threads, WeightPages& pages) {
    SetShape(parts);
    dtype_ = DType::kBFloat16;
    gflops_per_core_ = 100;
    max_rows_ = kMaxRows;
    strip_width_ = static_cast<int>(ChooseStripWidth(out_features_, num_threads));
    num_strips_ = static_cast<int>(CeilDiv(out_features_, strip_width_));
    products_ = GetStripProducts(in_features_, strip_width_);
    Pack(parts, pages);
  }

  size_t workspace_floats() const override {
    return XFloats() + (products_->scratchpad_bytes + kCacheLineBytes) / sizeof(float);
  }

  void ComputeStrip(const float* x, int64_t x_stride, int num_rows, int strip, float* tile,
                    float* workspace) const override {
    auto* narrow_x = reinterpret_cast<uint16_t*>(workspace);
    for (int r = 0; r < num_rows; ++r) {
      ConvertToBFloat16(x + r * x_stride, in_features_, narrow_x + r * in_features_);
    }
    const SingleOpenMpThread single_thread;
    static thread_local dnnl::stream stream(Engine());
    int row = 0;
    for (int i = kNumRowSizes - 1; i >= 0; --i) {
      if ((num_rows - row) >> i == 0) continue;
      const StripProducts::Product& product = products_->products[i];
      product.primitive.execute(
          stream, {{DNNL_ARG_SRC, {product.x, Engine(), narrow_x + row * in_features_}},
                   {DNNL_ARG_WEIGHTS, strips_[strip]},
                   {DNNL_ARG_DST, {product.y, Engine(), tile + row * strip_width_}},
                   {DNNL_ARG_SCRATCHPAD, {product.scratchpad, Engine(), workspace + XFloats()}}});
      row += 1 << i;
    }
  }

 private:
  // The size of x in bfloat16, rounded up to a cache line.
  size_t XFloats() const {
    return Scratch::BytesFor<uint16_t>(kMaxRows * in_features_) / sizeof(float);
  }

  void Pack(std::span<const HostMatrix> parts, WeightPages& pages) {
    dnnl::stream stream(Engine());
    const dnnl::memory::desc plain({in_features_, strip_width_}, Type::bf16, Tag::ba);
    std::vector<uint16_t> rows(strip_width_ * in_features_);  // of one strip
    const auto finish_strip = [&] {
      dnnl::memory source(plain, Engine(), rows.data());
      const size_t bytes = products_->weights.get_size();
      memory_.push_back(pages.Allocate(bytes));
      strips_.emplace_back(products_->weights, Engine(), memory_.back().get());
      bytes_ += bytes;
      dnnl::reorder(source, strips_.back()).execute(stream, source, strips_.back());
      stream.wait();
      std::fill(rows.begin(), rows.end(), uint16_t{0});
    };
    ForEachWeightRow(parts, [&](int64_t out_feature, const float* values) {
      ConvertToBFloat16(values, in_features_,
                        rows.data() + out_feature % strip_width_ * in_features_);
      if ((out_feature + 1) % strip_width_ == 0) finish_strip();
    });
    if (out_features_ % strip_width_ != 0) finish_strip();
  }

  std::shared_ptr<const StripProducts> products_;
  std::vector<SharedBytes> memory_;   // [num_strips]
  std::vector<dnnl::memory> strips_;  // [num_strips] in memory_, zero past out_features
};

}  // namespace

absl::Status SupportsBFloat16() {
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  if ((static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      "this CPU does not multiply bfloat16 numbers (AVX512-BF16 or AMX); use float32");
}

absl::StatusOr<std::unique_ptr<CpuWeight>> PackBFloat16Weight(std::span<const HostMatrix> parts,
                                                              int num_threads, WeightPages& pages) {
  const SingleOpenMpThread single_thread;
  try {
    return std::make_unique<BFloat16Weight>(parts, num_threads, pages);
  } catch (const dnnl::error& error) {
    return absl::InternalError(
        fmt::format("oneDNN cannot make a bfloat16 product: {}", error.what()));
  }
}

}  // namespace beamline::cpu
