#include "server/calls/delta_buffer.h"

#include <algorithm>
#include <iterator>

namespace beamline {

void DeltaBuffer::Add(GenerateDelta delta) {
  const auto it = std::find_if(
      deltas_.begin(), deltas_.end(),
      [&delta](const GenerateDelta& waiting) { return waiting.sequence == delta.sequence; });
  if (it == deltas_.end()) {
    deltas_.push_back(std::move(delta));
    return;
  }
  it->ids.insert(it->ids.end(), delta.ids.begin(), delta.ids.end());
  it->text += delta.text;
  it->logprobs.insert(it->logprobs.end(), std::make_move_iterator(delta.logprobs.begin()),
                      std::make_move_iterator(delta.logprobs.end()));
}

}  // namespace beamline
