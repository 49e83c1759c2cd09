#include "engine/loading/make_limits.h"

#include <algorithm>
#include <limits>

#include "engine/api/request_limits.h"
#include "engine/decoding/default_checks.h"
#include "engine/scheduling/planner.h"
#include "engine/transformer/transformer.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// Room for a row that verifies many tokens at once.
constexpr int32_t kMinHeadRows = 64;
// Tokens whose logits a step computes, of all requests together that ask for those of given tokens.
constexpr int32_t kMostLogitsRows = 4096;
// The widest beam search asks for twice its width, and for a few more where many tokens end it.
constexpr int32_t kMostCandidates = 2 * kMaxNumSequences + 8;
constexpr int64_t kMostCacheBlocks = int64_t{1} << 26;

// Of a request with `sequences`, none longer than `length`.
int64_t BlocksOf(const TransformerSpec& spec, int32_t sequences, int32_t length,
                 int32_t block_size) {
  const int32_t memory = spec.encoder.has_value() ? spec.encoder->max_positions : 0;
  return WorstCaseBlocks(std::min(memory, length), sequences,
                         std::min(spec.decoder->max_positions, length), block_size);
}

int64_t BlockBytes(const ModelOptions& options, const TransformerSpec& spec, DType cache_dtype) {
  return Transformer::BlockBytes(spec, cache_dtype, StepLimits().block_size,
                                 options.tensor_parallel);
}

int32_t NumCacheBlocks(const ModelOptions& options, const ModelDescription& description,
                       const StepLimits& limits, DType cache_dtype, const CacheRoom& room) {
  const TransformerSpec& spec = description.spec;
  if (!spec.decoder.has_value()) return 0;
  const auto blocks_of = [&](int32_t sequences) {
    return BlocksOf(spec, sequences, spec.decoder->max_positions, limits.block_size);
  };
  const int64_t block_bytes = BlockBytes(options, spec, cache_dtype);
  const int64_t wanted = options.cache_bytes > 0 ? options.cache_bytes / block_bytes
                                                 : std::min(blocks_of(1) * limits.max_sequences,
                                                            room.usual / block_bytes);
  return static_cast<int32_t>(std::clamp<int64_t>(
      wanted, blocks_of(DefaultSequences(description.generation)), kMostCacheBlocks));
}

}  // namespace

bool ComputesInPieces(const TransformerSpec& spec, const ModelOptions& options) {
  return spec.computes_in_pieces() && options.num_ranks() == 1;
}

StepLimits MakeStepLimits(const ModelOptions& options, const ModelDescription& description,
                          int32_t max_input_tokens, DType cache_dtype, const CacheRoom& room) {
  const TransformerSpec& spec = description.spec;
  const bool in_pieces = !spec.encoder.has_value() || ComputesInPieces(spec, options);
  const int32_t whole_input = in_pieces ? 1 : max_input_tokens;
  const int32_t default_sequences = DefaultSequences(description.generation);
  StepLimits limits;
  limits.max_batch_tokens = std::max({options.max_batch_tokens, whole_input, default_sequences});
  limits.max_sequences = std::min(
      std::max(options.max_sequences, default_sequences),
      spec.decoder.has_value() ? limits.max_batch_tokens : std::numeric_limits<int32_t>::max());
  if (ComputesInPieces(spec, options) && max_input_tokens > limits.max_batch_tokens) {
    limits.max_input_tokens = max_input_tokens;
  }
  limits.max_head_rows = std::max(limits.max_sequences, kMinHeadRows);
  limits.max_logits_rows =
      std::min(limits.max_batch_tokens, std::max(limits.max_sequences, kMostLogitsRows));
  limits.max_candidates = std::min(kMostCandidates, spec.vocab_size);
  limits.num_lanes = options.pipeline_parallel;
  limits.num_blocks = NumCacheBlocks(options, description, limits, cache_dtype, room);
  return limits;
}

int32_t LongestCached(const ModelOptions& options, const ModelDescription& description,
                      DType cache_dtype, const CacheRoom& room) {
  const TransformerSpec& spec = description.spec;
  if (!spec.decoder.has_value()) return 0;
  const int64_t bytes = options.cache_bytes > 0 ? options.cache_bytes : room.most;
  const int64_t blocks = std::min(bytes / BlockBytes(options, spec, cache_dtype), kMostCacheBlocks);
  const int32_t sequences = DefaultSequences(description.generation);
  int32_t fits = 0, beyond = spec.decoder->max_positions + 1;
  while (beyond - fits > 1) {
    const int32_t length = fits + (beyond - fits) / 2;
    const bool holds = BlocksOf(spec, sequences, length, StepLimits().block_size) <= blocks;
    (holds ? fits : beyond) = length;
  }
  return fits;
}

std::vector<std::string> LimitNotes(const ModelOptions& options, const StepLimits& limits) {
  std::vector<std::string> notes;
  if (limits.max_batch_tokens > options.max_batch_tokens) {
    notes.push_back(fmt::format(
        "a step has up to {} tokens, more than max_batch_tokens ({}): the longest input, or the "
        "sequences of the model's own decoding, cannot be divided",
        limits.max_batch_tokens, options.max_batch_tokens));
  }
  if (limits.max_sequences < options.max_sequences) {
    notes.push_back(fmt::format(
        "at most {} sequences run at once, fewer than max_sequences ({}): a step has a token of "
        "each, and max_batch_tokens is {}",
        limits.max_sequences, options.max_sequences, options.max_batch_tokens));
  }
  if (limits.max_sequences > options.max_sequences) {
    notes.push_back(fmt::format(
        "up to {} sequences run at once, more than max_sequences ({}): the model's own decoding "
        "has as many",
        limits.max_sequences, options.max_sequences));
  }
  return notes;
}

}  // namespace beamline
