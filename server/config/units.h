// Sizes and times with a unit: max_unread_bytes 4GiB, drain_timeout_ms 30s.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace beamline {

// The unit of a setting, from its name's suffix: "bytes", "ms", "us"; empty: none.
std::string_view UnitOf(std::string_view setting_name);

// An example of a value with a unit, for a setting in unit `own`: "64MiB", "30s", "1ms". Empty:
// none.
std::string_view UnitExample(std::string_view own);

// Converts to the setting's own unit: 1.5GiB is 1610612736 bytes. The unit follows the number
// without a space: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; us, ms, s, min, h. nullopt if it is not a
// number with such a unit, or not an integer below 2^53 in the setting's unit.
std::optional<int64_t> ParseWithUnit(std::string_view own, std::string_view text);

}  // namespace beamline
