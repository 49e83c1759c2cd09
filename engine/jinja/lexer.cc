#include "engine/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "engine/jinja/string_literal.h"
#include "fmt/format.h"

namespace beamline::jinja {
namespace {

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// Converts line ends to \n and drops the last one.
std::string Normalize(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text.push_back(source[i]);
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> Run() {
    while (position_ < source_.size()) Root();
    Add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Fail(std::string message) const { throw Fault{std::move(message), line_}; }

  void Add(TokenType type, std::string text, Value value = {}) {
    tokens_.push_back({type, line_, std::move(text), std::move(value)});
  }

  void AddData(std::string_view text) {
    if (!text.empty()) Add(TokenType::kData, std::string(text));
  }

  // Moves to `end` and counts the lines in between.
  void MoveTo(size_t end) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(position_),
                                         source_.begin() + static_cast<ptrdiff_t>(end), '\n'));
    starts_line_ = end > position_ && source_[end - 1] == '\n';
    position_ = end;
  }

  size_t SkipSpace(size_t position) const {
    while (position < source_.size()) {
      size_t next = position;
      if (!IsSpace(ReadChar(source_, &next))) break;
      position = next;
    }
    return position;
  }

  size_t SkipNewline(size_t position) const {
    return position < source_.size() && source_[position] == '\n' ? position + 1 : position;
  }

  bool At(size_t position, std::string_view text) const {
    return source_.substr(std::min(position, source_.size())).starts_with(text);
  }

  // The part of `text` that remains before a tag with this sign.
  std::string_view StripBefore(std::string_view text, char sign, bool is_print) const {
    if (sign == '-') {
      while (!text.empty()) {
        size_t begin = 0;
        if (!IsSpace(ReadCharBefore(text, text.size(), &begin))) break;
        text = text.substr(0, begin);
      }
      return text;
    }
    if (sign == '+' || is_print) return text;
    const size_t newline = text.rfind('\n');
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    if (begin == 0 && !starts_line_) return text;
    size_t position = begin;
    while (position < text.size()) {
      if (!IsSpace(ReadChar(text, &position))) return text;
    }
    return text.substr(0, begin);
  }

  static char SignAt(std::string_view source, size_t position) {
    if (position >= source.size()) return '\0';
    return source[position] == '-' || source[position] == '+' ? source[position] : '\0';
  }

  // Reads text up to the next tag, and that tag.
  void Root() {
    size_t tag = source_.find('{', position_);
    while (tag != std::string_view::npos && !At(tag, "{{") && !At(tag, "{%") && !At(tag, "{#")) {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string_view::npos) {
      AddData(source_.substr(position_));
      return MoveTo(source_.size());
    }
    const char kind = source_[tag + 1];
    const char sign = SignAt(source_, tag + 2);
    AddData(StripBefore(source_.substr(position_, tag - position_), sign, kind == '{'));
    if (kind == '%') {
      if (const auto raw = RawBegin(tag)) {
        MoveTo(*raw);
        return Raw();
      }
    }
    MoveTo(tag + (sign == '\0' ? 2 : 3));
    if (kind == '#') return Comment();
    Add(kind == '{' ? TokenType::kPrintBegin : TokenType::kBlockBegin, "");
    Tag(kind == '{');
  }

  // The position after a "{% raw %}" at `tag`.
  std::optional<size_t> RawBegin(size_t tag) const {
    size_t position = tag + (SignAt(source_, tag + 2) == '\0' ? 2 : 3);
    position = SkipSpace(position);
    if (!At(position, "raw")) return std::nullopt;
    position = SkipSpace(position + 3);
    if (At(position, "-%}")) return SkipSpace(position + 3);
    if (At(position, "%}")) return position + 2;
    return std::nullopt;
  }

  void Raw() {
    for (size_t tag = source_.find("{%", position_); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = SignAt(source_, tag + 2);
      size_t position = SkipSpace(tag + (sign == '\0' ? 2 : 3));
      if (!At(position, "endraw")) continue;
      position = SkipSpace(position + 6);
      size_t end = 0;
      if (At(position, "+%}")) {
        end = position + 3;
      } else if (At(position, "-%}")) {
        end = SkipSpace(position + 3);
      } else if (At(position, "%}")) {
        end = SkipNewline(position + 2);
      } else {
        continue;
      }
      AddData(StripBefore(source_.substr(position_, tag - position_), sign, false));
      return MoveTo(end);
    }
    // As in Jinja, a raw tag at the very end counts as empty.
    if (position_ < source_.size()) Fail("Missing end of raw directive");
  }

  void Comment() {
    const size_t end = source_.find("#}", position_);
    if (end == std::string_view::npos) {
      if (position_ == source_.size()) return;
      Fail("Missing end of comment tag");
    }
    const char sign = end > position_ ? source_[end - 1] : '\0';
    MoveTo(sign == '-' ? SkipSpace(end + 2) : sign == '+' ? end + 2 : SkipNewline(end + 2));
  }

