// The types of a model's numbers, of which its matrices may keep those of the checkpoint
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
  // Matrices lie in memory in the type in which the checkpoint stores them. precision.weights is
  // the type of one whose parts are stored in several types, or are scaled.
  bool keeps_stored = false;

  // Of a matrix with these parts.
  Precision OfMatrix(std::span<const HostMatrix> parts) const;

  bool operator==(const ModelTypes&) const = default;
};

}  // namespace beamline
