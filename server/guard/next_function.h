// The function that one of this program's stands in front of. This folder is the only one that
// defines functions of libraries (tools/check_style): recvmsg and SSL_read.
#pragma once

#include <dlfcn.h>

#include "base/check.h"

namespace beamline {

// The next function of this name in the order in which the loader searches libraries.
template <typename Function>
Function NextFunction(const char* name) {
  const auto function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  // A library that is linked statically has none, and nothing can be received without it.
  BEAMLINE_CHECK(function != nullptr);
  return function;
}

}  // namespace beamline
