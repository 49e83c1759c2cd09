// Checks and converts floating-point values of a checkpoint between the three stored types.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/tensor.h"

namespace beamline {

// True for float32, float16 and bfloat16.
bool IsStoredFloat(DType dtype);

// Whether none of `count` values is NaN or infinity. REQUIRES: IsStoredFloat; `values` aligned.
bool AllFinite(const void* values, size_t count, DType dtype);

// Whether all of `count` values fit into float16. REQUIRES: as AllFinite; all are finite.
bool AllFitFloat16(const void* values, size_t count, DType dtype);

// Appends `count` values to `output`, rounded to nearest even. REQUIRES: IsStoredFloat for both
// types; `values` aligned to its type.
void AppendConverted(const void* values, size_t count, DType from, DType to,
                     std::vector<std::byte>& output);

// The same for values times `factor`, rounded once. Unless the factor is 1, this needs a float32
// copy of all values.
void AppendScaled(const void* values, size_t count, DType from, float factor, DType to,
                  std::vector<std::byte>& output);

// The value rounded to `dtype`. REQUIRES: IsStoredFloat.
float RoundTo(float value, DType dtype);

}  // namespace beamline
