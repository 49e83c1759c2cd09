// The smallest step loop: runs a group over a language model that is a function of the history,
// with the arithmetic that kernels/operators.h documents.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/api/request.h"
#include "engine/decoding/group_decoder.h"
#include "kernels/backend.h"

namespace beamline {

// The logits [vocab_size] after a history.
using ToyModel = std::function<std::vector<float>(std::span<const int32_t> history)>;

std::vector<double> LogSoftmax(std::span<const float> logits);

// scores in place, as TopCandidates edits a row.
void ApplyEdits(const LogitsEdits& edits, std::vector<float>& scores);

struct ToyRun {
  std::vector<GeneratedSequence> sequences;
  std::map<int32_t, GenerateDelta> streamed;  // by sequence: all deltas joined
  std::vector<std::string> first_texts;       // of sequence 0, after each step
  int32_t num_steps = 0;
  size_t most_rows = 0;
  size_t most_tokens = 0;  // of one row at one step, prompt and proposals included
};

struct ToyRunOptions {
  int32_t stop_after_steps = -1;  // >= 0: Stop(kDeadline) then
};

ToyRun RunGroup(GroupDecoder& decoder, const ToyModel& model, TokenIds prompt,
                const ToyRunOptions& options = {});

// Pseudo-random logits that depend on the last tokens of the history and on the seed.
ToyModel RandomModel(uint64_t seed, int32_t vocab_size, int32_t order = 3, float spread = 2.0f);

}  // namespace beamline
