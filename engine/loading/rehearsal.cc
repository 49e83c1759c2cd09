#include "engine/loading/rehearsal.h"

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "base/math.h"
#include "base/status.h"
#include "engine/api/request.h"
#include "engine/loading/synthetic_steps.h"
#include "engine/transformer/decode_bucket.h"
#include "engine/transformer/long_input.h"
#include "engine/transformer/spec.h"
#include "kernels/cpu/populate_pages.h"

namespace beamline {
namespace {

// The first of the largest steps takes the workspace of an operator in pieces, the second as one.
constexpr int kNumLargest = 2;
// Encoder inputs that come alone up to this length are recorded, each length by itself.
constexpr int32_t kMostShortTokens = 64;
// Decode steps are recorded up to so many rows, of contexts of up to so many blocks.
constexpr int32_t kMostRecordedRows = 64;
constexpr int32_t kMostRecordedBlocks = 32;
// A recording is made of the second step of a shape.
constexpr int kStepsToRecord = 2;
// For the kernels that prefills have and decode steps do not.
constexpr int32_t kSmallPrefill = 32;

// Prefills and encoder batches come in any size; devices choose algorithms for these.
int32_t NextSize(int32_t tokens) { return BucketRows(tokens + 1); }
// Decode steps are padded. These are the smallest of each shape, so that every shape is met that
// limits and cache have room for.
int32_t NextRows(int32_t rows) { return BucketRows(rows) + 1; }
int32_t NextBlocks(int32_t blocks) { return BucketBlocks(blocks) + 1; }

class UsualSteps {
 public:
  UsualSteps(const StepLimits& limits, Transformer& transformer, Backend& backend,
             std::chrono::nanoseconds time, const std::atomic<bool>* stop)
      : limits_(limits),
        spec_(transformer.spec()),
        steps_(limits, /*num_candidates=*/1, transformer, backend),
        begin_(Clock::now()),
        end_(begin_ + time),
        stop_(stop) {}

  absl::StatusOr<WarmUpReport> Run() {
    const bool decoder_alone = !spec_.encoder.has_value();
    if (!decoder_alone) ShortInputs();
    if (spec_.decoder.has_value()) DecodeSteps();
    if (decoder_alone) Prefill(kSmallPrefill);
    // Pieces of prompts have any size, beside as many sequences as decode.
    const int32_t first = decoder_alone ? kSmallPrefill : kMostShortTokens;
    for (int32_t tokens = NextSize(first); tokens <= limits_.max_batch_tokens;
         tokens = NextSize(tokens)) {
      if (decoder_alone) {
        Prefill(tokens);
      } else {
        Encode(tokens);
      }
    }
    BEAMLINE_RETURN_IF_ERROR(device_status_);
    report_.duration = Clock::now() - begin_;
    return report_;
  }

 private:
  void Do(absl::FunctionRef<absl::Status()> step) {
    const bool over = Clock::now() >= end_ || (stop_ != nullptr && *stop_);
    if (device_status_.ok() && over) report_.complete = false;
    if (!device_status_.ok() || !report_.complete) return;
    device_status_ = step();
    ++report_.num_steps;
  }
  void Encode(int32_t num_tokens) {
    Do([&] { return steps_.Encode(num_tokens); });
  }
  void Prefill(int32_t num_tokens) {
    Do([&] { return steps_.Prefill(num_tokens, /*num_logits=*/1); });
  }

  void ShortInputs() {
    const int32_t longest =
        std::min({kMostShortTokens, spec_.encoder->max_positions, limits_.max_batch_tokens});
    for (int32_t tokens = 1; tokens <= longest; ++tokens) {
      for (int time = 0; time < kStepsToRecord; ++time) Encode(tokens);
    }
  }

  void DecodeSteps() {
    DecodeSteps(/*num_blocks=*/1, kMostDecodeRows, /*times=*/1);
    const int32_t most = std::min(NumBlocks(spec_.decoder->max_positions), kMostRecordedBlocks);
    for (int32_t blocks = 1; blocks <= most; blocks = NextBlocks(blocks)) {
      DecodeSteps(blocks, kMostRecordedRows, kStepsToRecord);
    }
  }

  // Of every size up to `most_rows`.
  void DecodeSteps(int32_t num_blocks, int32_t most_rows, int times) {
    if (spec_.encoder.has_value()) ReadInput(num_blocks);
    most_rows = std::min(most_rows, steps_.MostRows(num_blocks));
    for (int32_t rows = 1; rows <= most_rows; rows = NextRows(rows)) {
      for (int time = 0; time < times; ++time) {
        Do([&] { return steps_.Decode(rows, num_blocks); });
      }
    }
  }

  // The decode steps after this read an input of so many blocks, or of the most there can be.
  void ReadInput(int32_t num_blocks) {
    num_blocks = std::min(num_blocks, NumBlocks(spec_.encoder->max_positions));
    if (num_blocks == input_blocks_) return;
    input_blocks_ = num_blocks;
    Encode((num_blocks - 1) * limits_.block_size + 1);
  }

  int32_t NumBlocks(int32_t positions) const { return CeilDiv(positions, limits_.block_size); }

  const StepLimits limits_;
  const TransformerSpec& spec_;
  SyntheticSteps steps_;
  int32_t input_blocks_ = 0;  // of the input that decode steps read
  const Clock::time_point begin_, end_;
  const std::atomic<bool>* const stop_;
  absl::Status device_status_;
  WarmUpReport report_;
};

}  // namespace

absl::Status RehearseLargest(const StepLimits& limits, Transformer& transformer, Backend& backend) {
  SyntheticSteps steps(limits, limits.max_candidates, transformer, backend);
  for (int i = 0; i < kNumLargest; ++i) {
    if (transformer.spec().encoder.has_value()) {
      BEAMLINE_RETURN_IF_ERROR(steps.Encode(limits.max_batch_tokens));
    }
    if (transformer.spec().decoder.has_value()) {
      BEAMLINE_RETURN_IF_ERROR(steps.Prefill(limits.max_batch_tokens, limits.max_logits_rows));
    }
    if (transformer.long_input() != nullptr) BEAMLINE_RETURN_IF_ERROR(steps.EncodeLong());
  }
  return absl::OkStatus();
}

absl::StatusOr<WarmUpReport> RehearseUsual(const StepLimits& limits, Transformer& transformer,
                                           Backend& backend, std::chrono::nanoseconds time,
                                           const std::atomic<bool>* stop) {
  if (!backend.FreeMemory().has_value()) {  // its memory is the host's
    for (const auto& buffer : transformer.cache()) {
      cpu::PopulatePages(buffer->data(), buffer->size(), stop);
    }
  }
  return UsualSteps(limits, transformer, backend, time, stop).Run();
}

}  // namespace beamline
