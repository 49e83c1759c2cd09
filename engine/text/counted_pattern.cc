#include "engine/text/counted_pattern.h"

#include <algorithm>

#include "base/utf8.h"

namespace beamline::text {
namespace {

constexpr std::string_view kCallout = "(?C)";
constexpr std::string_view kCalloutOfAlternatives = "(?C16)";
constexpr int kAlternativesPerCallout = 16;
// Longer than a group's name may be, which is no text.
constexpr size_t kMostLetters = 200;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c) || c == ' ' || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class CalloutWriter {
 public:
  explicit CalloutWriter(std::string_view pattern) : pattern_(pattern) {}

  CountedPattern Run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (!IsLetter(c)) letters_ = 0;
      if (c == '\\') {
        Escape();
      } else if (c == '[') {
        Class();
      } else if (c == '(') {
        OpenGroup();
      } else if (c == '|') {
        Copy(1);
        if (++alternatives_ % kAlternativesPerCallout == 0) made_.pattern += kCalloutOfAlternatives;
      } else if (const size_t length = RepeatLength(); length > 0) {
        Copy(length);
        // As few as possible, or none given back.
        if (at_ < pattern_.size() && (pattern_[at_] == '?' || pattern_[at_] == '+')) Copy(1);
        made_.pattern += kCallout;
      } else {
        if (IsLetter(c) && !IsContinuationByte(c) && ++letters_ > kMostLetters) {
          made_.pattern += kCallout;
          letters_ = 0;
        }
        Copy(1);
      }
    }
    return std::move(made_);
  }

 private:
  void Copy(size_t count) {
    count = std::min(count, pattern_.size() - at_);
    made_.pattern += pattern_.substr(at_, count);
    at_ += count;
  }
  void CopyThrough(std::string_view end) {
    const size_t place = pattern_.find(end, at_);
    Copy(place == std::string_view::npos ? pattern_.size() : place + end.size() - at_);
  }

  void Escape() {
    const char escaped = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    if (escaped == 'Q') return CopyThrough("\\E");
    if ((escaped >= '1' && escaped <= '9') || escaped == 'k' || escaped == 'g') {
      made_.has_back_references = true;
    }
    Copy(2);
    constexpr std::string_view kWithBraces = "pPxoNkgu";
    if (kWithBraces.find(escaped) != std::string_view::npos && pattern_.substr(at_, 1) == "{") {
      CopyThrough("}");
    }
  }

  // [...], where a bracket that closes is none at the beginning.
  void Class() {
    Copy(1);
    if (pattern_.substr(at_, 1) == "^") Copy(1);
    if (pattern_.substr(at_, 1) == "]") Copy(1);
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (pattern_[at_] == '\\') {
        Escape();
      } else if (pattern_.substr(at_, 2) == "[:" &&
                 pattern_.find(":]", at_ + 2) != std::string_view::npos) {
        CopyThrough(":]");
      } else {
        Copy(1);
      }
    }
    Copy(1);
  }

  // A parenthesis with what says of which kind the group is, in which nothing repeats.
  void OpenGroup() {
    const std::string_view head = pattern_.substr(at_, 3);
    if (head == "(?#") return CopyThrough(")");
    if (head == "(?P") made_.has_back_references = true;  // or a name, which is as rare
    Copy(head.size() > 1 && (head[1] == '?' || head[1] == '*') ? 2 : 1);
  }

  // Of "*", "+" and "{2,5}"; 0: there is no such thing here. "?" reads one thing at most.
  size_t RepeatLength() const {
    const char c = pattern_[at_];
    if (c == '*' || c == '+') return 1;
    if (c != '{') return 0;
    size_t end = at_ + 1;
    bool has_digit = false;
    while (end < pattern_.size() && (IsDigit(pattern_[end]) || pattern_[end] == ',')) {
      has_digit = has_digit || IsDigit(pattern_[end]);
      ++end;
    }
    return has_digit && end < pattern_.size() && pattern_[end] == '}' ? end + 1 - at_ : 0;
  }

  const std::string_view pattern_;
  size_t at_ = 0;
  size_t letters_ = 0;  // in a row
  int alternatives_ = 0;
  CountedPattern made_;
};

}  // namespace

CountedPattern AddCallouts(std::string_view pattern) { return CalloutWriter(pattern).Run(); }

}  // namespace beamline::text
