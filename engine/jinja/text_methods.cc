// Long because every string method has a function.
#include "engine/jinja/text_methods.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "engine/jinja/arguments.h"
#include "engine/jinja/characters.h"
#include "engine/jinja/methods.h"
#include "engine/jinja/operators.h"
#include "engine/jinja/search.h"
#include "engine/jinja/text_format.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

// The result of a method of safe text is safe, too.
Value Like(Run& run, const Value& self, std::string text) {
  return run.String(std::move(text), self.as<StringObject>().safe);
}

Value StripMethod(Run& run, const Value& self, const Args& args, std::string_view name,
                  StripSides sides) {
  const Bound bound(run, name, args, {"chars"});
  if (bound[0].is(Kind::kNone)) return Like(run, self, Strip(run, Text(self), nullptr, sides));
  const std::string characters = bound.Text(0, "");
  return Like(run, self, Strip(run, Text(self), &characters, sides));
}

Value StripBoth(Run& run, const Value& self, const Args& args) {
  return StripMethod(run, self, args, "strip", StripSides::kBoth);
}
Value StripLeft(Run& run, const Value& self, const Args& args) {
  return StripMethod(run, self, args, "lstrip", StripSides::kLeft);
}
Value StripRight(Run& run, const Value& self, const Args& args) {
  return StripMethod(run, self, args, "rstrip", StripSides::kRight);
}

template <std::string (*Change)(std::string_view)>
Value Changed(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "the method", args, {});
  run.Room(4 * Text(self).size());
  if constexpr (Change == &Title || Change == &SwapCase) {
    run.Step(kStepsPerCharacter * Text(self).size());
  }
  return Like(run, self, Change(Text(self)));
}

// Splits text at separators; at most `most` cuts, unlimited if negative.
std::vector<std::string_view> Cut(Run& run, std::string_view text, std::string_view separator,
                                  int64_t most, bool from_right) {
  std::vector<std::string_view> pieces;
  std::optional<LastFinder> last;
  if (from_right) last.emplace(run, separator);
  while (most != 0) {
    const size_t place = from_right ? last->Find(text) : FindText(run, text, separator);
    if (place == std::string_view::npos) break;
    const std::string_view rest = text.substr(place + separator.size());
    pieces.push_back(from_right ? rest : text.substr(0, place));
    text = from_right ? text.substr(0, place) : rest;
    --most;
  }
  pieces.push_back(text);
  if (from_right) std::ranges::reverse(pieces);
  return pieces;
}

bool StartsWithSpace(std::string_view text, size_t* length) {
  size_t end = 0;
  const char32_t c = ReadChar(text, &end);
  *length = end;
  return IsSpace(c);
}

bool EndsWithSpace(std::string_view text, size_t* begin) {
  return IsSpace(ReadCharBefore(text, text.size(), begin));
}

std::vector<std::string_view> CutAtSpace(Run& run, std::string_view text, int64_t most,
                                         bool from_right) {
  std::vector<std::string_view> pieces;
  size_t place = 0;
  const auto strip_left = [&] {
    while (!text.empty() && StartsWithSpace(text, &place)) text.remove_prefix(place);
  };
  const auto strip_right = [&] {
    while (!text.empty() && EndsWithSpace(text, &place)) text = text.substr(0, place);
  };
  while (true) {
    run.Step();
    if (from_right) {
      strip_right();
    } else {
      strip_left();
    }
    if (text.empty()) break;
    if (most == 0) {
      pieces.push_back(text);  // keeps white space at its far end
      break;
    }
    size_t end = from_right ? text.size() : 0;
    if (from_right) {
      while (end > 0 && !EndsWithSpace(text.substr(0, end), &place)) end = place;
      pieces.push_back(text.substr(end));
      text = text.substr(0, end);
    } else {
      while (end < text.size() && !StartsWithSpace(text.substr(end), &place)) end += place;
      pieces.push_back(text.substr(0, end));
      text = text.substr(end);
    }
    --most;
  }
  if (from_right) std::ranges::reverse(pieces);
  return pieces;
}

Value SplitMethod(Run& run, const Value& self, const Args& args, std::string_view name,
                  bool from_right) {
  const Bound bound(run, name, args, {"sep", "maxsplit"});
  const std::string& text = Text(self);
  const int64_t most = bound.Whole(1, -1);
  run.Touch(text.size());
  std::vector<std::string_view> pieces;
  std::string separator;
  if (bound[0].is(Kind::kNone)) {
    run.Room(text.size() / 2 * sizeof(std::string_view));
    pieces = CutAtSpace(run, text, most, from_right);
  } else {
    separator = bound.Text(0, "");
    if (separator.empty()) run.Fail("empty separator");
    run.Room(text.size() / separator.size() * sizeof(std::string_view));
    pieces = Cut(run, text, separator, most, from_right);
  }
  std::vector<Value> made;
  for (const std::string_view piece : pieces) {
    run.Step();
    made.push_back(Like(run, self, std::string(piece)));
  }
  return run.List(std::move(made));
}

