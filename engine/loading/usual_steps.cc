#include "engine/loading/usual_steps.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/math.h"
#include "base/status.h"
#include "engine/transformer/decode_bucket.h"
#include "engine/transformer/spec.h"

namespace beamline {
namespace {

// Encoder inputs that come alone up to this length are recorded, each length by itself.
constexpr int32_t kMostShortTokens = 64;
// Decode steps are recorded up to so many rows, of contexts of up to so many blocks.
constexpr int32_t kMostRecordedRows = 64;
constexpr int32_t kMostRecordedBlocks = 32;
// A recording is made of the second step of a shape.
constexpr int kStepsToRecord = 2;
// For the kernels that prefills have and decode steps do not.
constexpr int32_t kSmallPrefill = 32;

int32_t NumBlocks(int32_t positions, int32_t block_size) { return CeilDiv(positions, block_size); }

class UsualSteps {
 public:
  UsualSteps(const StepLimits& limits, Transformer& transformer, Backend& backend,
             std::chrono::nanoseconds time, const std::atomic<bool>* stop)
      : limits_(limits),
        transformer_(transformer),
        spec_(transformer.spec()),
        backend_(backend),
        begin_(Clock::now()),
        end_(begin_ + time),
        stop_(stop) {}

  absl::StatusOr<WarmUpReport> Run() {
    const bool decoder_alone = !spec_.encoder.has_value();
    if (!decoder_alone) RunShortInputs();
    if (spec_.decoder.has_value()) BEAMLINE_RETURN_IF_ERROR(RunDecodeSteps());
    // Decode steps have measured the smaller sizes of a decoder alone.
    if (decoder_alone) RunPrefill(kSmallPrefill);
    const int32_t first = decoder_alone ? kMostDecodeRows : kMostShortTokens;
    for (int32_t tokens = NextBucket(first); tokens <= limits_.max_batch_tokens;
         tokens = NextBucket(tokens)) {
      if (decoder_alone) {
        RunPrefill(tokens);
      } else {
        RunEncoder(tokens);
      }
    }
    BEAMLINE_RETURN_IF_ERROR(device_status_);
    report_.duration = Clock::now() - begin_;
    return report_;
  }

 private:
  static int32_t NextBucket(int32_t rows) { return BucketRows(rows + 1); }
  int64_t NumSlots() const { return int64_t{limits_.num_blocks} * limits_.block_size; }

  void Do(absl::FunctionRef<void()> step) {
    const bool over = Clock::now() >= end_ || (stop_ != nullptr && *stop_);
    if (device_status_.ok() && over) report_.complete = false;
    if (!device_status_.ok() || !report_.complete) return;
    step();
    device_status_ = backend_.Synchronize();
    ++report_.num_steps;
  }

  void RunShortInputs() {
    const int32_t longest =
        std::min({kMostShortTokens, spec_.encoder->max_positions, limits_.max_batch_tokens});
    for (int32_t tokens = 1; tokens <= longest; ++tokens) {
      for (int time = 0; time < kStepsToRecord; ++time) RunEncoder(tokens);
    }
  }

  absl::Status RunDecodeSteps() {
    const auto most = static_cast<int32_t>(
        std::min<int64_t>({kMostDecodeRows, limits_.max_decode_rows(), NumSlots()}));
    BEAMLINE_ASSIGN_OR_RETURN(choices_, backend_.Allocate(size_t{6} * most * sizeof(float)));
    for (int32_t rows = 1; rows <= most; rows = NextBucket(rows)) RunDecode(rows, 1);
    const int32_t longest = NumBlocks(spec_.decoder->max_positions, limits_.block_size);
    for (int32_t blocks = 1; blocks <= std::min(longest, kMostRecordedBlocks); blocks *= 2) {
      for (int32_t rows = 1; rows <= std::min(most, kMostRecordedRows); rows = NextBucket(rows)) {
        for (int time = 0; time < kStepsToRecord; ++time) RunDecode(rows, blocks);
      }
    }
    return device_status_;
  }

  // Inputs as long as can be.
  void RunEncoder(int32_t num_tokens) {
    EncoderBatch batch;
    batch.offsets = {0};
    int64_t most = int64_t{limits_.max_sequences} * spec_.encoder->max_positions;
    if (spec_.decoder.has_value()) most = std::min(most, NumSlots());
    num_tokens = static_cast<int32_t>(std::min<int64_t>(num_tokens, most));
    while (batch.offsets.back() < num_tokens) {
      batch.offsets.push_back(
          std::min(batch.offsets.back() + spec_.encoder->max_positions, num_tokens));
    }
    batch.token_ids.resize(num_tokens, 0);
    if (!spec_.decoder.has_value()) {
      return Do([&] {
        transformer_.Pool(batch, transformer_.Encode(batch), Pooling::kMean, /*normalize=*/true);
      });
    }
    batch.slots.resize(num_tokens);
    std::iota(batch.slots.begin(), batch.slots.end(), 0);
    Do([&] { transformer_.EncodeMemory(batch); });
  }

