#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "engine/jinja/arguments.h"
#include "engine/jinja/characters.h"
#include "engine/jinja/filters.h"
#include "engine/jinja/methods.h"
#include "engine/jinja/operators.h"
#include "engine/jinja/text_format.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

// Like soft_str: safe text stays safe.
Value SoftLike(Run& run, const Value& self, std::string text) {
  return run.String(std::move(text), self.is(Kind::kString) && self.as<StringObject>().safe);
}

Value Trim(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "trim", args, {"chars"});
  const std::string text = SoftText(run, self);
  if (bound[0].is(Kind::kNone)) return SoftLike(run, self, Strip(run, text, nullptr));
  const std::string characters = bound.Text(0, "");
  return SoftLike(run, self, Strip(run, text, &characters));
}

// Jinja's own title: words start after spaces and opening brackets.
std::string TitleWords(std::string_view text) {
  std::string made;
  size_t begin = 0;
  bool separates = false;
  const auto flush = [&](size_t end) {
    if (begin == end) return;
    const size_t first = begin + CharLength(text[begin]);
    made += Upper(text.substr(begin, first - begin)) + Lower(text.substr(first, end - first));
    begin = end;
  };
  for (size_t i = 0; i < text.size();) {
    const size_t place = i;
    const char32_t c = ReadChar(text, &i);
    const bool is_separator =
        IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (is_separator != separates) flush(place);
    separates = is_separator;
  }
  flush(text.size());
  return made;
}

template <std::string (*Change)(std::string_view)>
Value ChangedText(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "the filter", args, {});
  const std::string text = SoftText(run, self);
  run.Room(4 * text.size());
  if constexpr (Change == &TitleWords) run.Step(kStepsPerCharacter * text.size());
  return SoftLike(run, self, Change(text));
}

Value ReplaceFilter(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "replace", args, {"old", "new", "count"}, 2);
  const int64_t count = bound[2].is(Kind::kNone) ? -1 : bound.Whole(2, -1);
  return run.String(
      Replace(run, ToText(run, self), ToText(run, bound[0]), ToText(run, bound[1]), count));
}

Value Default(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "default", args, {"default_value", "boolean"});
  if (!self.is(Kind::kUndefined) && (!bound.IsTrue(1) || Truth(self))) return self;
  return bound.has(0) ? bound[0] : run.String("");
}

Value ToJson(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = bound.IsTrue(0);
  style.sorts_keys = bound.IsTrue(3);
  if (!bound[1].is(Kind::kNone)) {
    style.has_indent = true;
    style.item_separator = ",";
    if (bound[1].is(Kind::kString)) {
      style.indent = Text(bound[1]);
    } else {
      constexpr int64_t kMostIndent = 100;
      style.indent = std::string(
          static_cast<size_t>(std::clamp<int64_t>(bound.Whole(1, 0), 0, kMostIndent)), ' ');
    }
  }
  if (!bound[2].is(Kind::kNone)) {
    const std::vector<Value> separators = Iterate(run, bound[2]);
    if (separators.size() != 2 || !separators[0].is(Kind::kString) ||
        !separators[1].is(Kind::kString)) {
      run.Fail("the separators of tojson() are a pair of texts");
    }
    style.item_separator = Text(separators[0]);
    style.key_separator = Text(separators[1]);
  }
  return run.String(DumpJson(run, self, style));
}

Value StringOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "string", args, {});
  return self.is(Kind::kString) ? self : run.String(ToText(run, self));
}

// A number as Python's int() and float() read it: with white space around it and single
// underscores.
std::string NumberText(std::string_view text) {
  while (!text.empty() && IsSpace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && IsSpace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  std::string number;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1)) continue;
    number.push_back(text[i]);
  }
  if (number.starts_with('+') && number.size() > 1 && number[1] != '-') number.erase(0, 1);
  return number;
}

std::optional<int64_t> ReadWhole(std::string_view text, int base) {
  const std::string number = NumberText(text);
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), value, base);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return value;
}

std::optional<double> ReadFloat(std::string_view text) {
  const std::string number = NumberText(text);
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (end != number.data() + number.size() || number.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) return number[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  if (error != std::errc() || number.find('(') != std::string::npos) return std::nullopt;
  return value;
}

std::optional<int64_t> Truncate(double value) {
  if (!std::isfinite(value) || std::abs(value) >= 0x1p63) return std::nullopt;
  return static_cast<int64_t>(value);
}

Value IntOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "int", args, {"default", "base"});
  const Value otherwise = bound.has(0) ? bound[0] : Value::Int(0);
  const int64_t base = bound.Whole(1, 10);
  if (base < 2 || base > 36) run.Fail("the base of int() is 2 to 36");
  if (self.is(Kind::kUndefined)) FailUndefined(run, self);
  std::optional<int64_t> value;
  if (self.is_whole()) value = self.whole;
  if (self.is(Kind::kFloat)) value = Truncate(self.real);
  if (self.is(Kind::kString)) {
    run.Touch(4 * Text(self).size());
    std::string_view text = Text(self);
    if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
    value = ReadWhole(text, static_cast<int>(base));
    if (!value.has_value()) {
      if (const auto real = ReadFloat(Text(self))) value = Truncate(*real);
    }
  }
  return value.has_value() ? Value::Int(*value) : otherwise;
}

Value FloatOf(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "float", args, {"default"});
  if (self.is(Kind::kUndefined)) FailUndefined(run, self);
  if (self.is_number()) return Value::Float(self.as_double());
  if (self.is(Kind::kString)) {
    run.Touch(2 * Text(self).size());
    if (const auto value = ReadFloat(Text(self))) return Value::Float(*value);
  }
  return bound.has(0) ? bound[0] : Value::Float(0);
}

