#include "server/config/units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <span>
#include <system_error>

namespace beamline {
namespace {

struct Unit {
  std::string_view name;
  double size = 1;  // in the kind's smallest unit
};

constexpr Unit kSizes[] = {{"B", 1},        {"kB", 1e3},    {"KB", 1e3},     {"MB", 1e6},
                           {"GB", 1e9},     {"TB", 1e12},   {"KiB", 0x1p10}, {"MiB", 0x1p20},
                           {"GiB", 0x1p30}, {"TiB", 0x1p40}};
constexpr Unit kTimes[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {"min", 60e6}, {"h", 3600e6}};

struct Kind {
  std::string_view own;  // unit of settings
  std::string_view example;
  std::span<const Unit> units;
  double size = 1;  // of `own`, in the smallest unit
};

constexpr Kind kKinds[] = {{"bytes", "64MiB", kSizes, 1}, {"ms", "30s", kTimes, 1e3}};

const Kind* KindOf(std::string_view own) {
  const auto* const kind = std::ranges::find(kKinds, own, &Kind::own);
  return kind == std::end(kKinds) ? nullptr : kind;
}

}  // namespace

std::string_view UnitOf(std::string_view setting_name) {
  for (const Kind& kind : kKinds) {
    const size_t end = setting_name.size() - std::min(setting_name.size(), kind.own.size());
    if (end > 0 && setting_name[end - 1] == '_' && setting_name.substr(end) == kind.own) {
      return kind.own;
    }
  }
  return "";
}

std::string_view UnitExample(std::string_view own) {
  const Kind* const kind = KindOf(own);
  return kind == nullptr ? "" : kind->example;
}

std::optional<int64_t> ParseWithUnit(std::string_view own, std::string_view text) {
  const Kind* const kind = KindOf(own);
  if (kind == nullptr) return std::nullopt;
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  const std::string_view name = text.substr(static_cast<size_t>(end - text.data()));
  for (const Unit& unit : kind->units) {
    if (unit.name != name) continue;
    const double value = number * (unit.size / kind->size);
    // In binary, 16.1 s are 16100.000000000002 ms.
    const double whole = std::round(value);
    const double inexact = std::min(1e-3, 1e-15 * std::max(1e3, std::abs(value)));
    if (std::abs(value) < 0x1p53 && std::abs(value - whole) <= inexact) {
      return static_cast<int64_t>(whole);
    }
  }
  return std::nullopt;
}

}  // namespace beamline
