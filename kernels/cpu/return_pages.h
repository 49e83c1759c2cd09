// Memory whose content nobody needs any more goes back to the system, and stays usable.
#pragma once

#include <cstddef>

namespace beamline::cpu {

// Gives back the whole pages among `bytes` bytes at `data`, which hold zeros when they are read or
// written again; what shares a page with others stays. REQUIRES: private anonymous memory, as
// allocators hand out.
void ReturnPages(void* data, size_t bytes);

}  // namespace beamline::cpu
