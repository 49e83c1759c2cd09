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

}  // namespace beamline
