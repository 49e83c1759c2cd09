#include "loadtest/workload/distribution.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

constexpr double kMax = 1'000'000;

// The numbers between the colons; empty if one of them is not a number in 0 .. kMax.
std::vector<double> ParseNumbers(std::string_view text) {
  std::vector<double> numbers;
  while (true) {
    const size_t colon = std::min(text.find(':'), text.size());
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + colon, number);
    const bool whole = error == std::errc() && end == text.data() + colon;
    if (!whole || !(number >= 0 && number <= kMax)) return {};
    numbers.push_back(number);
    if (colon == text.size()) return numbers;
    text.remove_prefix(colon + 1);
  }
}

bool ConsumePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool IsWhole(double number) { return number == std::floor(number); }

}  // namespace

absl::StatusOr<Distribution> Distribution::Parse(std::string_view text) {
  const auto invalid = absl::InvalidArgumentError(fmt::format(
      "\"{}\" is no distribution: expected N, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA:MAX, "
      "numbers 0 .. 1000000",
      text));
  std::string_view rest = text;
  Distribution result;
  if (ConsumePrefix(rest, "uniform:")) {
    const std::vector<double> numbers = ParseNumbers(rest);
    if (numbers.size() != 2 || numbers[0] > numbers[1]) return invalid;
    if (!IsWhole(numbers[0]) || !IsWhole(numbers[1])) return invalid;
    result.kind_ = Kind::kUniform;
    result.low_ = static_cast<int64_t>(numbers[0]);
    result.high_ = static_cast<int64_t>(numbers[1]);
  } else if (ConsumePrefix(rest, "lognormal:")) {
    const std::vector<double> numbers = ParseNumbers(rest);
    if (numbers.size() != 3 || numbers[0] <= 0 || numbers[1] > 10 || numbers[2] < 1) return invalid;
    result.kind_ = Kind::kLognormal;
    result.median_ = numbers[0];
    result.sigma_ = numbers[1];
    result.low_ = 1;
    result.high_ = static_cast<int64_t>(numbers[2]);
  } else {
    const std::vector<double> numbers = ParseNumbers(rest);
    if (numbers.size() != 1 || !IsWhole(numbers[0])) return invalid;
    result.low_ = result.high_ = static_cast<int64_t>(numbers[0]);
  }
  return result;
}

int64_t Distribution::Draw(Random& random) const {
  switch (kind_) {
    case Kind::kFixed:
      return low_;
    case Kind::kUniform:
      return random.UniformInt(low_, high_);
    case Kind::kLognormal:
      break;
  }
  const double value = median_ * std::exp(sigma_ * random.Normal());
  if (value >= static_cast<double>(high_)) return high_;
  return std::max<int64_t>(low_, std::llround(value));
}

}  // namespace beamline::loadtest
