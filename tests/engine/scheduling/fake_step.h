// A DeviceStep that is computed by a function of the test's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/runahead/device_step.h"
#include "tests/engine/scheduling/fake_decoder.h"

namespace beamline {

class FakeStep final : public DeviceStep {
 public:
  // Computes the step: fills `chosen` and `beams`.
  using Compute = std::function<absl::Status(const StepBuilder&, const DeviceEdits&,
                                             std::span<const BeamSearch>, FakeStep&)>;

  explicit FakeStep(Compute compute) : compute_(std::move(compute)) {}

  absl::Status Start(const StepBuilder& built, const DeviceEdits& edits,
                     std::span<const RowRequest* const> requests,
                     std::span<const BeamSearch> searches) override {
    num_rows = built.step_batch().logits_rows.size();
    if (requests.size() != num_rows) return absl::InternalError("logits rows and requests differ");
    beams.clear();
    return compute_(built, edits, searches, *this);
  }
  bool Done() override { return false; }
  absl::Status Wait() override {
    results_.clear();
    for (size_t row = 0; row < num_rows; ++row) {
      const std::span of_row = std::span<const int32_t>(chosen).subspan(row * (1 + kMaxDraws));
      results_.push_back({.ids = of_row.first(1),
                          .values = {&kScore, 1},
                          .raw_values = {&kScore, 1},
                          .sampled_ids = of_row.subspan(1, kMaxDraws)});
    }
    return absl::OkStatus();
  }
  const int32_t* words() const override { return chosen.data(); }
  int32_t TokenWord(int32_t request, int32_t draw) const override {
    return request * (1 + kMaxDraws) + 1 + draw;
  }
  BeamWords SearchWords(int32_t search) const override { return beams[search]; }
  std::span<const RowResult> Results(size_t first, size_t count) override {
    return std::span(results_).subspan(first, count);
  }
  std::span<const int32_t> HostWords(int32_t word, size_t count) const override {
    return std::span(chosen).subspan(word, count);
  }

  // What the device's AdvanceBeams does, with fake choices.
  void AdvanceBeams(const DeviceEdits& edits, std::span<const BeamSearch> searches) {
    for (const BeamSearch& search : searches) {
      int32_t num_live = search.num_rows;
      if (search.scores.empty()) {
        const int32_t* first = edits.words + search.score_word;
        num_live = static_cast<int32_t>(std::count(first, first + search.num_rows, 1));
      }
      const auto draws = std::span<const int32_t>(chosen).subspan(
          search.first_row * size_t{1 + kMaxDraws} + 1, kMaxDraws);
      const auto found = ChooseFakeBeams(draws, num_live, search.width);
      const auto word = static_cast<int32_t>(chosen.size());
      const int32_t width = search.width;
      beams.push_back({word, word + width, word + 2 * width});
      chosen.resize(chosen.size() + 3 * static_cast<size_t>(width));
      for (int32_t beam = 0; beam < width; ++beam) {
        const bool is_found = beam < static_cast<int32_t>(found.size());
        chosen[word + beam] = is_found ? found[beam].parent : std::min(beam, search.num_rows - 1);
        chosen[word + width + beam] = is_found ? found[beam].token : 0;
        chosen[word + 2 * width + beam] = is_found ? 1 : 0;
      }
    }
  }

  // Of each logits row its best candidate, then kMaxDraws draws; then the searches' beams.
  std::vector<int32_t> chosen;
  size_t num_rows = 0;
  std::vector<BeamWords> beams;  // the scores are 1, or 0 for beams that were not found

 private:
  static constexpr float kScore = 0.0f;
  const Compute compute_;
  std::vector<RowResult> results_;
};

}  // namespace beamline
