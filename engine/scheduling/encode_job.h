// One encode request inside a replica: inputs that are batched one by one and answered together.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/api/request.h"
#include "engine/scheduling/ticket.h"

namespace beamline {

struct EncodeJob {
  std::shared_ptr<Ticket> ticket;  // declared first, given back last
  std::shared_ptr<EncodeSink> sink;
  std::shared_ptr<const std::atomic<bool>> cancelled;
  std::optional<Clock::time_point> deadline;
  Clock::time_point arrival;
  int32_t priority = 0;
  std::string client;    // who shares fairly with whom
  int64_t fair_tag = 0;  // FairQueue's; grows by the tokens of every input that starts

  std::vector<TokenIds> inputs;
  Pooling pooling = Pooling::kMean;
  bool per_token = false;
  bool normalize = false;
  int32_t dimensions = 0;    // of the answer; 0: all
  bool renormalize = false;  // what is left of a vector with `dimensions`

  size_t num_started = 0;             // inputs handed to a batch so far, in order
  std::vector<Embedding> embeddings;  // as many as inputs
  std::chrono::nanoseconds queue_time{-1};
};

}  // namespace beamline
