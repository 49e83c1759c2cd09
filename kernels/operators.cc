#include "kernels/operators.h"

#include <variant>

#include "kernels/check_params.h"

namespace beamline {

void Operators::Run(const Operation& operation) {
  std::visit([this](const auto* params) { Check(*params, check_options_); }, operation);
  Compute(operation);
}

}  // namespace beamline
