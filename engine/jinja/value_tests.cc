#include "engine/jinja/value_tests.h"

#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "engine/jinja/arguments.h"
#include "engine/jinja/characters.h"
#include "engine/jinja/filters.h"
#include "engine/jinja/operators.h"

namespace beamline::jinja {
namespace {

// A test without arguments.
template <bool (*Holds)(const Value&)>
bool Plain(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "the test", args, {});
  return Holds(self);
}

bool IsDefined(const Value& value) { return !value.is(Kind::kUndefined); }
bool IsUndefined(const Value& value) { return value.is(Kind::kUndefined); }
bool IsNone(const Value& value) { return value.is(Kind::kNone); }
bool IsBoolean(const Value& value) { return value.is(Kind::kBool); }
bool IsTrueValue(const Value& value) { return value.is(Kind::kBool) && value.whole != 0; }
bool IsFalseValue(const Value& value) { return value.is(Kind::kBool) && value.whole == 0; }
bool IsIntegerValue(const Value& value) { return value.is(Kind::kInt); }
bool IsFloatValue(const Value& value) { return value.is(Kind::kFloat); }
bool IsNumberValue(const Value& value) { return value.is_number(); }
bool IsStringValue(const Value& value) { return value.is(Kind::kString); }
bool IsMapping(const Value& value) { return value.is(Kind::kDict); }
bool IsEscaped(const Value& value) {
  return value.is(Kind::kString) && value.as<StringObject>().safe;
}
bool IsCallableValue(const Value& value) {
  return value.is(Kind::kCallable) || value.is(Kind::kUndefined) || value.is(Kind::kLoop);
}
bool IsSequenceValue(const Value& value) { return HasLength(value) && !value.is(Kind::kView); }
bool IsIterableValue(const Value& value) { return IsIterable(value); }

bool HasCaseOf(Run& run, const Value& self, bool lower) {
  const std::string text = ToText(run, self);
  bool has = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = ReadChar(text, &i);
    if (lower ? IsUpperCharacter(c) : IsLowerCharacter(c)) return false;
    has = has || (lower ? IsLowerCharacter(c) : IsUpperCharacter(c));
  }
  return has;
}

bool IsLowerTest(Run& run, const Value& self, const Args&) { return HasCaseOf(run, self, true); }
bool IsUpperTest(Run& run, const Value& self, const Args&) { return HasCaseOf(run, self, false); }

bool Divides(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "divisibleby", args, {"num"}, 1);
  const Value rest = Arithmetic(run, "%", self, bound[0]);
  return rest.is_number() && rest.as_double() == 0;
}

bool HasRemainder(Run& run, const Value& self, int64_t wanted) {
  const Value rest = Arithmetic(run, "%", self, Value::Int(2));
  return rest.is_number() && rest.as_double() == static_cast<double>(wanted);
}
bool IsOdd(Run& run, const Value& self, const Args&) { return HasRemainder(run, self, 1); }
bool IsEven(Run& run, const Value& self, const Args&) { return HasRemainder(run, self, 0); }

template <bool (*Holds)(Run&, const Value&, const Value&)>
bool Compares(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "the test", args, {"other"}, 1);
  return Holds(run, self, bound[0]);
}

bool NotEqual(Run& run, const Value& a, const Value& b) { return !IsEqual(run, a, b); }
bool Greater(Run& run, const Value& a, const Value& b) { return IsLess(run, b, a); }
bool AtMost(Run& run, const Value& a, const Value& b) {
  return IsLess(run, a, b) || IsEqual(run, a, b);
}
bool AtLeast(Run& run, const Value& a, const Value& b) { return AtMost(run, b, a); }

bool IsSame(Run&, const Value& a, const Value& b) {
  if (a.kind != b.kind) return false;
  if (a.object != nullptr) return a.object == b.object;
  return a.is(Kind::kFloat) ? a.real == b.real : a.is(Kind::kNone) || a.whole == b.whole;
}

bool IsFilterName(Run& run, const Value& self, const Args&) {
  return FindFilter(ToText(run, self)) != nullptr;
}
bool IsTestName(Run& run, const Value& self, const Args&) {
  return FindTest(ToText(run, self)) != nullptr;
}

struct TestEntry {
  std::string_view name;
  Test test;
};

constexpr TestEntry kTests[] = {
    {"defined", Plain<IsDefined>},
    {"undefined", Plain<IsUndefined>},
    {"none", Plain<IsNone>},
    {"boolean", Plain<IsBoolean>},
    {"true", Plain<IsTrueValue>},
    {"false", Plain<IsFalseValue>},
    {"integer", Plain<IsIntegerValue>},
    {"float", Plain<IsFloatValue>},
    {"number", Plain<IsNumberValue>},
    {"string", Plain<IsStringValue>},
    {"mapping", Plain<IsMapping>},
    {"sequence", Plain<IsSequenceValue>},
    {"iterable", Plain<IsIterableValue>},
    {"callable", Plain<IsCallableValue>},
    {"escaped", Plain<IsEscaped>},
    {"lower", IsLowerTest},
    {"upper", IsUpperTest},
    {"divisibleby", Divides},
    {"odd", IsOdd},
    {"even", IsEven},
    {"sameas", Compares<IsSame>},
    {"in", Compares<Contains>},
    {"==", Compares<IsEqual>},
    {"eq", Compares<IsEqual>},
    {"equalto", Compares<IsEqual>},
    {"!=", Compares<NotEqual>},
    {"ne", Compares<NotEqual>},
    {"<", Compares<IsLess>},
    {"lt", Compares<IsLess>},
    {"lessthan", Compares<IsLess>},
    {">", Compares<Greater>},
    {"gt", Compares<Greater>},
    {"greaterthan", Compares<Greater>},
    {"<=", Compares<AtMost>},
    {"le", Compares<AtMost>},
    {">=", Compares<AtLeast>},
    {"ge", Compares<AtLeast>},
    {"filter", IsFilterName},
    {"test", IsTestName},
};

}  // namespace

Test FindTest(std::string_view name) {
  const auto found =
      std::ranges::find_if(kTests, [&](const TestEntry& one) { return one.name == name; });
  return found == std::end(kTests) ? nullptr : found->test;
}

}  // namespace beamline::jinja
