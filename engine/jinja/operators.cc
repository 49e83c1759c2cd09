#include "engine/jinja/operators.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "engine/jinja/search.h"
#include "engine/jinja/text_format.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

[[noreturn]] void FailOperands(Run& run, std::string_view symbol, const Value& a, const Value& b) {
  run.Fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", symbol, TypeName(a),
                       TypeName(b)));
}

[[noreturn]] void FailTooLarge(Run& run) { run.Fail("a whole number of more than 64 bits"); }

Value RepeatSequence(Run& run, const Value& sequence, int64_t count) {
  count = std::max<int64_t>(count, 0);
  constexpr int64_t kMost = int64_t{1} << 32;
  if (sequence.is(Kind::kString)) {
    const std::string& text = Text(sequence);
    if (text.empty()) count = 0;
    if (count > kMost) run.Fail("a text that is too long");
    run.Room(text.size() * static_cast<size_t>(count));
    std::string made;
    made.reserve(text.size() * static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) made += text;
    return run.String(std::move(made), sequence.as<StringObject>().safe);
  }
  const std::vector<Value>& items = Items(sequence);
  if (items.empty()) count = 0;
  if (count > kMost) run.Fail("a list that is too long");
  run.Room(items.size() * static_cast<size_t>(count) * sizeof(Value));
  std::vector<Value> made;
  for (int64_t i = 0; i < count; ++i) made.insert(made.end(), items.begin(), items.end());
  return sequence.is(Kind::kList) ? run.List(std::move(made)) : run.Tuple(std::move(made));
}

bool IsSequence(const Value& value) {
  return value.is(Kind::kString) || value.is(Kind::kList) || value.is(Kind::kTuple);
}

Value Add(Run& run, const Value& a, const Value& b) {
  if (a.kind != b.kind || !IsSequence(a)) FailOperands(run, "+", a, b);
  if (a.is(Kind::kString)) {
    const auto& left = a.as<StringObject>();
    const auto& right = b.as<StringObject>();
    run.Room(left.text.size() + right.text.size());
    if (left.safe == right.safe) return run.String(left.text + right.text, left.safe);
    return run.String(left.safe ? left.text + Escape(right.text) : Escape(left.text) + right.text,
                      true);
  }
  run.Room((Items(a).size() + Items(b).size()) * sizeof(Value));
  std::vector<Value> items = Items(a);
  items.insert(items.end(), Items(b).begin(), Items(b).end());
  return a.is(Kind::kList) ? run.List(std::move(items)) : run.Tuple(std::move(items));
}

double FloatModulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (rest == 0) rest = std::copysign(0.0, b);
  return rest;
}

// Python's floor division, which differs from the floor of the quotient.
double FloatFloor(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value WholePower(Run& run, int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) run.Fail("0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t power = 1;
  if (base == 0 || base == 1) return Value::Int(exponent == 0 ? 1 : base);
  if (base == -1) return Value::Int(exponent % 2 == 0 ? 1 : -1);
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(power, base, &power)) FailTooLarge(run);
  }
  return Value::Int(power);
}

Value WholeArithmetic(Run& run, std::string_view symbol, int64_t a, int64_t b) {
  int64_t result = 0;
  bool too_large = false;
  if (symbol == "+") {
    too_large = __builtin_add_overflow(a, b, &result);
  } else if (symbol == "-") {
    too_large = __builtin_sub_overflow(a, b, &result);
  } else if (symbol == "*") {
    too_large = __builtin_mul_overflow(a, b, &result);
  } else if (symbol == "**") {
    return WholePower(run, a, b);
  } else {
    if (b == 0) run.Fail("division by zero");
    if (symbol == "/") return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    if (b == -1) {  // the only quotient that may overflow
      too_large = symbol == "//" && __builtin_sub_overflow(int64_t{0}, a, &result);
    } else {
      int64_t quotient = a / b;
      int64_t rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) {
        --quotient;
        rest += b;
      }
      result = symbol == "//" ? quotient : rest;
    }
  }
  if (too_large) FailTooLarge(run);
  return Value::Int(result);
}

Value FloatArithmetic(Run& run, std::string_view symbol, double a, double b) {
  if (symbol == "+") return Value::Float(a + b);
  if (symbol == "-") return Value::Float(a - b);
  if (symbol == "*") return Value::Float(a * b);
  if (symbol == "**") {
    if (a == 0 && b < 0) run.Fail("0.0 cannot be raised to a negative power");
    if (a < 0 && b != std::floor(b)) run.Fail("complex numbers are not supported");
    return Value::Float(std::pow(a, b));
  }
  if (b == 0) run.Fail("float division by zero");
  if (symbol == "/") return Value::Float(a / b);
  if (symbol == "//") return Value::Float(FloatFloor(a, b));
  return Value::Float(FloatModulo(a, b));
}

int CompareNumbers(const Value& a, const Value& b) {
  if (a.is_whole() && b.is_whole()) return a.whole < b.whole ? -1 : a.whole > b.whole ? 1 : 0;
  const long double left = a.is_whole() ? static_cast<long double>(a.whole) : a.real;
  const long double right = b.is_whole() ? static_cast<long double>(b.whole) : b.real;
  return left < right ? -1 : left > right ? 1 : 0;
}

bool IsNan(const Value& value) { return value.is(Kind::kFloat) && std::isnan(value.real); }

bool AreEqualLists(Run& run, const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!IsEqual(run, a[i], b[i])) return false;
  }
  return true;
}