Value Split(Run& run, const Value& self, const Args& args) {
  return SplitMethod(run, self, args, "split", false);
}
Value SplitRight(Run& run, const Value& self, const Args& args) {
  return SplitMethod(run, self, args, "rsplit", true);
}

Value SplitLines(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "splitlines", args, {"keepends"});
  const std::string& text = Text(self);
  std::vector<Value> lines;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t end = i;
    const char32_t c = ReadChar(text, &i);
    run.Step();
    const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                      c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    lines.push_back(run.String(text.substr(begin, (bound.IsTrue(0) ? i : end) - begin)));
    begin = i;
  }
  if (begin < text.size()) lines.push_back(run.String(text.substr(begin)));
  return run.List(std::move(lines));
}

Value Partition(Run& run, const Value& self, const Args& args, bool from_right) {
  const Bound bound(run, "partition", args, {"sep"}, 1);
  const std::string separator = bound.Text(0, "");
  if (separator.empty()) run.Fail("empty separator");
  const std::string& text = Text(self);
  const size_t place =
      from_right ? LastFinder(run, separator).Find(text) : FindText(run, text, separator);
  if (place == std::string::npos) {
    Value whole = run.String(text);
    Value none = run.String("");
    return from_right ? run.Tuple({none, none, whole}) : run.Tuple({whole, none, none});
  }
  return run.Tuple({run.String(text.substr(0, place)), run.String(separator),
                    run.String(text.substr(place + separator.size()))});
}

Value PartitionLeft(Run& run, const Value& self, const Args& args) {
  return Partition(run, self, args, false);
}
Value PartitionRight(Run& run, const Value& self, const Args& args) {
  return Partition(run, self, args, true);
}

// The part of the text from character `start` to `stop`, as in a slice, and its start in bytes and
// characters. False if the start is after the end.
bool Window(Run& run, const Value& self, const Bound& bound, std::string_view* window,
            int64_t* first) {
  const auto& object = self.as<StringObject>();
  const int64_t size = CountCharacters(run, object);
  const auto clamp = [&](size_t i, int64_t otherwise) {
    int64_t index = bound[i].is(Kind::kNone) ? otherwise : bound.Whole(i, otherwise);
    if (index < 0) index = index < -size ? 0 : index + size;
    return index;
  };
  const int64_t start = clamp(1, 0);
  const int64_t stop = std::min(clamp(2, size), size);
  if (start > size || stop < start) return false;
  size_t begin = 0;
  for (int64_t i = 0; i < start; ++i) begin += CharLength(object.text[begin]);
  size_t end = begin;
  for (int64_t i = start; i < stop; ++i) end += CharLength(object.text[end]);
  run.Touch(end);
  *window = std::string_view(object.text).substr(begin, end - begin);
  *first = start;
  return true;
}

int64_t CharactersIn(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return !IsContinuationByte(c); });
}

int64_t FindIn(Run& run, const Value& self, const Args& args, std::string_view name,
               bool from_right) {
  const Bound bound(run, name, args, {"sub", "start", "end"}, 1);
  std::string_view window;
  int64_t first = 0;
  const std::string wanted = bound.Text(0, "");
  if (!Window(run, self, bound, &window, &first)) return -1;
  const size_t place =
      from_right ? LastFinder(run, wanted).Find(window) : FindText(run, window, wanted);
  if (place == std::string_view::npos) return -1;
  return first + CharactersIn(window.substr(0, place));
}

Value Find(Run& run, const Value& self, const Args& args) {
  return Value::Int(FindIn(run, self, args, "find", false));
}
Value FindRight(Run& run, const Value& self, const Args& args) {
  return Value::Int(FindIn(run, self, args, "rfind", true));
}
Value Index(Run& run, const Value& self, const Args& args) {
  const int64_t place = FindIn(run, self, args, "index", false);
  if (place < 0) run.Fail("substring not found");
  return Value::Int(place);
}

Value Count(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "count", args, {"sub", "start", "end"}, 1);
  const std::string wanted = bound.Text(0, "");
  std::string_view window;
  int64_t first = 0;
  if (!Window(run, self, bound, &window, &first)) return Value::Int(0);
  if (wanted.empty()) return Value::Int(CharactersIn(window) + 1);
  int64_t count = 0;
  for (size_t i = FindText(run, window, wanted); i != std::string_view::npos;
       i = FindText(run, window, wanted, i + wanted.size())) {
    ++count;
  }
  return Value::Int(count);
}

