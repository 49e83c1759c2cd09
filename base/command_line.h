// CLI11 with the rules of all programs here: strict numbers, repeatable options that take one value
// each, and one-line errors with suggestions.
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

// Parses the arguments into the variables that `app` is bound to. Returns the text to print before
// exiting (--help, --version), or an empty string to continue. INVALID_ARGUMENT with one line about
// a wrong command line. `hint` returns the text to add to the error about an unknown option
// ("--port"); empty: the closest option name is suggested.
using OptionHint = std::function<std::string(const std::string& option)>;
absl::StatusOr<std::string> ParseArguments(CLI::App& app, int argc, const char* const* argv,
                                           const OptionHint& hint = nullptr);

// An option that may be repeated and takes one value each time.
CLI::Option* AddRepeatable(CLI::App& app, const std::string& name, std::vector<std::string>& values,
                           const std::string& help);

// A path that is not empty.
CLI::Option* AddPath(CLI::App& app, const std::string& name, std::string& path,
                     const std::string& help);

// The name of an option in errors, if its value may come from the environment: the variable if that
// holds the value, else the flag.
std::string_view GivenBy(std::string_view flag, const char* variable, std::string_view value);

// Parses the whole of `text` as a number in [low, high]; infinity and NaN are refused.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text, Number low, Number high) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(number >= low && number <= high)) return std::nullopt;
  return number;
}

// Throws CLI11's error with the text "NAME is 'TEXT'; accepted: ACCEPTED".
[[noreturn]] void RefuseValue(const std::string& name, const std::string& text,
                              const std::string& accepted);

// Adds a number option; `value` may be optional. CLI11's own parser accepts -1 as 2^64 - 1, 010 as
// eight and 99999999999999999999 as the largest number. `accepted` is the range in errors.
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

// Adds a number option with the full range of its type. The code that uses the value checks it.
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
