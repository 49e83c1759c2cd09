// A checkpoint on the test device (test_device.h), driven sequence by sequence as a step loop does.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/models/models.h"
#include "engine/transformer/transformer.h"
#include "kernels/backend.h"

namespace beamline {

struct Matrix {
  int64_t width = 0;
  std::vector<float> values;

  int64_t num_rows() const { return static_cast<int64_t>(values.size()) / width; }
  std::span<const float> row(int64_t i) const {
    return std::span(values).subspan(static_cast<size_t>(i * width), static_cast<size_t>(width));
  }
};

// What a sequence of a decoder consists of; blocks are taken as it grows.
struct RunnerSequence {
  TokenIds source;  // encoder-decoder models
  TokenIds tokens;
  int32_t num_computed = 0;
  std::vector<int32_t> blocks, memory_blocks;
  Matrix logits;  // of every computed token
};

class ModelRunner {
 public:
  // Blocks are handed out in an order shuffled by a fresh seed, which is printed. Several ranks as
  // in test_device.h, and stages of so many ranks each.
  static absl::StatusOr<std::unique_ptr<ModelRunner>> Open(
      const std::string& folder, const Precision& precision = DType::kFloat32, int num_ranks = 1,
      int num_stages = 1);

  // The encoder over `sequences` in one batch, packed in this order.
  Matrix Encode(std::span<const TokenIds> sequences, std::span<const TokenIds> type_ids = {});
  // The same pooled and normalised as the model says, [num_sequences, hidden_size].
  Matrix Embed(std::span<const TokenIds> sequences);
  Matrix EncodeMemory(std::span<RunnerSequence> sequences);
  // Computes up to `max_tokens` more tokens of each unfinished sequence in one step and appends
  // their logits; with `last_only` those of each chunk's last token alone. False: nothing was left.
  bool Step(std::span<RunnerSequence> sequences, int32_t max_tokens, bool last_only = false);
  // Copies every block of `sequence` and lets it continue on the copies.
  void MoveBlocks(RunnerSequence& sequence);

  // How much a value may depend on its batch (test_device.h).
  float BatchTolerance(float otherwise) const;
  const ModelDescription& description() const { return description_; }
  Transformer& transformer() { return *transformer_; }

 private:
  ModelRunner();

  absl::Status MakeTransformer(const Checkpoint& checkpoint, const Precision& precision,
                               int num_ranks, int num_stages);
  EncoderBatch Pack(std::span<const TokenIds> sequences, std::span<const TokenIds> type_ids) const;
  Matrix Fetch(const Tensor& tensor);
  void Grow(std::vector<int32_t>& blocks, int64_t num_tokens);
  int32_t Slot(const std::vector<int32_t>& blocks, int32_t position) const;

  std::mt19937 random_;
  StepLimits limits_;
  ModelDescription description_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Transformer> transformer_;
  std::vector<int32_t> free_blocks_;
};

}  // namespace beamline
