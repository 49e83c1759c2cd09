// CLI11 as all programs use it: strict numbers, options that repeat without swallowing what
// follows, and errors of one line that say what was probably meant.
#pragma once

#include <charconv>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "fmt/format.h"

namespace beamline {

// Parses the arguments into what `app` is bound to. Returns the text to print and be done with
// (--help, --version), empty to go on. INVALID_ARGUMENT with one line about a wrong command line.
// `hint`: of an option that there is not ("--port") what to say behind that; empty: a near one.
using OptionHint = std::function<std::string(const std::string& option)>;
absl::StatusOr<std::string> ParseArguments(CLI::App& app, int argc, const char* const* argv,
                                           const OptionHint& hint = nullptr);

// An option that may be repeated and takes one value each time.
CLI::Option* AddRepeatable(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                           const std::string& help);

// A path that is not empty.
CLI::Option* AddPath(CLI::App& app, const std::string& name, std::string& path,
                     const std::string& help);

// What errors call an option whose value may come from the environment: the variable where that
// holds the value, else the flag.
std::string_view GivenBy(std::string_view flag, const char* variable, std::string_view value);

// The whole of `text` as a number of low to high; infinity and NaN are none.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text, Number low, Number high) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(number >= low && number <= high)) return std::nullopt;
  return number;
}

// Throws what CLI11 does: "NAME is 'TEXT'; accepted: ACCEPTED".
[[noreturn]] void RefuseValue(const std::string& name, const std::string& text,
                              const std::string& accepted);

// A number, `value` may be optional. CLI11's own reading takes -1 for 2^64 - 1, 010 for eight and
// 99999999999999999999 for the largest number there is. `accepted` is how errors call the range.
template <typename Value, typename Number>
CLI::Option* AddNumber(CLI::App& app, const std::string& name, Value& value,
                       const std::string& help, Number low, Number high,
                       const std::string& accepted) {
  return app
      .add_option_function<std::string>(
          name,
          [&value, name, low, high, accepted](const std::string& text) {
            const auto number = ParseNumber<Number>(text, low, high);
            if (!number) RefuseValue(name, text, accepted);
            value = *number;
          },
          help)
      ->type_name(std::is_integral_v<Number> ? "N" : "X");
}
template <typename Value, typename Number>
CLI::Option* AddNumber(CLI::App& app, const std::string& name, Value& value,
                       const std::string& help, Number low, Number high) {
  return AddNumber(app, name, value, help, low, high, fmt::format("{} to {}", low, high));
}

// Any that the type holds; what of them means something, whoever gets it says.
template <typename Number>
CLI::Option* AddNumber(CLI::App& app, const std::string& name, std::optional<Number>& value,
                       const std::string& help) {
  using Limits = std::numeric_limits<Number>;
  constexpr bool kWhole = std::is_integral_v<Number>;
  const std::string accepted =
      kWhole && !std::is_signed_v<Number> ? fmt::format("0 to {}", Limits::max())
      : kWhole ? fmt::format("a whole number of {} bits", Limits::digits + 1)
               : "a finite number";
  return AddNumber<std::optional<Number>, Number>(app, name, value, help, Limits::lowest(),
                                                  Limits::max(), accepted);
}

}  // namespace beamline
