// Names a thread for `top -H` and debuggers.
#pragma once

#include <sys/prctl.h>

namespace beamline {

// Names the calling thread and the threads that it starts, unless they get names of their own. Cut
// to 15 bytes.
inline void NameThisThread(const char* name) { prctl(PR_SET_NAME, name); }

}  // namespace beamline