Value Affix(Run& run, const Value& self, const Args& args, std::string_view name, bool at_end) {
  const Bound bound(run, name, args, {"affix", "start", "end"}, 1);
  std::string_view window;
  int64_t first = 0;
  if (bound[0].is(Kind::kUndefined)) FailUndefined(run, bound[0]);
  std::vector<Value> wanted = {bound[0]};
  if (bound[0].is(Kind::kTuple)) wanted = Iterate(run, bound[0]);
  const bool has_window = Window(run, self, bound, &window, &first);
  for (const Value& one : wanted) {
    if (!one.is(Kind::kString)) {
      run.Fail(
          fmt::format("{} first arg must be str or a tuple of str, not {}", name, TypeName(one)));
    }
    run.Step();
    run.Touch(std::min(Text(one).size(), window.size()));
    if (has_window && (at_end ? window.ends_with(Text(one)) : window.starts_with(Text(one)))) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

Value StartsWith(Run& run, const Value& self, const Args& args) {
  return Affix(run, self, args, "startswith", false);
}
Value EndsWith(Run& run, const Value& self, const Args& args) {
  return Affix(run, self, args, "endswith", true);
}

Value RemovePrefix(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "removeprefix", args, {"prefix"}, 1);
  const std::string prefix = bound.Text(0, "");
  const std::string& text = Text(self);
  return Like(run, self, text.starts_with(prefix) ? text.substr(prefix.size()) : text);
}

Value RemoveSuffix(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "removesuffix", args, {"suffix"}, 1);
  const std::string suffix = bound.Text(0, "");
  const std::string& text = Text(self);
  return Like(run, self,
              text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text);
}

Value ReplaceMethod(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "replace", args, {"old", "new", "count"}, 2);
  return Like(run, self,
              Replace(run, Text(self), bound.Text(0, ""), bound.Text(1, ""), bound.Whole(2, -1)));
}

Value Join(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "join", args, {"iterable"}, 1);
  std::string made;
  bool is_first = true;
  for (const Value& item : Iterate(run, bound[0])) {
    if (!item.is(Kind::kString)) {
      run.Fail(fmt::format("expected str instance, {} found", TypeName(item)));
    }
    run.Room(made.size() + Text(self).size() + Text(item).size() >= made.capacity()
                 ? made.size() + Text(item).size()
                 : 0);
    if (!is_first) made += Text(self);
    made += Text(item);
    is_first = false;
  }
  return Like(run, self, std::move(made));
}

Value Format(Run& run, const Value& self, const Args& args) {
  return BraceFormat(run, Text(self), args);
}

Value Padded(Run& run, const Value& self, const Args& args, std::string_view name) {
  const Bound bound(run, name, args, {"width", "fillchar"}, 1);
  const std::string fill = bound.Text(1, name == "zfill" ? "0" : " ");
  if (CharactersIn(fill) != 1) run.Fail("the fill character must be exactly one character long");
  const int64_t missing = bound.Whole(0, 0) - CountCharacters(run, self.as<StringObject>());
  if (missing <= 0) return self;
  if (missing > (int64_t{1} << 30)) run.Fail("a text that is too long");
  run.Room(static_cast<size_t>(missing) * fill.size());
  int64_t left = name == "ljust" ? 0 : missing;
  // Rounds as Python does.
  if (name == "center") left = missing / 2 + (missing & bound.Whole(0, 0) & 1);
  std::string text = Text(self);
  size_t begin = 0;
  if (name == "zfill" && (text.starts_with('-') || text.starts_with('+'))) begin = 1;
  std::string made = text.substr(0, begin);
  for (int64_t i = 0; i < left; ++i) made += fill;
  made += text.substr(begin);
  for (int64_t i = left; i < missing; ++i) made += fill;
  return Like(run, self, std::move(made));
}

Value PadLeft(Run& run, const Value& self, const Args& args) {
  return Padded(run, self, args, "rjust");
}
Value PadRight(Run& run, const Value& self, const Args& args) {
  return Padded(run, self, args, "ljust");
}
Value Center(Run& run, const Value& self, const Args& args) {
  return Padded(run, self, args, "center");
}
Value ZeroFill(Run& run, const Value& self, const Args& args) {
  return Padded(run, self, args, "zfill");
}

