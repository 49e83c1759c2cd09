// Advances the sequences of one request: from the scores of a step to the next step's tokens, to
// text, and to finished hypotheses. Knows nothing of caches, batches or devices. The step loop asks
// each group what it needs for its rows and passes it the backend's results.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/api/request.h"
#include "engine/decoding/resolved_decoding.h"
#include "engine/decoding/speculation.h"
#include "engine/text/tokenizer.h"
#include "kernels/backend.h"

namespace beamline {

// A token that the device has chosen but the host has not read yet.
inline constexpr int32_t kUnknownToken = -1;

// What one live row needs from its logits.
struct RowRequest {
  const LogitsEdits* edits = nullptr;  // null: none; stays valid until Advance
  bool normalize_first = false;        // as TopCandidatesParams
  bool renormalize = false;            // apply log-softmax again after the edits
  int32_t num_candidates = 1;          // number of best tokens to return, 1 .. vocab_size
  std::vector<SampleRow> samples;      // samples to draw; the step loop fills `row`
};

// A group whose beams the backend itself may choose, in the order of TokenChoice.
struct BeamRequest {
  int32_t width = 0;
  std::span<const float> scores;     // of the live rows, [rows]
  std::span<const int32_t> end_ids;  // tokens that end a hypothesis
  bool renormalize = false;          // as its rows' RowRequest
};

// The backend's results for one row.
struct RowResult {
  std::span<const int32_t> ids;       // [num_candidates], best first
  std::span<const float> values;      // [num_candidates], edited scores
  std::span<const float> raw_values;  // [num_candidates], the model's own logits
  float log_normalizer = 0.0f;        // raw_value - log_normalizer is the model's log-probability
  std::span<const int32_t> sampled_ids;   // [samples.size()]
  std::span<const float> sampled_values;  // [samples.size()], edited scores of the samples
};

// One live row of the next step. `parent` is the row of this step that it extends: several rows may
// share a parent, and some parents have none. `token` is the token that it appends.
struct Continuation {
  int32_t parent = 0;
  int32_t token = 0;
  // Index of the matching assumed row; -1: it was not assumed.
  int32_t assumed = -1;
  // Number of the parent's last tokens that this row drops: rejected draft tokens, or scored
  // tokens.
  int32_t num_dropped = 0;
  // Further tokens after `token`, drafted or given. The next step computes all of them, and the row
  // requests the logits after each.
  TokenIds proposals = {};
};

// A row of the next step, named before the results of the current step are read.
struct AssumedRow {
  // How its token is chosen.
  enum class Choice : uint8_t { kBestCandidate, kDraw, kBeam };

  int32_t parent = 0;  // the row of the current step that it extends; with several beams, any of
                       // the group's rows may turn out to be the parent
  Choice choice = Choice::kBestCandidate;
  int32_t index = 0;  // index of the parent's sample, or of the search's beam
  // What it will need from its logits. It and its edits stay valid until Advance. Rows with equal
  // needs may share one.
  const RowRequest* request = nullptr;
};

class GroupDecoder {
 public:
  // prompt: the ids that the decoder has read before the first generated one (encoder-decoder
  // models: start token and target prefix). The tokenizer must outlive the decoder. A group starts
  // with one live row, the last token of its prompt. With `speculation`, which must outlive the
  // decoder, a greedy sequence proposes draft tokens.
  static std::unique_ptr<GroupDecoder> Create(const ResolvedDecoding& decoding, TokenIds prompt,
                                              const Tokenizer& tokenizer, bool wants_deltas,
                                              Speculation* speculation = nullptr);
  virtual ~GroupDecoder() = default;

  // Maximum live rows of the group: the beam width or the number of samples.
  virtual int32_t max_rows() const = 0;
  // Whether the next step chooses tokens. False: it computes the logits of given tokens.
  virtual bool generates() const { return true; }
  // If the live rows are parts of given sequences: the tokens of the longest of these. 0: the rows
  // already have all known tokens.
  virtual int32_t given_length() const { return 0; }
  // One entry per live row, in row order. A row with proposals has one entry for `token` and one
  // for each proposal. Valid until Advance.
  virtual std::span<const RowRequest> Requests() = 0;
  // If the next rows are simply the best candidates of these rows: what the backend needs to choose
  // them. nullopt: only Advance can choose.
  virtual std::optional<BeamRequest> Beams() { return std::nullopt; }
  // results: one per request. Returns the live rows of the next step, valid until the next call;
  // empty when the group has finished. A row whose best score is -infinity (all tokens banned) or
  // NaN has no continuation, and its sequence ends with LENGTH.
  virtual std::span<const Continuation> Advance(std::span<const RowResult> results) = 0;
  // For running ahead of the results: the rows of the next step, if no result ends one of them (by
  // an end token or a stop string). Rows that will end in any case (by length) are not included.
  // nullopt: the rows depend on the results, because the history edits scores. A group that returns
  // kBeam also returns Beams(). Valid until Advance, whose Continuation::assumed says which of them
  // came true, in order.
  virtual std::optional<std::span<const AssumedRow>> Assume() { return std::nullopt; }
  // Ends the group now with the tokens that it has (deadline, cancellation).
  virtual void Stop(FinishReason reason) = 0;

  virtual bool finished() const = 0;
  // Tokens generated so far, over all sequences that would be returned.
  virtual int32_t num_generated_tokens() const = 0;
  // Tokens computed so far after the prompt, over all rows. A beam search computes beam_width
  // tokens for each generated one.
  virtual int64_t num_computed_tokens() const { return num_generated_tokens(); }
  // New output since the last call. Beam search: of sequence 0, the settled prefix (the tokens
  // shared by the best hypothesis so far and all live beams); of the other sequences, everything at
  // the end. Empty unless wants_deltas.
  virtual std::vector<GenerateDelta> TakeDeltas() = 0;
  // REQUIRES: finished(). In the order of the deltas' `sequence`: hypotheses best first, samples in
  // sampling order. Beam search may return fewer than num_sequences when bans or stop strings leave
  // fewer.
  virtual std::vector<GeneratedSequence> TakeSequences() = 0;
  // REQUIRES: finished(). If requested: one entry per prompt token except the first.
  virtual std::vector<PositionLogprobs> TakePromptLogprobs() { return {}; }
};

}  // namespace beamline
