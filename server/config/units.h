// Sizes and times with a unit, as people write them: max_unread_bytes 4GiB, drain_timeout_ms 30s.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace beamline {

// The unit that a setting of this name counts in, by its end: "bytes", "ms", "us"; empty: none.
std::string_view UnitOf(std::string_view setting_name);

// What a text with a unit may look like where `own` is the setting's: "64MiB", "30s", "1ms". Empty:
// there is none.
std::string_view UnitExample(std::string_view own);

// The text's number in the setting's own unit: 1.5GiB is 1610612736 bytes. A unit follows the
// number at once: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB; us, ms, s, min, h. None when it is no
// number with one of these, or no whole number of the setting's unit below 2^53.
std::optional<int64_t> ParseWithUnit(std::string_view own, std::string_view text);

}  // namespace beamline