  // Whether the tag ends here; consumes the end.
  bool TagEnd(bool is_print) {
    if (!open_.empty()) return false;
    const std::string_view end = is_print ? "}}" : "%}";
    const bool strips = At(position_, "-") && At(position_ + 1, end);
    const bool keeps = !is_print && At(position_, "+") && At(position_ + 1, end);
    if (!strips && !keeps && !At(position_, end)) return false;
    Add(is_print ? TokenType::kPrintEnd : TokenType::kBlockEnd, "");
    if (strips) {
      MoveTo(SkipSpace(position_ + 3));
    } else if (keeps) {
      MoveTo(position_ + 3);
    } else {
      MoveTo(is_print ? position_ + 2 : SkipNewline(position_ + 2));
    }
    return true;
  }

  void Tag(bool is_print) {
    while (true) {
      MoveTo(SkipSpace(position_));
      if (position_ >= source_.size()) return;  // the parser reports the missing end
      if (TagEnd(is_print)) return;
      const char c = source_[position_];
      if (IsDigit(c)) {
        Number();
      } else if (IsNameStart(c)) {
        size_t end = position_;
        while (end < source_.size() && IsNamePart(source_[end])) ++end;
        Add(TokenType::kName, std::string(source_.substr(position_, end - position_)));
        MoveTo(end);
      } else if (c == '\'' || c == '"') {
        String(c);
      } else {
        Operator();
      }
    }
  }

  // Reads digits with single underscores between them, starting at `position`.
  size_t Digits(size_t position, std::string* digits) const {
    while (position < source_.size()) {
      const bool joins = source_[position] == '_' && position + 1 < source_.size() &&
                         IsDigit(source_[position + 1]) && !digits->empty();
      if (!IsDigit(source_[position]) && !joins) break;
      if (!joins) digits->push_back(source_[position]);
      ++position;
    }
    return position;
  }

  std::optional<size_t> FloatEnd(size_t whole_end, std::string* digits) const {
    size_t position = whole_end;
    bool is_float = false;
    std::string fraction;
    if (At(position, ".")) {
      const size_t end = Digits(position + 1, &fraction);
      if (!fraction.empty()) {
        *digits += "." + fraction;
        position = end;
        is_float = true;
      }
    }
    if (At(position, "e") || At(position, "E")) {
      size_t begin = position + 1;
      std::string exponent = "e";
      if (At(begin, "+") || At(begin, "-")) exponent.push_back(source_[begin++]);
      std::string power;
      const size_t end = Digits(begin, &power);
      if (!power.empty()) {
        *digits += exponent + power;
        return end;
      }
    }
    return is_float ? std::optional(position) : std::nullopt;
  }

  void Number() {
    std::string digits;
    size_t end = Digits(position_, &digits);
    if (position_ == 0 || source_[position_ - 1] != '.') {
      std::string real = digits;
      if (const auto float_end = FloatEnd(end, &real)) {
        double number = 0;
        std::from_chars(real.data(), real.data() + real.size(), number);
        Add(TokenType::kNumber, "", Value::Float(number));
        return MoveTo(*float_end);
      }
    }
    int base = 10;
    if (digits == "0" && end < source_.size()) {
      const char prefix = static_cast<char>(source_[end] | 0x20);
      base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    }
    if (base != 10) {
      const size_t begin = ++end;
      while (end < source_.size() && (IsNamePart(source_[end]))) ++end;
      digits = std::string(source_.substr(begin, end - begin));
      std::erase(digits, '_');
    }
    int64_t number = 0;
    const auto [rest, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
    if (error != std::errc() || rest != digits.data() + digits.size()) {
      Fail(fmt::format("the number '{}' is not one of 64 bits", Shorten(digits)));
    }
    if (base == 10 && digits.size() > 1 && digits[0] == '0' && number != 0) {
      Fail(fmt::format("the number '{}' begins with 0", Shorten(digits)));
    }
    Add(TokenType::kNumber, "", Value::Int(number));
    MoveTo(end);
  }

  void String(char quote) {
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) Fail("a string without its end");
    std::string fault;
    auto text = UnescapeString(source_.substr(position_ + 1, end - position_ - 1), &fault);
    if (!text.has_value()) Fail(std::move(fault));
    Add(TokenType::kString, *std::move(text));
    MoveTo(end + 1);
  }

  void Operator() {
    constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                               "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                               ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto found =
        std::ranges::find_if(kOperators, [&](auto text) { return At(position_, text); });
    if (found == std::end(kOperators)) {
      size_t end = position_;
      ReadChar(source_, &end);
      Fail(
          fmt::format("unexpected char '{}'", Shorten(source_.substr(position_, end - position_))));
    }
    const char c = found->front();
    if (c == '{' || c == '(' || c == '[') open_.push_back(c == '{' ? '}' : c == '(' ? ')' : ']');
    if (c == '}' || c == ')' || c == ']') {
      if (open_.empty()) Fail(fmt::format("unexpected '{}'", c));
      if (open_.back() != c) Fail(fmt::format("unexpected '{}', expected '{}'", c, open_.back()));
      open_.pop_back();
    }
    Add(TokenType::kOperator, std::string(*found));
    MoveTo(position_ + found->size());
  }

  const std::string_view source_;
  size_t position_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
  std::string open_;  // closing brackets of the open ones
  std::vector<Token> tokens_;
};

}  // namespace

bool IsSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::vector<Token> Tokenize(std::string_view source) {
  if (!IsValidUtf8(source)) throw Fault{"not UTF-8", 1};
  const std::string text = Normalize(source);
  return Lexer(text).Run();
}

}  // namespace beamline::jinja