bool AreEqualDicts(Run& run, const DictObject& a, const DictObject& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = Lookup(run, b, key);
    if (other == nullptr || !IsEqual(run, value, *other)) return false;
  }
  return true;
}

}  // namespace

void FailUndefined(Run& run, const Value& value) { run.Fail(value.as<UndefinedObject>().message); }

bool Truth(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.whole != 0;
    case Kind::kFloat:
      return value.real != 0;
    case Kind::kString:
      return !Text(value).empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView:
      return !Items(value).empty();
    case Kind::kDict:
      return !value.as<DictObject>().entries.empty();
    case Kind::kRange:
      return value.as<RangeObject>().size() > 0;
    default:
      return true;
  }
}

bool IsEqual(Run& run, const Value& a, const Value& b) {
  run.Step();
  if (a.is_number() && b.is_number()) {
    return !IsNan(a) && !IsNan(b) && CompareNumbers(a, b) == 0;
  }
  if (a.kind != b.kind) return false;
  const Run::Deeper deeper(run);
  switch (a.kind) {
    case Kind::kNone:
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      run.Touch(Text(a).size());
      return Text(a) == Text(b);
    case Kind::kList:
    case Kind::kTuple:
      return a.object == b.object || AreEqualLists(run, Items(a), Items(b));
    case Kind::kDict:
      return a.object == b.object || AreEqualDicts(run, a.as<DictObject>(), b.as<DictObject>());
    case Kind::kRange:
      return AreEqualLists(run, Iterate(run, a), Iterate(run, b));
    case Kind::kNamespace:
      return a.as<NamespaceObject>().members == b.as<NamespaceObject>().members;
    default:
      return a.object == b.object;
  }
}

bool IsLess(Run& run, const Value& a, const Value& b) {
  run.Step();
  if (a.is(Kind::kUndefined)) FailUndefined(run, a);
  if (b.is(Kind::kUndefined)) FailUndefined(run, b);
  if (a.is_number() && b.is_number()) {
    return !IsNan(a) && !IsNan(b) && CompareNumbers(a, b) < 0;
  }
  if (a.is(Kind::kString) && b.is(Kind::kString)) {
    run.Touch(std::min(Text(a).size(), Text(b).size()));
    return Text(a) < Text(b);  // UTF-8 sorts like its code points
  }
  if (a.kind == b.kind && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    const Run::Deeper deeper(run);
    const size_t common = std::min(Items(a).size(), Items(b).size());
    for (size_t i = 0; i < common; ++i) {
      if (!IsEqual(run, Items(a)[i], Items(b)[i])) return IsLess(run, Items(a)[i], Items(b)[i]);
    }
    return Items(a).size() < Items(b).size();
  }
  run.Fail(fmt::format("'<' is not supported between '{}' and '{}'", TypeName(a), TypeName(b)));
}

bool Contains(Run& run, const Value& item, const Value& container) {
  run.Step();
  switch (container.kind) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (item.is(Kind::kUndefined)) FailUndefined(run, item);
      if (!item.is(Kind::kString)) {
        run.Fail(
            fmt::format("'in <string>' requires string as left operand, not {}", TypeName(item)));
      }
      return FindText(run, Text(container), Text(item)) != std::string::npos;
    case Kind::kDict:
      CheckKey(run, item);
      return Lookup(run, container.as<DictObject>(), item) != nullptr;
    default:
      break;
  }
  for (const Value& one : Iterate(run, container)) {
    if (IsEqual(run, item, one)) return true;
  }
  return false;
}

Value Arithmetic(Run& run, std::string_view symbol, const Value& a, const Value& b) {
  if (a.is(Kind::kUndefined)) FailUndefined(run, a);
  if (symbol == "%" && a.is(Kind::kString)) return PercentFormat(run, Text(a), b);
  if (b.is(Kind::kUndefined)) FailUndefined(run, b);
  if (a.is_whole() && b.is_whole()) return WholeArithmetic(run, symbol, a.whole, b.whole);
  if (a.is_number() && b.is_number()) {
    return FloatArithmetic(run, symbol, a.as_double(), b.as_double());
  }
  if (symbol == "+") return Add(run, a, b);
  if (symbol == "*" && IsSequence(a) && b.is_whole()) return RepeatSequence(run, a, b.whole);
  if (symbol == "*" && a.is_whole() && IsSequence(b)) return RepeatSequence(run, b, a.whole);
  FailOperands(run, symbol, a, b);
}

Value Negative(Run& run, const Value& value) {
  if (value.is(Kind::kUndefined)) FailUndefined(run, value);
  if (value.is(Kind::kFloat)) return Value::Float(-value.real);
  if (!value.is_whole()) {
    run.Fail(fmt::format("bad operand type for unary -: '{}'", TypeName(value)));
  }
  if (value.whole == std::numeric_limits<int64_t>::min()) FailTooLarge(run);
  return Value::Int(-value.whole);
}

int64_t Whole(Run& run, const Value& value, std::string_view what) {
  if (value.is(Kind::kUndefined)) FailUndefined(run, value);
  if (value.is_whole()) return value.whole;
  run.Fail(fmt::format("{} is of type {}; a whole number is expected", what, TypeName(value)));
}

bool ParseIndex(std::string_view text, int64_t* index) {
  if (text.empty() || text[0] == '-') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *index);
  return error == std::errc() && end == text.data() + text.size();
}

std::string Escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      case '"':
        escaped += "&#34;";
        break;
      default:
        escaped.push_back(c);
    }
  }
  return escaped;
}

}  // namespace beamline::jinja