  // Prompts as long as can be, as many as the cache holds.
  void RunPrefill(int32_t num_tokens) {
    StepBatch batch;
    batch.query_offsets = {0};
    const int32_t longest = std::min(spec_.decoder->max_positions, num_tokens);
    const int32_t blocks = batch.max_blocks = NumBlocks(longest, limits_.block_size);
    const int32_t most = std::min(limits_.max_sequences, limits_.num_blocks / blocks);
    for (int32_t s = 0; s < most && batch.query_offsets.back() < num_tokens; ++s) {
      const int32_t length = std::min(longest, num_tokens - batch.query_offsets.back());
      for (int32_t i = 0; i < length; ++i) {
        batch.positions.push_back(i);
        batch.slots.push_back(s * blocks * limits_.block_size + i);
      }
      for (int32_t b = 0; b < blocks; ++b) batch.block_tables.push_back(s * blocks + b);
      batch.context_lengths.push_back(length);
      batch.query_offsets.push_back(batch.query_offsets.back() + length);
      batch.logits_rows.push_back(batch.query_offsets.back() - 1);
    }
    batch.token_ids.resize(batch.positions.size(), 0);
    if (batch.num_sequences() > 0) Do([&] { transformer_.Decode(batch); });
  }

  // Rows in their first position, with tables as wide as those of contexts of so many blocks.
  void RunDecode(int32_t num_rows, int32_t num_blocks) {
    StepBatch batch;
    batch.token_ids.resize(num_rows, 0);
    batch.positions.resize(num_rows, 0);
    batch.slots.resize(num_rows);
    std::iota(batch.slots.begin(), batch.slots.end(), 0);
    batch.query_offsets.resize(num_rows + 1);
    std::iota(batch.query_offsets.begin(), batch.query_offsets.end(), 0);
    batch.context_lengths.resize(num_rows, 1);
    batch.logits_rows = batch.slots;
    batch.max_blocks = num_blocks;
    // The block that the row writes to: its first position is written in this step.
    for (int32_t row = 0; row < num_rows; ++row) {
      batch.block_tables.insert(batch.block_tables.end(), num_blocks, row / limits_.block_size);
    }
    if (spec_.encoder.has_value()) {
      batch.memory_lengths = batch.context_lengths;
      batch.max_memory_blocks =
          std::min(num_blocks, NumBlocks(spec_.encoder->max_positions, limits_.block_size));
      for (int32_t row = 0; row < num_rows; ++row) {
        batch.memory_tables.insert(batch.memory_tables.end(), batch.max_memory_blocks,
                                   row / limits_.block_size);
      }
    }
    Do([&] { Choose(transformer_.Decode(batch)); });
  }

  // The best token of each row, and a draw.
  void Choose(const Tensor& logits) {
    const int64_t rows = logits.num_rows();
    const std::vector<int32_t> counts(rows, 1);
    auto* const words = static_cast<float*>(choices_->data());
    TopCandidatesParams best;
    best.logits = logits;
    best.counts = counts;
    best.max_count = 1;
    best.values = words;
    best.raw_values = words + rows;
    best.log_normalizers = words + 2 * rows;
    best.ids = reinterpret_cast<int32_t*>(words + 3 * rows);
    backend_.TopCandidates(best);
    std::vector<SampleRow> draws(rows);
    for (int32_t row = 0; row < rows; ++row) draws[row].row = row;
    SampleParams sample;
    sample.logits = logits;
    sample.rows = draws;
    sample.values = words + 4 * rows;
    sample.ids = reinterpret_cast<int32_t*>(words + 5 * rows);
    backend_.Sample(sample);
  }

  const StepLimits limits_;
  Transformer& transformer_;
  const TransformerSpec& spec_;
  Backend& backend_;
  const Clock::time_point begin_, end_;
  const std::atomic<bool>* const stop_;
  std::unique_ptr<Buffer> choices_;  // six words for each row of a decode step
  absl::Status device_status_;
  WarmUpReport report_;
};

}  // namespace

absl::StatusOr<WarmUpReport> RunUsualSteps(const StepLimits& limits, Transformer& transformer,
                                           Backend& backend, std::chrono::nanoseconds time,
                                           const std::atomic<bool>* stop) {
  return UsualSteps(limits, transformer, backend, time, stop).Run();
}

}  // namespace beamline
