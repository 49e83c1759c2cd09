// A weights file of any bytes.
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"
#include "engine/checkpoint/safetensors.h"
#include "tests/fuzz/checks.h"

namespace beamline {
namespace {

constexpr uint64_t kLengthBytes = 8;

// The entries cover the data without a hole, in their order.
void CheckEntries(std::span<const std::byte> file, const std::vector<SafetensorsEntry>& entries) {
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), kLengthBytes);
  const std::byte* position = file.data() + kLengthBytes + header_bytes;
  for (const SafetensorsEntry& entry : entries) {
    BEAMLINE_CHECK(entry.bytes.data() == position);
    position += entry.bytes.size();
    BEAMLINE_CHECK(IsValidUtf8(entry.name));
    if (!entry.dtype.has_value()) continue;
    uint64_t bytes = SizeOf(*entry.dtype);
    for (const int64_t extent : entry.shape) {
      BEAMLINE_CHECK(extent >= 0);
      bytes *= static_cast<uint64_t>(extent);
    }
    BEAMLINE_CHECK(bytes == entry.bytes.size());
  }
  BEAMLINE_CHECK(position == file.data() + file.size());
}

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  const auto entries = beamline::ParseSafetensors(file, "x/model.safetensors");
  if (entries.ok()) {
    beamline::CheckEntries(file, *entries);
  } else {
    beamline::CheckRefusal(entries.status(), "x/model.safetensors: ");
  }
  return 0;
}
