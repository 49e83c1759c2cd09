#include "engine/decoding/echo_decoder.h"

#include <iterator>
#include <utility>

namespace beamline {

EchoDecoder::EchoDecoder(std::unique_ptr<GroupDecoder> inner, Prompt prompt, int32_t num_streams)
    : DecoderDecorator(std::move(inner)), prompt_(std::move(prompt)), num_streams_(num_streams) {}

std::vector<GenerateDelta> EchoDecoder::TakeDeltas() {
  std::vector<GenerateDelta> deltas = inner().TakeDeltas();
  const int32_t num_streams = std::exchange(num_streams_, 0);
  if (num_streams == 0) return deltas;
  std::vector<GenerateDelta> echoed;
  for (int32_t sequence = 0; sequence < num_streams; ++sequence) {
    echoed.push_back({.sequence = sequence, .ids = prompt_.ids, .text = prompt_.text});
  }
  echoed.insert(echoed.end(), std::make_move_iterator(deltas.begin()),
                std::make_move_iterator(deltas.end()));
  return echoed;
}

std::vector<GeneratedSequence> EchoDecoder::TakeSequences() {
  std::vector<GeneratedSequence> sequences = inner().TakeSequences();
  for (GeneratedSequence& sequence : sequences) {
    sequence.ids.insert(sequence.ids.begin(), prompt_.ids.begin(), prompt_.ids.end());
    sequence.text.insert(0, prompt_.text);
  }
  return sequences;
}

}  // namespace beamline
