// The safetensors container: 8 bytes of header length, a JSON header, the tensors' bytes.
// Format: https://huggingface.co/docs/safetensors (all integers little-endian).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/tensor.h"

namespace beamline {

// One entry of the header with its bytes in the file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;      // as the file spells it
  std::optional<DType> dtype;  // absent: a type that Beamline does not support
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // not necessarily aligned
};

// Validates the whole file and lists its tensors in the order of their bytes. The header must fit
// into the file and into 100 MB. Every dtype must be one of the format's, and every shape must
// match its byte range. The ranges must cover the data exactly: no overlap, no hole, nothing after
// the last one. Errors are INVALID_ARGUMENT and name `file_name`, the tensor and the fault.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensors(std::span<const std::byte> file,
                                                               std::string_view file_name);

}  // namespace beamline
