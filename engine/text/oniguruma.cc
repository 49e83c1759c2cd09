#include "engine/text/oniguruma.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "fmt/format.h"

namespace beamline::text {
namespace {

// PCRE2 counts U+180E as a space, which it has not been since Unicode 6.3.
constexpr std::string_view kSpace = "\\p{White_Space}";
constexpr std::string_view kNotSpace = "\\P{White_Space}";
// With Latin-1's superscripts and fractions, which Oniguruma takes for word characters.
constexpr std::string_view kWordMembers =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
constexpr std::string_view kHexMembers = "0-9a-fA-F";

// The name that PCRE2 has for a Unicode property: "Han" alone would be the script's extensions, and
// "Letter" is only known as "L".
std::string PropertyName(const std::string& name) {
  if (name.size() <= 2) return name;
  if (u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str()) != UCHAR_INVALID_CODE) {
    return "sc:" + name;
  }
  const int32_t mask = u_getPropertyValueEnum(UCHAR_GENERAL_CATEGORY_MASK, name.c_str());
  const char* short_name =
      mask == UCHAR_INVALID_CODE
          ? nullptr
          : u_getPropertyValueName(UCHAR_GENERAL_CATEGORY_MASK, mask, U_SHORT_PROPERTY_NAME);
  return short_name == nullptr ? name : short_name;
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\' && at_ + 1 < pattern_.size()) {
        Escape();
        continue;
      }
      if (c == '[' && pattern_.substr(at_, 2) == "[:" && class_depth_ > 0) {
        CopyPosixClass();
        continue;
      }
      if (c == '[') ++class_depth_;
      if (c == ']' && class_depth_ > 0) --class_depth_;
      if (class_depth_ > 0 && pattern_.substr(at_, 2) == "&&") {
        return absl::InvalidArgumentError(fmt::format(
            "pattern {} uses a class intersection (&&), which is not supported", pattern_));
      }
      if (c == '[' && class_depth_ > 1) {
        return absl::InvalidArgumentError(
            fmt::format("pattern {} has a class in a class, which is not supported", pattern_));
      }
      out_ += c;
      ++at_;
    }
    return out_;
  }

 private:
  // [:alpha:] within a class
  void CopyPosixClass() {
    const size_t end = std::min(pattern_.find(":]", at_), pattern_.size() - 2) + 2;
    out_ += pattern_.substr(at_, end - at_);
    at_ = end;
  }

  void Members(std::string_view members, bool negated) {
    if (class_depth_ > 0) {
      out_ += members;
    } else {
      out_ += fmt::format("[{}{}]", negated ? "^" : "", members);
    }
  }

  void Escape() {
    const char escaped = pattern_[at_ + 1];
    const bool in_class = class_depth_ > 0;
    if (escaped == 's') {
      out_ += kSpace;
    } else if (escaped == 'S') {
      out_ += kNotSpace;
    } else if (escaped == 'w' || (escaped == 'W' && !in_class)) {
      Members(kWordMembers, escaped == 'W');
    } else if (escaped == 'h' || (escaped == 'H' && !in_class)) {
      Members(kHexMembers, escaped == 'H');
    } else if ((escaped == 'p' || escaped == 'P') && pattern_.substr(at_ + 2, 1) == "{") {
      Property(escaped);
      return;
    } else {
      out_ += pattern_.substr(at_, 2);
    }
    at_ += 2;
  }

  // \p{Name} or \p{^Name}
  void Property(char escaped) {
    const size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) {
      out_ += pattern_.substr(at_, 2);
      at_ += 2;
      return;
    }
    std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    out_ +=
        fmt::format("\\{}{{{}{}}}", escaped, negated ? "^" : "", PropertyName(std::string(name)));
    at_ = close + 1;
  }

  std::string_view pattern_;
  size_t at_ = 0;
  int class_depth_ = 0;
  std::string out_;
};

}  // namespace

absl::StatusOr<std::string> TranslatePattern(std::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace beamline::text
