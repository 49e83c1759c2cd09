// How the answer of an encode request is made of a step's hidden states: rows are read, pass a head
// of the model, and become vectors or what may stand in place of masks. A job owns its Encoding,
// which intake makes; the step loop knows of none of this (finish_step.h carries it out).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/encoding/finishers.h"
#include "engine/encoding/mask_head.h"
#include "engine/encoding/model_heads.h"
#include "engine/encoding/row_reader.h"

namespace beamline {

// Inputs of one job that a step has computed, and the rows that were read of them.
struct FinishedRows {
  std::span<const float> values;  // [num_rows, width]
  int32_t width = 0;
  std::span<const int32_t> num_rows;  // of each input
  size_t first_input = 0;             // of the job
};

// Writes the answers of a job's inputs. One thread.
class AnswerMaker {
 public:
  virtual ~AnswerMaker() = default;
  // False: what a head computed for them is NaN or infinite. `inputs`: of the job, all of them.
  virtual absl::StatusOr<bool> Make(const FinishedRows& rows, const ModelHeads& heads,
                                    std::span<Embedding> inputs) = 0;
  // What masks were filled with, of all inputs; to be called once, at the end. Empty: none were.
  virtual std::vector<std::vector<FilledMask>> TakeMasks() { return {}; }
};

// The rows of an input, after the finishers in their order, are its vectors.
class VectorAnswers final : public AnswerMaker {
 public:
  using Finishers = std::vector<std::unique_ptr<const Finisher>>;

  explicit VectorAnswers(Finishers finishers) : finishers_(std::move(finishers)) {}
  absl::StatusOr<bool> Make(const FinishedRows& rows, const ModelHeads& heads,
                            std::span<Embedding> inputs) override;
  const Finishers& finishers() const { return finishers_; }

 private:
  const Finishers finishers_;
};

// Each row is a mask's, of which the model's MaskHead tells the likeliest tokens.
class MaskAnswers final : public AnswerMaker {
 public:
  // `positions`: of each input of the job, as its MaskedRows has them. At most `count` tokens for
  // each mask. `targets`: the only ids that count, ascending; empty: all.
  MaskAnswers(std::vector<std::vector<int32_t>> positions, int32_t count, TokenIds targets);
  absl::StatusOr<bool> Make(const FinishedRows& rows, const ModelHeads& heads,
                            std::span<Embedding> inputs) override;
  std::vector<std::vector<FilledMask>> TakeMasks() override { return std::move(filled_); }

 private:
  std::vector<std::vector<FilledMask>> filled_;  // of each input; without tokens at first
  const int32_t count_;
  const TokenIds targets_;
};

// The likeliest tokens by their logits, at most `count`, of equal ones the smaller id first. All
// ids count or, where there are any, the targets alone. Probabilities are of all ids.
std::vector<std::pair<int32_t, float>> Likeliest(std::span<const float> logits, int32_t count,
                                                 const TokenIds& targets);

struct Encoding {
  std::unique_ptr<const RowReader> reader;
  HeadKind head = HeadKind::kNone;
  std::unique_ptr<AnswerMaker> answers;
};

// Scores of a classifier's classes, of each row.
Encoding ClassEncoding(std::unique_ptr<const RowReader> reader, ScoreFunction function);

}  // namespace beamline
