// The name of a thread, as `top -H` and debuggers show it.
#pragma once

#include <sys/prctl.h>

namespace beamline {

// Of the calling thread and of those that it begins, unless they have one of their own. At most 15
// bytes; what is longer is cut.
inline void NameThisThread(const char* name) { prctl(PR_SET_NAME, name); }

}  // namespace beamline
