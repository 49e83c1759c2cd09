#include "engine/jinja/text_format.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "engine/jinja/operators.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

// The part between the % or colon and the final letter.
struct Spec {
  bool left = false;
  bool right = false;
  bool center = false;
  bool zeros = false;
  bool sign = false;
  bool space = false;
  bool commas = false;
  char fill = ' ';
  int width = 0;
  int precision = -1;
  char type = '\0';
};

constexpr int kMostWidth = 10000;

std::string Digits(Run& run, const Value& value, const Spec& spec) {
  const auto real = [&] {
    if (!value.is_number()) {
      run.Fail(fmt::format("must be real number, not {}", TypeName(value)));
    }
    return value.as_double();
  };
  const auto whole = [&] {
    if (value.is(Kind::kFloat) && std::abs(value.real) < 0x1p62) {
      return static_cast<int64_t>(value.real);
    }
    return Whole(run, value, "a number to format");
  };
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case 'd':
    case 'i':
    case 'u':
      return fmt::to_string(whole());
    case 'x':
      return fmt::format("{:x}", whole());
    case 'X':
      return fmt::format("{:X}", whole());
    case 'o':
      return fmt::format("{:o}", whole());
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", real(), precision);
    case 'e':
      return fmt::format("{:.{}e}", real(), precision);
    case 'g':
      return fmt::format("{:.{}g}", real(), precision);
    default:
      break;
  }
  run.Fail(fmt::format("the format '{}' is not supported", Shorten(std::string(1, spec.type))));
}

std::string Pad(std::string text, const Spec& spec, bool is_number) {
  if (is_number && spec.commas) {
    size_t end = text.find_first_not_of("-0123456789");
    if (end == std::string::npos) end = text.size();
    const size_t begin = text.starts_with('-') ? 1 : 0;
    while (end > begin + 3) text.insert(end -= 3, ",");
  }
  if (is_number && !text.starts_with('-')) {
    if (spec.sign) {
      text.insert(0, "+");
    } else if (spec.space) {
      text.insert(0, " ");
    }
  }
  size_t length = 0;
  for (const char c : text) length += IsContinuationByte(c) ? 0 : 1;
  const auto width = static_cast<size_t>(spec.width);
  if (length >= width) return text;
  const size_t missing = width - length;
  if (spec.zeros && is_number && !spec.left) {
    const size_t begin = text.find_first_not_of("+- ");
    return text.insert(begin == std::string::npos ? 0 : begin, missing, '0');
  }
  if (spec.center) {
    return std::string(missing / 2, spec.fill) + text +
           std::string(missing - missing / 2, spec.fill);
  }
  const bool left = spec.left || (!spec.right && !is_number);
  return left ? text + std::string(missing, spec.fill) : std::string(missing, spec.fill) + text;
}

std::string CutText(std::string text, int precision) {
  if (precision < 0) return text;
  size_t end = 0;
  for (int i = 0; i < precision && end < text.size(); ++i) end += CharLength(text[end]);
  text.resize(end);
  return text;
}

int ReadCount(Run& run, std::string_view format, size_t* i) {
  int count = 0;
  while (*i < format.size() && format[*i] >= '0' && format[*i] <= '9') {
    count = count * 10 + (format[(*i)++] - '0');
    if (count > kMostWidth) run.Fail(fmt::format("a format's width is above {}", kMostWidth));
  }
  return count;
}

// Reads flags, width, precision and type after a %.
Spec ReadPercent(Run& run, std::string_view format, size_t* i) {
  Spec spec;
  for (; *i < format.size(); ++*i) {
    const char c = format[*i];
    if (c == '-') {
      spec.left = true;
    } else if (c == '0') {
      spec.zeros = true;
    } else if (c == '+') {
      spec.sign = true;
    } else if (c == ' ') {
      spec.space = true;
    } else {
      break;
    }
  }
  spec.width = ReadCount(run, format, i);
  if (*i < format.size() && format[*i] == '.') {
    ++*i;
    spec.precision = ReadCount(run, format, i);
  }
  if (*i == format.size()) run.Fail("incomplete format");
  spec.type = format[(*i)++];
  // The default alignment is to the right, even for texts.
  spec.right = !spec.left;
  return spec;
}

