// Another decoder's group whose prompt is put before each sequence of the answer.
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

  // num_streams: sequences that deltas are made of; 0: the inner decoder makes none.
  EchoDecoder(std::unique_ptr<GroupDecoder> inner, Prompt prompt, int32_t num_streams);

  std::vector<GenerateDelta> TakeDeltas() override;
  std::vector<GeneratedSequence> TakeSequences() override;

 private:
  const Prompt prompt_;
  int32_t num_streams_;  // that the prompt is still to be sent to
};

}  // namespace beamline