template <bool (*Holds)(char32_t)>
Value AllAre(Run& run, const Value& self, const Args& args) {
  const Bound bound(run, "the method", args, {});
  const std::string& text = Text(self);
  run.Touch(text.size());
  for (size_t i = 0; i < text.size();) {
    if (!Holds(ReadChar(text, &i))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

bool IsAlphanumeric(char32_t c) {
  return IsAlpha(c) || IsDecimal(c) || IsDigitCharacter(c) || IsNumericCharacter(c);
}

// Whether there are letters of this case and none of the other case.
Value HasCase(Run& run, const Value& self, const Args& args, bool lower) {
  const Bound bound(run, "the method", args, {});
  const std::string& text = Text(self);
  run.Touch(text.size());
  bool has = false;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = ReadChar(text, &i);
    if (lower ? IsUpperCharacter(c) : IsLowerCharacter(c)) return Value::Bool(false);
    has = has || (lower ? IsLowerCharacter(c) : IsUpperCharacter(c));
  }
  return Value::Bool(has);
}

Value IsLower(Run& run, const Value& self, const Args& args) {
  return HasCase(run, self, args, true);
}
Value IsUpper(Run& run, const Value& self, const Args& args) {
  return HasCase(run, self, args, false);
}

struct TextMethod {
  std::string_view name;
  Native native;
};

constexpr TextMethod kTextMethods[] = {
    {"strip", StripBoth},
    {"lstrip", StripLeft},
    {"rstrip", StripRight},
    {"upper", Changed<Upper>},
    {"lower", Changed<Lower>},
    {"title", Changed<Title>},
    {"capitalize", Changed<Capitalize>},
    {"swapcase", Changed<SwapCase>},
    {"split", Split},
    {"rsplit", SplitRight},
    {"splitlines", SplitLines},
    {"partition", PartitionLeft},
    {"rpartition", PartitionRight},
    {"find", Find},
    {"rfind", FindRight},
    {"index", Index},
    {"count", Count},
    {"startswith", StartsWith},
    {"endswith", EndsWith},
    {"removeprefix", RemovePrefix},
    {"removesuffix", RemoveSuffix},
    {"replace", ReplaceMethod},
    {"join", Join},
    {"format", Format},
    {"ljust", PadRight},
    {"rjust", PadLeft},
    {"center", Center},
    {"zfill", ZeroFill},
    {"isspace", AllAre<IsSpace>},
    {"isalpha", AllAre<IsAlpha>},
    {"isdecimal", AllAre<IsDecimal>},
    {"isdigit", AllAre<IsDigitCharacter>},
    {"isnumeric", AllAre<IsNumericCharacter>},
    {"isalnum", AllAre<IsAlphanumeric>},
    {"islower", IsLower},
    {"isupper", IsUpper},
};

constexpr std::string_view kOtherMethods[] = {
    "casefold", "encode",      "expandtabs", "format_map", "isascii",  "isidentifier",
    "istitle",  "isprintable", "maketrans",  "rindex",     "translate"};

}  // namespace

Native FindTextMethod(std::string_view name) {
  const auto found =
      std::ranges::find_if(kTextMethods, [&](const TextMethod& one) { return one.name == name; });
  return found == std::end(kTextMethods) ? nullptr : found->native;
}

bool IsOtherTextMethod(std::string_view name) {
  return std::ranges::find(kOtherMethods, name) != std::end(kOtherMethods);
}

std::string Strip(Run& run, std::string_view text, const std::string* characters,
                  StripSides sides) {
  run.Touch(text.size());
  std::vector<char32_t> stripped;
  if (characters != nullptr) {
    run.Room(characters->size() * sizeof(char32_t));
    for (size_t i = 0; i < characters->size();) stripped.push_back(ReadChar(*characters, &i));
    std::ranges::sort(stripped);
  }
  const auto strips = [&](std::string_view one) {
    size_t end = 0;
    const char32_t c = ReadChar(one, &end);
    return characters == nullptr ? IsSpace(c) : std::ranges::binary_search(stripped, c);
  };
  while (sides != StripSides::kRight && !text.empty()) {
    const size_t length = CharLength(text[0]);
    if (!strips(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (sides != StripSides::kLeft && !text.empty()) {
    size_t begin = 0;
    ReadCharBefore(text, text.size(), &begin);
    if (!strips(text.substr(begin))) break;
    text = text.substr(0, begin);
  }
  return std::string(text);
}

std::string Replace(Run& run, std::string_view text, std::string_view old_text,
                    std::string_view new_text, int64_t count) {
  std::string made;
  run.Room(text.size());
  // An empty `old_text` matches between all characters.
  const auto add = [&](std::string_view piece) {
    if (made.size() + piece.size() > made.capacity()) run.Room(2 * (made.size() + piece.size()));
    run.Step();
    made += piece;
  };
  for (size_t i = 0; i <= text.size();) {
    const size_t place = count == 0 ? std::string_view::npos : FindText(run, text, old_text, i);
    if (place == std::string_view::npos) {
      add(text.substr(i));
      break;
    }
    add(text.substr(i, place - i));
    add(new_text);
    --count;
    i = place + old_text.size();
    if (!old_text.empty()) continue;
    if (i == text.size()) break;
    const size_t length = CharLength(text[i]);
    add(text.substr(i, length));
    i += length;
  }
  return made;
}

}  // namespace beamline::jinja
