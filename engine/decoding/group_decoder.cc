#include "engine/decoding/group_decoder.h"

#include "engine/decoding/beam_decoder.h"
#include "engine/decoding/independent_decoder.h"
#include "engine/decoding/prompt_lookup_decoder.h"

namespace beamline {

std::unique_ptr<GroupDecoder> GroupDecoder::Create(const ResolvedDecoding& decoding,
                                                   TokenIds prompt, const Tokenizer& tokenizer,
                                                   bool wants_deltas, Speculation* speculation) {
  if (decoding.kind == DecodingKind::kBeam) {
    return std::make_unique<BeamDecoder>(decoding, prompt, tokenizer, wants_deltas);
  }
  if (speculation != nullptr && decoding.kind == DecodingKind::kGreedy &&
      decoding.num_sequences == 1) {
    return std::make_unique<PromptLookupDecoder>(decoding, prompt, tokenizer, wants_deltas,
                                                 *speculation);
  }
  return std::make_unique<IndependentDecoder>(decoding, prompt, tokenizer, wants_deltas);
}

}  // namespace beamline
