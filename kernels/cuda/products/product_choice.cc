// The text that describes the choice of a product's kernel.
#include "fmt/format.h"
#include "kernels/cuda/products/product_picker.h"

namespace beamline::cuda {
namespace {

const char* KernelName(ProductKernel kernel) {
  switch (kernel) {
    case ProductKernel::kStreamTiles:
      return "stream tiles";
    case ProductKernel::kStream:
      return "stream";
    case ProductKernel::kRowParts:
      return "row parts";
    case ProductKernel::kFloatParts:
      return "float parts";
    case ProductKernel::kFloatRows:
      return "float rows";
    case ProductKernel::kSkinnyTensorCore:
      return "skinny tensor core";
    case ProductKernel::kSkinny:
      return "skinny";
    case ProductKernel::kCluster:
      return "cluster";
    case ProductKernel::kWgmma:
      return "wgmma";
    case ProductKernel::kLt:
      return "cuBLASLt";
  }
  return "";
}

std::string ReasonText(const ProductChoice& choice) {
  const int64_t rows = choice.num_rows, mib = choice.weight_bytes >> 20;
  switch (choice.reason) {
    case ProductReason::kLargeWeight:
      return fmt::format("{} rows and a weight of {} MiB: reading it takes the time", rows, mib);
    case ProductReason::kNormInside:
      return fmt::format("{} rows, of which every block computes the norm", rows);
    case ProductReason::kSmallWeight:
      return fmt::format("{} rows and a weight whose blocks all run at once", rows);
    case ProductReason::kManyFeatures:
      return fmt::format("{} short rows and several output features for each warp", rows);
    case ProductReason::kFewRows:
      return fmt::format("{} rows: it reads the weight once, and computes all that follows", rows);
    case ProductReason::kFewTiles:
      return fmt::format("{} rows make too few tiles of cuBLASLt's for the GPU", rows);
    case ProductReason::kExactGelu:
      return "it has the exact GELU, which cuBLASLt leaves to a kernel of its own";
    case ProductReason::kManyRows:
      return fmt::format("{} rows are more than the kernels of few rows take", rows);
    case ProductReason::kLtReadsFaster:
      return fmt::format(
          "{} rows and a weight of {} MiB, which it reads faster than the kernels "
          "of few rows",
          rows, mib);
    case ProductReason::kAlignment:
      return "the rows cannot be read by aligned accesses of 16 bytes";
    case ProductReason::kSoftcap:
      return "only the kernel that finishes its products caps values";
    case ProductReason::kInvariant:
      return "it computes a row alike in every batch";
  }
  return "";
}

}  // namespace

ProductChoice::Kind ProductChoice::kind() const {
  return {kernel, reason, heads, norm_apart, dtype, in_features, out_features};
}

std::string ProductChoice::Describe() const {
  std::string text =
      fmt::format("{} in {} of {} x {}: the {} kernel: {}",
                  heads == HeadsPass::kNone ? "product" : "product of heads", beamline::Name(dtype),
                  in_features, out_features, KernelName(kernel), ReasonText(*this));
  if (norm_apart) text += "; the norm is a kernel before it";
  if (heads == HeadsPass::kAfter) text += "; a kernel after it moves the heads";
  if (heads == HeadsPass::kAfterNorms) text += "; kernels after it norm or clip and move the heads";
  return text;
}

}  // namespace beamline::cuda
