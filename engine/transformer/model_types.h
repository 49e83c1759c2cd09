// The numeric types of a model. Its matrices may keep the checkpoint's types
// (docs/decisions/0071-types-of-the-checkpoint.md).
#pragma once

#include <span>

#include "kernels/compute_device.h"
#include "kernels/precision.h"

namespace beamline {

struct ModelTypes {
  // All matrices have one type.
  ModelTypes(DType dtype) : precision(dtype) {}                   // NOLINT: as of Precision
  ModelTypes(const Precision& of_model) : precision(of_model) {}  // NOLINT

  Precision precision;
  // Matrices keep the type in which the checkpoint stores them. precision.weights is used for a
  // matrix whose parts have several types, or that is scaled.
  bool keeps_stored = false;

  // The precision of a matrix with these parts.
  Precision OfMatrix(std::span<const HostMatrix> parts) const;

  bool operator==(const ModelTypes&) const = default;
};

}  // namespace beamline
