// Macros for absl::Status, the error type of every module boundary.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns the status from the calling function if it is not OK.
#define BEAMLINE_RETURN_IF_ERROR(expression)                  \
  do {                                                        \
    if (absl::Status status_ = (expression); !status_.ok()) { \
      return status_;                                         \
    }                                                         \
  } while (false)

#define BEAMLINE_STATUS_CONCAT_(a, b) a##b
#define BEAMLINE_STATUS_CONCAT(a, b) BEAMLINE_STATUS_CONCAT_(a, b)
#define BEAMLINE_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) return result.status();                         \
  declaration = *std::move(result)

// BEAMLINE_ASSIGN_OR_RETURN(auto x, F()): assigns F's value to x, or returns F's error.
#define BEAMLINE_ASSIGN_OR_RETURN(declaration, expression) \
  BEAMLINE_ASSIGN_OR_RETURN_(BEAMLINE_STATUS_CONCAT(status_or_, __LINE__), declaration, expression)