Value Abs(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "abs", args, {});
  if (self.is(Kind::kUndefined)) FailUndefined(run, self);
  if (self.is(Kind::kFloat)) return Value::Float(std::abs(self.real));
  if (!self.is_whole()) run.Fail(fmt::format("bad operand type for abs(): '{}'", TypeName(self)));
  return self.whole < 0 ? Negative(run, self) : Value::Int(self.whole);
}

// Python's round(), computed from the exact decimal form.
double RoundTo(double value, int64_t precision) {
  constexpr int64_t kMostDigits = 300;
  if (precision > kMostDigits) return value;
  if (precision >= 0) {
    const std::string text = fmt::format("{:.{}f}", value, precision);
    double rounded = 0;
    std::from_chars(text.data(), text.data() + text.size(), rounded);
    return rounded;
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::isfinite(unit) ? std::nearbyint(value / unit) * unit : std::copysign(0.0, value);
}

Value Round(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "round", args, {"precision", "method"});
  const int64_t precision = bound.Whole(0, 0);
  const std::string method = bound.Text(1, "common");
  constexpr int64_t kDigitsPerStep = 8, kMostCounted = 300;
  run.Step(static_cast<size_t>(std::clamp<int64_t>(precision, 0, kMostCounted) / kDigitsPerStep));
  if (self.is(Kind::kUndefined)) FailUndefined(run, self);
  if (!self.is_number()) run.Fail(fmt::format("a {} cannot be rounded", TypeName(self)));
  if (method == "common") {
    if (self.is_whole() && precision >= 0) return Value::Int(self.whole);
    const double rounded = RoundTo(self.as_double(), precision);
    return self.is_whole() ? Value::Int(static_cast<int64_t>(rounded)) : Value::Float(rounded);
  }
  if (method != "ceil" && method != "floor") {
    run.Fail("method must be common, ceil or floor");
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.as_double() * unit;
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

Value Indent(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "indent", args, {"width", "first", "blank"});
  std::string indention;
  if (bound[0].is(Kind::kString)) {
    indention = Text(bound[0]);
  } else {
    constexpr int64_t kMostWidth = 10000;
    indention = std::string(
        static_cast<size_t>(std::clamp<int64_t>(bound.Whole(0, 4), 0, kMostWidth)), ' ');
  }
  if (self.is(Kind::kUndefined)) FailUndefined(run, self);
  if (!self.is(Kind::kString)) run.Fail(fmt::format("a {} cannot be indented", TypeName(self)));
  run.Touch(2 * Text(self).size());
  const std::string text = Text(self) + "\n";
  std::string made;
  bool is_first = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    run.Step();
    if (made.size() + line.size() + indention.size() + 1 > made.capacity()) {
      run.Room(2 * (made.size() + line.size() + indention.size()));
    }
    if (!is_first) made += "\n";
    const bool indents = is_first ? bound.IsTrue(1) : bound.IsTrue(2) || !line.empty();
    if (indents) made += indention;
    made += line;
    is_first = false;
    begin = end + 1;
  }
  return SoftLike(run, self, std::move(made));
}

Value Safe(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "safe", args, {});
  return run.String(ToText(run, self), true);
}

Value EscapeFilter(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "escape", args, {});
  if (self.is(Kind::kString) && self.as<StringObject>().safe) return self;
  const std::string text = ToText(run, self);
  run.Room(5 * text.size());
  return run.String(Escape(text), true);
}

Value FormatFilter(Run& run, const Value& self, const Args& args) {
  if (!args.named.empty() && !args.positional.empty()) {
    run.Fail("can't handle positional and keyword arguments at the same time");
  }
  const std::string format = SoftText(run, self);
  if (args.named.empty()) return PercentFormat(run, format, run.Tuple(args.positional));
  auto dict = std::make_shared<DictObject>();
  for (const auto& [name, value] : args.named) SetMember(run, *dict, run.String(name), value);
  return PercentFormat(run, format, run.Dict(std::move(dict)));
}

Value WordCount(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "wordcount", args, {});
  const std::string text = SoftText(run, self);
  run.Touch(2 * text.size());
  int64_t count = 0;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = ReadChar(text, &i);
    const bool is_word = c == '_' || IsAlpha(c) || IsNumericCharacter(c);
    if (is_word && !in_word) ++count;
    in_word = is_word;
  }
  return Value::Int(count);
}

struct FilterEntry {
  std::string_view name;
  Native filter;
};

constexpr FilterEntry kTextFilters[] = {
    {"trim", Trim},
    {"upper", ChangedText<Upper>},
    {"lower", ChangedText<Lower>},
    {"title", ChangedText<TitleWords>},
    {"capitalize", ChangedText<Capitalize>},
    {"replace", ReplaceFilter},
    {"default", Default},
    {"d", Default},
    {"tojson", ToJson},
    {"string", StringOf},
    {"int", IntOf},
    {"float", FloatOf},
    {"abs", Abs},
    {"round", Round},
    {"indent", Indent},
    {"safe", Safe},
    {"escape", EscapeFilter},
    {"e", EscapeFilter},
    {"format", FormatFilter},
    {"wordcount", WordCount},
};

}  // namespace

Native FindTextFilter(std::string_view name) {
  const auto found =
      std::ranges::find_if(kTextFilters, [&](const FilterEntry& one) { return one.name == name; });
  return found == std::end(kTextFilters) ? nullptr : found->filter;
}

Native FindFilter(std::string_view name) {
  const Native found = FindTextFilter(name);
  return found != nullptr ? found : FindSequenceFilter(name);
}

}  // namespace beamline::jinja
