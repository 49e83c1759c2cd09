// A step that a transformer computes, with the selection from its logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "engine/runahead/device_step.h"
#include "engine/runahead/selector.h"

namespace beamline {

class TransformerStep final : public DeviceStep {
 public:
  // Both must outlive the step. With a split, the transformer is one rank's part.
  TransformerStep(Transformer& transformer, Backend& backend,
                  std::unique_ptr<VocabularySplit> split = nullptr)
      : transformer_(transformer), selector_(backend, std::move(split)) {}

  // As in Selector.
  absl::Status Prepare(std::span<const RowRequest* const> requests,
                       std::span<const BeamSearch> searches) {
    return selector_.Prepare(requests, searches);
  }
  bool IsPrepared(std::span<const RowRequest* const> requests,
                  std::span<const BeamSearch> searches) {
    return selector_.IsPrepared(requests, searches);
  }
  absl::Status Start(const StepBuilder& built, const DeviceEdits& edits,
                     std::span<const RowRequest* const> requests,
                     std::span<const BeamSearch> searches) override {
    const Tensor logits = Compute(transformer_, built, edits);
    const auto more = [this](int64_t first_row) { return transformer_.MoreLogits(first_row); };
    return selector_.Start(logits, more, requests, searches, edits.words);
  }
  // Returns the logits of a step (only the first rows if there are many). For a stage other than
  // the last: what the next stage needs.
  static Tensor Compute(Transformer& transformer, const StepBuilder& built,
                        const DeviceEdits& edits) {
    if (!built.copies().empty()) transformer.CopyBlocks(built.copies());
    if (built.encoder_batch().num_sequences() > 0) transformer.EncodeMemory(built.encoder_batch());
    if (built.step_batch().num_sequences() == 0) return Tensor();
    return transformer.Decode(built.step_batch(), edits);
  }
  bool Done() override { return selector_.Done(); }
  absl::Status Wait() override { return selector_.Wait(); }
  const int32_t* words() const override { return selector_.device_words(); }
  int32_t TokenWord(int32_t request, int32_t draw) const override {
    return selector_.TokenWord(request, draw);
  }
  BeamWords SearchWords(int32_t search) const override { return selector_.SearchWords(search); }
  std::span<const RowResult> Results(size_t first, size_t count) override {
    return selector_.Results(first, count);
  }
  std::span<const int32_t> HostWords(int32_t word, size_t count) const override {
    return selector_.HostInts(word, count);
  }

 private:
  Transformer& transformer_;
  Selector selector_;
};

}  // namespace beamline