// Reads the format after the colon of a replacement field.
Spec ReadSpec(Run& run, std::string_view text) {
  Spec spec;
  size_t i = 0;
  const auto align = [&](char c) {
    spec.left = c == '<';
    spec.right = c == '>';
    spec.center = c == '^';
    return spec.left || spec.right || spec.center;
  };
  if (text.size() > 1 && align(text[1])) {
    spec.fill = text[0];
    i = 2;
  } else if (!text.empty() && align(text[0])) {
    i = 1;
  }
  if (i < text.size() && (text[i] == '+' || text[i] == '-' || text[i] == ' ')) {
    spec.sign = text[i] == '+';
    spec.space = text[i] == ' ';
    ++i;
  }
  if (i < text.size() && text[i] == '0') spec.zeros = true;
  spec.width = ReadCount(run, text, &i);
  if (i < text.size() && text[i] == ',') {
    spec.commas = true;
    ++i;
  }
  if (i < text.size() && text[i] == '.') {
    ++i;
    spec.precision = ReadCount(run, text, &i);
  }
  if (i < text.size()) spec.type = text[i++];
  if (i < text.size() || static_cast<unsigned char>(spec.fill) >= 0x80) {
    run.Fail(fmt::format("the format '{}' is not supported", Shorten(text)));
  }
  return spec;
}

// Generated digits cost more than copied ones.
void CountDigits(Run& run, const Spec& spec) {
  constexpr int kDigitsPerStep = 4;
  run.Step(1 + static_cast<size_t>((std::max(spec.precision, 0) + spec.width) / kDigitsPerStep));
}

std::string FormatValue(Run& run, const Value& value, std::string_view text) {
  if (text.empty()) return ToText(run, value);
  const Spec spec = ReadSpec(run, text);
  CountDigits(run, spec);
  if (value.is(Kind::kString) && (spec.type == '\0' || spec.type == 's')) {
    run.Touch(2 * Text(value).size());
    return Pad(CutText(Text(value), spec.precision), spec, false);
  }
  if (!value.is_number()) {
    run.Fail(fmt::format("unsupported format of a {}", TypeName(value)));
  }
  if (spec.type == '%') {
    const int precision = spec.precision < 0 ? 6 : spec.precision;
    return Pad(fmt::format("{:.{}f}%", value.as_double() * 100, precision), spec, true);
  }
  if (spec.type == '\0') {
    if (spec.precision >= 0) {
      return Pad(fmt::format("{:.{}g}", value.as_double(), spec.precision), spec, true);
    }
    return Pad(value.is(Kind::kBool) ? fmt::to_string(value.whole) : ToText(run, value), spec,
               true);
  }
  return Pad(Digits(run, value, spec), spec, true);
}

// The value of a replacement field: "", "0", "name", "name.member", "0[key]".
Value FieldValue(Run& run, std::string_view field, const Args& args, size_t* next) {
  size_t end = field.find_first_of(".[");
  if (end == std::string_view::npos) end = field.size();
  const std::string_view name = field.substr(0, end);
  int64_t index = 0;
  std::optional<Value> value;
  if (name.empty() || ParseIndex(name, &index)) {
    if (name.empty()) index = static_cast<int64_t>((*next)++);
    const auto place = static_cast<size_t>(index);
    if (place < args.positional.size()) value = args.positional[place];
  } else {
    constexpr size_t kNamesPerStep = 16;
    run.Step(args.named.size() / kNamesPerStep);
    for (const auto& [known, held] : args.named) {
      if (known == name) value = held;
    }
  }
  if (!value.has_value()) {
    run.Fail(fmt::format("there is no argument '{}' to format", Shorten(name)));
  }
  while (end < field.size()) {
    if (field[end] == '.') {
      const size_t stop = std::min(field.find_first_of(".[", end + 1), field.size());
      value = Attribute(run, *value, field.substr(end + 1, stop - end - 1));
      end = stop;
      continue;
    }
    const size_t stop = field.find(']', end);
    if (stop == std::string_view::npos) run.Fail("expected ']' in a format");
    const std::string_view key = field.substr(end + 1, stop - end - 1);
    int64_t number = 0;
    value = Item(run, *value,
                 ParseIndex(key, &number) ? Value::Int(number) : run.String(std::string(key)));
    end = stop + 1;
  }
  return *std::move(value);
}

}  // namespace

