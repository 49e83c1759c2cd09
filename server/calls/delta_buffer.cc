#include "server/calls/delta_buffer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace beamline {
namespace {

// Upper bounds of the wire bytes of an id and of a log-probability.
constexpr size_t kIdBytes = 5;
constexpr size_t kLogprobBytes = 16;

size_t MessageBytes(const GenerateDelta& delta) {
  size_t bytes = delta.text.size() + kIdBytes * delta.ids.size();
  for (const PositionLogprobs& position : delta.logprobs) {
    bytes += kLogprobBytes * (1 + position.top.size());
  }
  return bytes;
}

void Append(GenerateDelta&& from, GenerateDelta& to) {
  to.ids.insert(to.ids.end(), from.ids.begin(), from.ids.end());
  to.text += from.text;
  to.logprobs.insert(to.logprobs.end(), std::make_move_iterator(from.logprobs.begin()),
                     std::make_move_iterator(from.logprobs.end()));
}

}  // namespace

void DeltaBuffer::Add(GenerateDelta delta) {
  const auto last = std::find_if(
      waiting_.rbegin(), waiting_.rend(),
      [&delta](const GenerateDelta& waiting) { return waiting.sequence == delta.sequence; });
  if (last != waiting_.rend() && MessageBytes(*last) + MessageBytes(delta) <= max_message_bytes_) {
    Append(std::move(delta), *last);
  } else {
    waiting_.push_back(std::move(delta));
  }
}

std::vector<GenerateDelta> DeltaBuffer::Take() {
  std::vector<GenerateDelta> message;
  size_t bytes = 0;
  while (!waiting_.empty()) {
    const GenerateDelta& next = waiting_.front();
    const bool has_sequence = std::any_of(
        message.begin(), message.end(),
        [&next](const GenerateDelta& taken) { return taken.sequence == next.sequence; });
    bytes += MessageBytes(next);
    if (has_sequence || (!message.empty() && bytes > max_message_bytes_)) break;
    message.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return message;
}

}  // namespace beamline
