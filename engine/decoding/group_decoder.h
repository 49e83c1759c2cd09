// How one request's group of sequences advances: from the scores of a step to the next step's
// tokens, to text, and to the finished hypotheses. Knows nothing of caches, batches or devices: the
// step loop asks each group what it needs of its rows, and hands it what the backend found.
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

// Stands for a token that the device has chosen and the host has not read yet.
inline constexpr int32_t kUnknownToken = -1;

// What one live row needs of its logits.
struct RowRequest {
  const LogitsEdits* edits = nullptr;  // null: none; stays valid until Advance
  bool normalize_first = false;        // as TopCandidatesParams
  bool renormalize = false;            // scores are log-softmaxed once more after the edits
  int32_t num_candidates = 1;          // best tokens wanted, 1 .. vocab_size
  std::vector<SampleRow> samples;      // draws wanted; `row` is the step loop's to fill
};

// A group whose beams the backend itself may choose, as TokenChoice's order has them.
struct BeamRequest {
  int32_t width = 0;
  std::span<const float> scores;     // of the live rows, [rows]
  std::span<const int32_t> end_ids;  // tokens that end a hypothesis
  bool renormalize = false;          // as its rows' RowRequest
};

// What the backend found for one row.
struct RowResult {
  std::span<const int32_t> ids;       // [num_candidates], best first
  std::span<const float> values;      // [num_candidates], edited scores
  std::span<const float> raw_values;  // [num_candidates], the model's own logits
  float log_normalizer = 0.0f;        // raw_value - log_normalizer is the model's log-probability
  std::span<const int32_t> sampled_ids;   // [samples.size()]
  std::span<const float> sampled_values;  // [samples.size()], edited scores of the draws
};

// One live row of the next step: `parent` is the row of this step that it extends (several may
// share one parent; some parents have none), `token` is what it appends.
struct Continuation {
  int32_t parent = 0;
  int32_t token = 0;
  // The assumed row that this is; -1: none was assumed.
  int32_t assumed = -1;
  // How many of the parent's last tokens this row drops: proposals that were refuted, or scored.
  int32_t num_dropped = 0;
  // Further tokens behind `token`, guessed or given: the next step computes all of them and the row
  // asks for the logits after each.
  TokenIds proposals = {};
};

// A row of the step after the current one, named before the current one's results are read.
struct AssumedRow {
  // How it comes to its token.
  enum class Choice : uint8_t { kBestCandidate, kDraw, kBeam };

  int32_t parent = 0;  // the row of the current step that it extends; a beam of a group with
                       // several rows may turn out to extend any of them
  Choice choice = Choice::kBestCandidate;
  int32_t index = 0;  // the parent's draw, or the search's beam, of this number
  // What it will need of its logits; stays valid until Advance, as its edits do. Rows that need the
  // same may share one.
  const RowRequest* request = nullptr;
};

class GroupDecoder {
 public:
  // prompt: the ids that the decoder has consumed before the first generated one (encoder-decoder
  // models: start token and target prefix). The tokenizer must outlive the decoder. A group starts
  // with one live row, its prompt's last token. With `speculation`, which must outlive the decoder,
  // a greedy sequence proposes tokens.
  static std::unique_ptr<GroupDecoder> Create(const ResolvedDecoding& decoding, TokenIds prompt,
                                              const Tokenizer& tokenizer, bool wants_deltas,
                                              Speculation* speculation = nullptr);
  virtual ~GroupDecoder() = default;

  // Most rows that the group can have live at once: the beam width or the number of samples.
  virtual int32_t max_rows() const = 0;
  // Whether the next step chooses tokens. False: it reads given ones, for their logits.
  virtual bool generates() const { return true; }
  // Tokens of the longest sequence that the live rows are parts of, where these are given; 0: the
  // rows have all that is known.
  virtual int32_t given_length() const { return 0; }
  // One entry per live row, in row order; a row with proposals has one for `token` and one for each
  // of them. Valid until Advance.
  virtual std::span<const RowRequest> Requests() = 0;
  // Of the same rows, when the next ones are the best of their candidates and nothing else: what
  // the backend needs to choose them. Nullopt: only Advance can tell.
  virtual std::optional<BeamRequest> Beams() { return std::nullopt; }
  // results: one per request. Returns the live rows of the next step, valid until the next call;
  // empty when the group has finished. A row whose best score is -infinity (every token banned) or
  // NaN has no continuation; its sequence ends with LENGTH.
  virtual std::span<const Continuation> Advance(std::span<const RowResult> results) = 0;
  // Running ahead of the results: the rows that the group will have after the current step, unless
  // its results end some of them (an end token, a stop string). Those that end in any case (length)
  // are not among them. nullopt: this depends on the results (histories that edit scores). A group
  // that says kBeam has Beams().
  // Valid until Advance, which says in Continuation::assumed which of them came true, in order.
  virtual std::optional<std::span<const AssumedRow>> Assume() { return std::nullopt; }
  // Ends the group now with what it has (deadline, cancellation).
  virtual void Stop(FinishReason reason) = 0;

  virtual bool finished() const = 0;
  // Tokens generated so far over all sequences that would be returned.
  virtual int32_t num_generated_tokens() const = 0;
  // Tokens that its steps have computed beyond the prompt so far, over all rows: a beam search
  // computes beam_width of them for each that it generates.
  virtual int64_t num_computed_tokens() const { return num_generated_tokens(); }
  // What became certain since the last call. For beams: of sequence 0 the settled prefix (the
  // tokens that the best hypothesis so far and all live beams share), of the others all at the end.
  // Empty unless wants_deltas.
  virtual std::vector<GenerateDelta> TakeDeltas() = 0;
  // REQUIRES: finished(). In the order of the deltas' `sequence`: hypotheses best first, samples as
  // they were drawn. Beam search may return fewer than num_sequences when bans or stop strings
  // leave fewer.
  virtual std::vector<GeneratedSequence> TakeSequences() = 0;
  // REQUIRES: finished(). Of groups that ask for them: one per prompt token but the first.
  virtual std::vector<PositionLogprobs> TakePromptLogprobs() { return {}; }
};

}  // namespace beamline