Value PercentFormat(Run& run, const std::string& format, const Value& value) {
  const bool is_tuple = value.is(Kind::kTuple);
  size_t next = 0;
  const auto take = [&]() -> Value {
    if (next >= (is_tuple ? Items(value).size() : 1)) {
      run.Fail("not enough arguments for format string");
    }
    return is_tuple ? Items(value)[next++] : (++next, value);
  };
  std::string made;
  for (size_t i = 0; i < format.size();) {
    run.CheckOutput(made.size());
    const size_t begin = i;
    i = std::min(format.find('%', i), format.size());
    made.append(format, begin, i - begin);
    if (i == format.size()) break;
    ++i;
    std::optional<Value> one;
    if (i < format.size() && format[i] == '(') {
      const size_t end = format.find(')', i);
      if (end == std::string::npos) run.Fail("incomplete format key");
      one = Item(run, value, run.String(format.substr(i + 1, end - i - 1)));
      next = 1;
      i = end + 1;
    }
    const Spec spec = ReadPercent(run, format, &i);
    run.Touch(i - begin);
    CountDigits(run, spec);
    if (spec.type == '%') {
      made.push_back('%');
      continue;
    }
    if (!one.has_value()) one = take();
    if (spec.type == 's' || spec.type == 'r') {
      const std::string text = spec.type == 's' ? ToText(run, *one) : Repr(run, *one);
      made += Pad(CutText(text, spec.precision), spec, false);
    } else {
      made += Pad(Digits(run, *one, spec), spec, true);
    }
  }
  // Values with keys may have unused ones; as in Python, this includes lists.
  const bool needs_all = !value.is(Kind::kDict) && !value.is(Kind::kList) &&
                         !value.is(Kind::kRange) && !value.is(Kind::kUndefined);
  if (needs_all && next < (is_tuple ? Items(value).size() : 1)) {
    run.Fail("not all arguments converted during string formatting");
  }
  return run.String(std::move(made));
}

Value BraceFormat(Run& run, const std::string& format, const Args& args) {
  std::string made;
  size_t next = 0;
  for (size_t i = 0; i < format.size();) {
    run.Step();
    run.CheckOutput(made.size());
    const char c = format[i++];
    if (c != '{' && c != '}') {
      made.push_back(c);
      continue;
    }
    if (i < format.size() && format[i] == c) {
      made.push_back(c);
      ++i;
      continue;
    }
    const size_t end = format.find('}', i);
    if (c == '}' || end == std::string::npos) run.Fail("a single brace in a format");
    std::string_view field = std::string_view(format).substr(i, end - i);
    if (field.find('{') != std::string_view::npos) {
      run.Fail("formats within formats are not supported");
    }
    i = end + 1;
    const size_t colon = std::min(field.find(':'), field.size());
    const std::string_view spec = field.substr(std::min(colon + 1, field.size()));
    field = field.substr(0, colon);
    char conversion = '\0';
    if (field.size() > 1 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field.remove_suffix(2);
    }
    Value value = FieldValue(run, field, args, &next);
    if (conversion == 'r') value = run.String(Repr(run, value));
    if (conversion == 's') value = run.String(ToText(run, value));
    made += FormatValue(run, value, spec);
  }
  return run.String(std::move(made));
}

}  // namespace beamline::jinja
