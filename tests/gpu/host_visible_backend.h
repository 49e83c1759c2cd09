// A backend whose buffers the host can read while the GPU computes on them.
#pragma once

#include <memory>

#include "kernels/backend.h"

namespace beamline {

// Wraps the CUDA backend so that the operator tests, which compute their expectation from an
// operator's own parameters, run on it: buffers are pinned host memory, which the GPU reads and
// writes in place, and every operator is done when it returns, of replayed work the last one. The
// kernels are the same.
std::unique_ptr<Backend> MakeHostVisible(std::unique_ptr<Backend> cuda);

}  // namespace beamline
