// What the front of a model's processes tells its followers to do.
#pragma once

#include <cstdint>

#include "base/byte_message.h"
#include "engine/transformer/rank_group.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// The first value of a message of RankLinks::Kind::kCall.
enum class RankCall : uint32_t {
  kMeet = 1,  // engine/loading/rank_terms.h
  kConnect,   // engine/loading/rank_meeting.h
  kLoad,      // a StepLimits
  kEncode,    // an EncoderBatch, for Transformer::Encode
  kStep       // engine/runahead/step_call.h
};

template <typename Message, typename Batch>
void VisitEncoderBatch(Message& message, Batch& batch) {
  message(batch.token_ids, batch.type_ids, batch.offsets, batch.slots, batch.first_row);
}

template <typename Message, typename Batch>
void VisitStepBatch(Message& message, Batch& batch) {
  message(batch.token_ids, batch.positions, batch.slots, batch.query_offsets, batch.context_lengths,
          batch.block_tables, batch.max_blocks, batch.memory_lengths, batch.memory_tables,
          batch.max_memory_blocks, batch.logits_rows, batch.max_context_length,
          batch.max_memory_length);
}

// Tells the followers of `ranks`, where it has some, of a call; write(message) adds what the call
// is made with. A fault stays with the group.
template <typename Write>
void TellFollowers(RankGroup& ranks, RankCall call, const Write& write) {
  RankLinks* const followers = ranks.followers();
  if (followers == nullptr) return;
  ByteWriter message;
  message(call);
  write(message);
  followers->Tell(RankLinks::Kind::kCall, message.bytes());
}

}  // namespace beamline
