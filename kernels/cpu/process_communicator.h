// Ranks as processes, of one host or several, that send each other what they compute.
#pragma once

#include <memory>

#include "kernels/communicator.h"
#include "kernels/rank_links.h"

namespace beamline {

// This rank's end. What several ranks compute the front computes, in the order of the ranks, and
// gives to all: the same bits as of threads (kernels/cpu/thread_communicator.h). Reduces float32.
// Send and Receive connect the front with the others alone.
std::unique_ptr<Communicator> MakeProcessCommunicator(std::shared_ptr<RankLinks> links);

// The end of stage `stage` of so many, which sends to the next one and receives of the one before
// alone: connections of two processes each, of which the one with the earlier stage is the front.
// Null where there is no such stage.
std::unique_ptr<Communicator> MakeChainCommunicator(int stage, int num_stages,
                                                    std::shared_ptr<RankLinks> previous,
                                                    std::shared_ptr<RankLinks> next);

}  // namespace beamline
