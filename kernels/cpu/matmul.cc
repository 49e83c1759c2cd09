// MatMul: divides the product into tiles of rows x strips. Computes each tile, and applies the
// epilogue while it is in cache.
#include <algorithm>

#include "base/math.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/matmul_epilogue.h"
#include "kernels/cpu/ops.h"

namespace beamline::cpu {
namespace {

// A chunk of rows stays in the L2 cache while every strip passes over it.
constexpr int64_t kRowChunkBytes = 384 << 10;

struct Columns {
  int64_t begin = 0;
  int64_t end = 0;
};

// Computes one thread's part of a MatMul, with its tiles.
class TileWorker {
 public:
  TileWorker(const MatMulParams& params, const CpuWeight& weight, Scratch& scratch)
      : params_(params), weight_(weight) {
    const size_t tile_size = static_cast<size_t>(weight.max_rows()) * weight.strip_width();
    // The up projection's columns may span two strips; they are gathered then.
    const size_t num_tiles = params.gated ? 4 : 1;
    scratch.Reset(num_tiles * Scratch::BytesFor<float>(tile_size) +
                  Scratch::BytesFor<float>(weight.workspace_floats()));
    tile_ = scratch.Take<float>(tile_size);
    if (params.gated) {
      up_ = scratch.Take<float>(tile_size);
      strips_[0] = scratch.Take<float>(tile_size);
      strips_[1] = scratch.Take<float>(tile_size);
    }
    workspace_ = scratch.Take<float>(weight.workspace_floats());
  }

  void Compute(int64_t row, int num_rows, int strip) {
    const float* x = params_.x.row<float>(row);
    const int64_t width = weight_.strip_width();
    const int64_t out_features =
        params_.gated ? weight_.out_features() / 2 : weight_.out_features();
    const Columns columns = {strip * width, std::min((strip + 1) * width, out_features)};
    weight_.ComputeStrip(x, params_.x.row_stride, num_rows, strip, tile_, workspace_);
    EpilogueParams epilogue;
    epilogue.tile = tile_;
    epilogue.tile_stride = width;
    if (params_.gated) epilogue.up = ComputeUp(x, num_rows, columns);
    if (!params_.bias.empty()) {
      epilogue.bias = params_.bias.as<float>() + columns.begin;
      epilogue.up_bias = epilogue.bias + out_features;
    }
    if (!params_.residual.empty()) {
      epilogue.residual = params_.residual.row<float>(row) + columns.begin;
      epilogue.residual_stride = params_.residual.row_stride;
    }
    epilogue.y = params_.y.row<float>(row) + columns.begin;
    epilogue.y_stride = params_.y.row_stride;
    epilogue.num_rows = num_rows;
    epilogue.num_cols = static_cast<int>(columns.end - columns.begin);
    epilogue.activation = params_.activation;
    epilogue.softcap = params_.softcap;
    ApplyEpilogue(epilogue);
  }

 private:
  // The up projection (the weight's second half) for `columns` of y.
  const float* ComputeUp(const float* x, int num_rows, Columns columns) {
    const int64_t width = weight_.strip_width();
    const int64_t half = weight_.out_features() / 2;
    const int64_t begin = half + columns.begin;
    const int64_t shift = begin % width;
    const int first = static_cast<int>(begin / width);
    if (shift == 0) {
      weight_.ComputeStrip(x, params_.x.row_stride, num_rows, first, up_, workspace_);
      return up_;
    }
    const int64_t num_cols = columns.end - columns.begin;
    const int num_strips = shift + num_cols > width ? 2 : 1;
    for (int i = 0; i < num_strips; ++i) {
      weight_.ComputeStrip(x, params_.x.row_stride, num_rows, first + i, strips_[i], workspace_);
    }
    for (int r = 0; r < num_rows; ++r) {
      const int64_t from_first = std::min(num_cols, width - shift);
      std::copy_n(strips_[0] + r * width + shift, from_first, up_ + r * width);
      std::copy_n(strips_[1] + r * width, num_cols - from_first, up_ + r * width + from_first);
    }
    return up_;
  }

  const MatMulParams& params_;
  const CpuWeight& weight_;
  float* tile_ = nullptr;
  float* up_ = nullptr;
  float* strips_[2] = {nullptr, nullptr};
  float* workspace_ = nullptr;
};

}  // namespace

void Compute(Context& context, const MatMulParams& params) {
  const auto& weight = static_cast<const CpuWeight&>(*params.weight);
  const int64_t num_rows = params.x.num_rows();
  const int64_t in_features = weight.in_features();
  const int64_t max_rows = weight.max_rows();
  const int64_t out_cols = params.gated ? weight.out_features() / 2 : weight.out_features();
  const int64_t num_strips = CeilDiv(out_cols, weight.strip_width());
  const int64_t row_bytes = std::max<int64_t>(1, in_features) * sizeof(float);
  const int64_t chunk_rows = std::max<int64_t>(1, kRowChunkBytes / row_bytes / max_rows) * max_rows;
  const int64_t num_chunks = CeilDiv(num_rows, chunk_rows);
  const double flops = 2.0 * num_rows * in_features * weight.out_features();
  // Items are in chunk-major order. Few rows are divided by strips, so that a core reads the same
  // weights again and again; many rows are divided by rows.
  context.Run(num_chunks * num_strips, 1, flops / weight.gflops_per_core(),
              [&](int64_t begin, int64_t end, Scratch& scratch) {
                TileWorker worker(params, weight, scratch);
                for (int64_t item = begin; item < end; ++item) {
                  const int64_t first = item / num_strips * chunk_rows;
                  const int64_t last = std::min(num_rows, first + chunk_rows);
                  for (int64_t row = first; row < last; row += max_rows) {
                    worker.Compute(row, static_cast<int>(std::min(max_rows, last - row)),
                                   static_cast<int>(item % num_strips));
                  }
                }
              });
}

}  // namespace beamline::cpu
