#include "engine/loading/make_limits.h"

#include <algorithm>

#include "engine/api/request_limits.h"
#include "engine/decoding/default_checks.h"
#include "engine/scheduling/planner.h"
#include "engine/transformer/transformer.h"

namespace beamline {
namespace {

// Room for a row that verifies many tokens at once.
constexpr int32_t kMinHeadRows = 64;
// The widest beam search asks for twice its width, and for a few more where many tokens end it.
constexpr int32_t kMostCandidates = 2 * kMaxNumSequences + 8;
constexpr int64_t kMostCacheBlocks = int64_t{1} << 26;

int32_t NumCacheBlocks(const ModelOptions& options, const ModelDescription& description,
                       const StepLimits& limits, DType cache_dtype, int64_t default_cache_bytes) {
  const TransformerSpec& spec = description.spec;
  if (!spec.decoder.has_value()) return 0;
  const auto blocks_of = [&](int32_t sequences) {
    return WorstCaseBlocks(spec.encoder.has_value() ? spec.encoder->max_positions : 0, sequences,
                           spec.decoder->max_positions, limits.block_size);
  };
  const int64_t block_bytes =
      Transformer::BlockBytes(spec, cache_dtype, limits.block_size, options.tensor_parallel);
  const int64_t wanted = options.cache_bytes > 0 ? options.cache_bytes / block_bytes
                                                 : std::min(blocks_of(1) * limits.max_sequences,
                                                            default_cache_bytes / block_bytes);
  return static_cast<int32_t>(std::clamp<int64_t>(
      wanted, blocks_of(DefaultSequences(description.generation)), kMostCacheBlocks));
}

}  // namespace

bool ComputesInPieces(const TransformerSpec& spec, const ModelOptions& options) {
  return spec.computes_in_pieces() && options.num_ranks() == 1;
}

StepLimits MakeStepLimits(const ModelOptions& options, const ModelDescription& description,
                          int32_t max_input_tokens, DType cache_dtype,
                          int64_t default_cache_bytes) {
  StepLimits limits;
  limits.max_sequences = std::max(options.max_sequences, DefaultSequences(description.generation));
  limits.max_batch_tokens =
      std::max({options.max_batch_tokens, limits.max_sequences, max_input_tokens});
  if (ComputesInPieces(description.spec, options)) {
    limits.max_batch_tokens = options.max_batch_tokens;
    const bool is_longer = max_input_tokens > limits.max_batch_tokens;
    limits.max_input_tokens = is_longer ? max_input_tokens : 0;
  }
  limits.max_head_rows = std::max(limits.max_sequences, kMinHeadRows);
  limits.max_logits_rows = limits.max_batch_tokens;
  limits.max_candidates = std::min(kMostCandidates, description.spec.vocab_size);
  limits.num_lanes = options.pipeline_parallel;
  limits.num_blocks =
      NumCacheBlocks(options, description, limits, cache_dtype, default_cache_bytes);
  return limits;
}

}  // namespace beamline
