// Wraps a decoder and puts the prompt before each sequence of the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/decoding/decoder_decorator.h"

namespace beamline {

class EchoDecoder final : public DecoderDecorator {
 public:
  struct Prompt {
    TokenIds ids;
    std::string text;
  };

  // num_streams: sequences that are streamed as deltas; 0: no deltas.
  EchoDecoder(std::unique_ptr<GroupDecoder> inner, Prompt prompt, int32_t num_streams);

  std::vector<GenerateDelta> TakeDeltas() override;
  std::vector<GeneratedSequence> TakeSequences() override;

 private:
  const Prompt prompt_;
  int32_t num_streams_;  // streams that have not received the prompt yet
};

}  // namespace beamline
