#include "engine/decoding/group_decoder.h"

#include "engine/decoding/beam_decoder.h"
#include "engine/decoding/independent_decoder.h"

namespace beamline {

std::unique_ptr<GroupDecoder> GroupDecoder::Create(const ResolvedDecoding& decoding,
                                                   TokenIds prompt, const Tokenizer& tokenizer,
                                                   bool wants_deltas) {
  if (decoding.kind == DecodingKind::kBeam) {
    return std::make_unique<BeamDecoder>(decoding, prompt, tokenizer, wants_deltas);
  }
  return std::make_unique<IndependentDecoder>(decoding, prompt, tokenizer, wants_deltas);
}

}  // namespace beamline
