// The choice of a product's kernel, with its reason. Pure: it asks no device. The limits of the
// kernels are defined here, and the kernels include them.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "kernels/backend.h"
#include "kernels/cuda/products/cluster_tiles.h"
#include "kernels/cuda/products/stream_split.h"
#include "kernels/cuda/products/wgmma_tiles.h"

namespace beamline::cuda {

enum class ProductKernel : uint8_t {
  kStreamTiles,       // stream_tiles_product.cu: 2 to 8 rows, a large 16-bit weight, Hopper
  kStream,            // stream_product.cu: one row, a large 16-bit weight, Hopper
  kRowParts,          // row_parts_product.cu: 1 to 4 rows after a norm, 16 bits
  kFloatParts,        // float_parts_product.cu: 1 to 4 rows, a small weight, float32
  kFloatRows,         // float_rows_product.cu: 1 to 4 short rows, many features, float32
  kSkinnyTensorCore,  // skinny_tensor_core.cu: up to 16 rows, 16 bits
  kSkinny,            // skinny_matmul.cu: up to 8 rows, any type
  kCluster,           // cluster_product.cu: rows that do not fill the GPU, 16 bits, Hopper
  kWgmma,             // wgmma_product.cu: many rows with the exact GELU, 16 bits, Hopper
  kLt                 // cuBLASLt, and a finishing pass for what its epilogue leaves out
};

enum class ProductReason : uint8_t {
  kLargeWeight,    // bound by reading the weight
  kNormInside,     // few rows after a norm, which every block computes for itself
  kSmallWeight,    // all blocks of the weight run at once
  kManyFeatures,   // short rows; each warp takes many features
  kFewRows,        // one kernel reads the weight once and computes the epilogue with it
  kFewTiles,       // too few rows to fill the GPU with cuBLASLt's tiles
  kExactGelu,      // cuBLASLt's epilogue only has the tanh form
  kManyRows,       // more rows than the kernels of few rows take
  kLtReadsFaster,  // few rows and a large weight, which cuBLASLt reads faster
  kAlignment,      // the rows cannot be read by aligned accesses of 16 bytes
  kSoftcap,        // only the finishing pass caps
  kInvariant       // a row's sums must not depend on the other rows
};

// The kernel that moves the heads of a ProjectHeads to their destinations.
enum class HeadsPass : uint8_t {
  kNone,       // a MatMul: there are no heads
  kInside,     // the product's kernel
  kAfter,      // a kernel after it, because the product's kernel cannot
  kAfterNorms  // the same, because norms and clips need a whole head
};

// The device that a product is computed on.
struct ProductDevice {
  int num_multiprocessors = 0;
  int64_t shared_bytes = 0;      // at most, of a block
  bool has_wgmma = false;        // Device::has_wgmma
  bool batch_invariant = false;  // Device::batch_invariant
};

// A weight's layout on the device (CudaWeight).
struct WeightLayout {
  DType dtype = DType::kFloat32;
  int64_t in_features = 0, out_features = 0;
  int64_t row_stride = 0;   // elements between rows
  int64_t padded_rows = 0;  // including the rows of zeros
};

struct ProductChoice {
  ProductKernel kernel = ProductKernel::kLt;
  ProductReason reason = ProductReason::kManyRows;
  HeadsPass heads = HeadsPass::kNone;
  bool norm_apart = false;     // the input's norm is a separate kernel before the product
  int units_per_block = 0;     // of kFloatParts: output features of a block
  int tiles_per_block = 0;     // of kRowParts: tiles of kPartsTileFeatures
  ClusterTiles cluster_tiles;  // of kCluster
  WgmmaTiles wgmma_tiles = WgmmaTiles::kNone;  // of kWgmma
  // The operands that the choice was made from.
  DType dtype = DType::kFloat32;
  int64_t num_rows = 0, in_features = 0, out_features = 0;
  int64_t weight_bytes = 0;

  // Equal for choices that differ only in their numbers of rows, blocks and tiles.
  using Kind = std::tuple<ProductKernel, ProductReason, HeadsPass, bool, DType, int64_t, int64_t>;
  Kind kind() const;
  // "product in bfloat16 of 4096 x 14336: the stream tiles kernel: ...", for a log.
  std::string Describe() const;
};

inline constexpr int64_t kMostSkinnyRows = 8;             // of kSkinny
inline constexpr int64_t kMostTensorCoreSkinnyRows = 16;  // of kSkinnyTensorCore

// Limits of kRowParts, and the size of its tiles.
inline constexpr int kMostPartsRows = 4;
inline constexpr int kMostPartsColumns = 1024;
inline constexpr int kPartsTileFeatures = 16;
inline constexpr int kMostPartsTiles = 2;  // of a block, for more than one row

// Limits of kFloatParts: rows of at most kShort columns, or of at most kLong without a norm.
inline constexpr int kMostFloatPartsRows = 4;
inline constexpr int kShortFloatPartsColumns = 512;
inline constexpr int kLongFloatPartsColumns = 2048;
// The columns of a norm are whole warps' columns.
inline constexpr int kFloatPartsNormStep = 128;

// Limits of kFloatRows. Its blocks all run at once.
inline constexpr int kMostFloatRowsRows = 4;
inline constexpr int kMostFloatRowsColumns = 512;
inline constexpr int kFloatRowsWarps = 8;
inline constexpr int kFloatRowsBlocksPerSm = 2;

// Limits of kernels that normalise the rows while they load them, except kRowParts and kFloatParts.
inline constexpr int kNormingWarps = 16;  // of a block
// With more blocks than multiprocessors, blocks that normalise one after another take longer than a
// separate kernel for the norm.
inline constexpr int kMostNormingBlocks = 1;  // per multiprocessor
inline constexpr int kMostNormedColumns = 512;

// Shared memory of a block of kStream: its ring, and the rest besides ring and row.
inline constexpr int64_t kStreamRingBytes = int64_t{160} << 10;
inline constexpr int64_t kStreamStaticBytes = int64_t{2} << 10;

// `weight` is the layout of params.weight, whose device need not exist.
ProductChoice PickProduct(const MatMulParams& params, const WeightLayout& weight,
                          const ProductDevice& device);
ProductChoice PickProduct(const ProjectHeadsParams& params, const WeightLayout& weight,
                          const ProductDevice& device);

// The product of a ProjectHeads into its workspace. A later kernel moves the heads to their
// destinations.
MatMulParams ProductOfHeads(const ProjectHeadsParams& params);

// Whether StreamTilesProduct can compute it with a weight whose columns are multiples of
// `step_columns`.
bool FitsStreamTiles(const MatMulParams& params, int64_t in_features, int step_columns,
                     StreamSplit split);

// Whether ClusterProduct can compute it, apart from its tiles.
bool FitsCluster(const MatMulParams& params);

// Whether cuBLASLt may write to y itself. Otherwise it writes to scratch memory, and the finishing
// pass writes y.
bool IsLtInPlace(const MatMulParams& params, const WeightLayout& weight);

}  // namespace beamline::cuda
