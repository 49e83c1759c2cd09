// Long because a pattern is read in all of its syntax, to know where a callout may be put.
#include "engine/text/counted_pattern.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "engine/text/unicode.h"

namespace beamline::text {
namespace {

constexpr std::string_view kCallout = "(?{})";
// What is read in one go without a callout, in characters of a literal, in other atoms, and in
// turns of a loop.
constexpr size_t kMostLiteral = 200;
constexpr size_t kMostAtoms = 64;
constexpr size_t kMostTurns = 100;
constexpr size_t kNowhere = std::string::npos;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

struct Quantifier {
  size_t length = 0;  // in bytes; 0: there is none
  bool repeats = false;
  size_t least = 0;      // turns
  bool is_open = false;  // it may take many more turns than the least
};

// "?", "*", "+", "{2}", "{2,}", "{2,5}" or "{,5}" at the start of `text`.
Quantifier ReadQuantifier(std::string_view text) {
  if (text.starts_with('?')) return {1, false, 0, false};
  if (text.starts_with('*') || text.starts_with('+')) return {1, true, 0, true};
  if (!text.starts_with('{')) return {};
  size_t end = 1;
  const auto read_number = [&text, &end] {
    constexpr size_t kEnough = 1 << 20;
    size_t number = 0;
    for (; end < text.size() && IsDigit(text[end]); ++end) {
      number = std::min<size_t>(kEnough, number * 10 + static_cast<size_t>(text[end] - '0'));
    }
    return number;
  };
  const size_t least = read_number();
  const bool has_least = end > 1;
  const bool has_comma = text.substr(end, 1) == ",";
  if (has_comma) ++end;
  const size_t before = end;
  const size_t most = has_comma ? read_number() : least;
  const bool has_most = end > before;
  if (text.substr(end, 1) != "}" || (!has_least && !has_most)) return {};
  const bool is_open = has_comma && (!has_most || most > least + kMostTurns);
  return {end + 1, true, least, is_open};
}

// Characters that the reference's Oniguruma (6.9.10) has in two classes, and the ones before have
// not: symbols in [[:punct:]], and superscripts and fractions of Latin-1 in \p{Word}.
constexpr std::string_view kSymbols = "\\p{S}";
constexpr std::string_view kAsciiSymbols = "$+<=>\\^`|~";
// And the ones before do not repeat a \R of one character. A look-behind takes it for two in all.
constexpr std::string_view kLineEnd = "(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])";
constexpr std::string_view kMoreWord = "\\u00B2\\u00B3\\u00B9\\u00BC-\\u00BE";

// As names of properties are compared.
bool NamesWord(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != ' ' && c != '_' && c != '-') letters += static_cast<char>(c | 0x20);
  }
  return letters == "word";
}

// What holds for the rest of a group.
struct Modes {
  bool extended = false;        // white space counts for nothing
  bool ascii_brackets = false;  // [:alpha:] and the like have members of ASCII alone
  bool ascii_words = false;     // so has \p{Word}
};

enum class GroupKind : uint8_t { kPlain, kAtomic, kLookAhead, kLookBehind, kAbsent };

struct Group {
  GroupKind kind;
  size_t begin;  // in what is made
  Modes outside;
  size_t repeats_before;
  size_t characters_before;
};

class CalloutWriter {
 public:
  explicit CalloutWriter(std::string_view pattern) : pattern_(pattern) {}

  CountedPattern Run() {
    while (at_ < pattern_.size()) {
      if (Blank()) continue;
      if (const Quantifier quantifier = ReadQuantifier(pattern_.substr(at_));
          quantifier.length > 0) {
        Repeat(quantifier);
        continue;
      }
      // Only here: a callout before a quantifier would be what it repeats.
      if (pending_ && pattern_[at_] != ')') Emit();
      Token();
    }
    if (pending_) Emit();
    EndLiteral();
    return std::move(made_);
  }

 private:
  void Copy(size_t count) {
    count = std::min(count, pattern_.size() - at_);
    made_.pattern += pattern_.substr(at_, count);
    at_ += count;
  }
  void CopyThrough(std::string_view end, size_t from) {
    const size_t place = pattern_.find(end, at_ + from);
    Copy(place == kNowhere ? pattern_.size() : place + end.size() - at_);
  }
  std::string_view Next(size_t count) const { return pattern_.substr(at_, count); }

  void Emit() {
    pending_ = false;
    atoms_ = 0;
    if (look_behinds_ > 0) return;
    made_.pattern += kCallout;
    ++made_.callouts;
  }
  // Puts `text` in front of what is made from `place` on.
  void Insert(size_t place, std::string_view text) {
    made_.pattern.insert(place, text);
    if (atom_ != kNowhere && atom_ >= place) atom_ += text.size();
  }

  // Puts a callout in front of what was made from `place` on.
  void Before(size_t place) {
    if (place == kNowhere || look_behinds_ > 0) return;
    Insert(place, kCallout);
    ++made_.callouts;
  }

  // What counts for nothing: comments, and white space in extended mode.
  bool Blank() {
    if (Next(3) == "(?#") {
      size_t length = 3;
      while (at_ + length < pattern_.size() && pattern_[at_ + length] != ')') {
        length += pattern_[at_ + length] == '\\' ? 2 : 1;
      }
      Copy(length + 1);
      return true;
    }
    if (!modes_.extended) return false;
    if (pattern_[at_] == '#') {
      CopyThrough("\n", 0);
      return true;
    }
    size_t end = at_;
    if (!IsWhitespace(ReadChar(pattern_, &end))) return false;
    Copy(end - at_);
    return true;
  }

  void Repeat(const Quantifier& quantifier) {
    EndLiteral();
    // What the atom reads in all its turns, without what repeats in it.
    const size_t reads = quantifier.least * std::max<size_t>(1, atom_characters_);
    if (reads > kMostTurns || (quantifier.least > 1 && atom_repeats_)) {
      if (look_behinds_ > 0) {
        far_look_behind_ = true;
      } else if (atom_ != kNowhere) {
        Insert(atom_, "(?:");
        atom_ -= 3;  // the new group is the atom now
        made_.pattern += kCallout;
        made_.pattern += ')';
        ++made_.callouts;
      }
    }
    atom_repeats_ = true;
    // None is given back, which Oniguruma would count.
    if (pattern_[at_] == '+' && after_quantifier_ == at_) Before(atom_);
    after_quantifier_ = at_ + quantifier.length;
    if (quantifier.repeats) {
      ++repeats_;
      pending_ = true;
      const bool is_far = quantifier.is_open || quantifier.least == 0;
      far_look_behind_ = far_look_behind_ || (look_behinds_ > 0 && is_far);
    }
    Copy(quantifier.length);
  }

  void Token() {
    switch (pattern_[at_]) {
      case '\\':
        return Escape();
      case '[':
        StartAtom();
        return Class();
      case '(':
        return OpenGroup();
      case ')':
        return CloseGroup();
      case '|':
        EndLiteral();
        atom_ = kNowhere;
        return Copy(1);
      case '.':
      case '^':
      case '$':
        StartAtom();
        return Copy(1);
      default:
        StartLiteral();
        return Copy(CharLength(pattern_[at_]));
    }
  }

  // What reads one character, or none, and is no part of a literal.
  void StartAtom() {
    EndLiteral();
    if (++atoms_ > kMostAtoms) Emit();
    StartCharacter();
  }
  void StartCharacter() {
    atom_ = made_.pattern.size();
    atom_characters_ = 1;
    atom_repeats_ = false;
    ++characters_;
  }
  // A character of a literal. No callout is put within it: regardless of case, one character may
  // stand for several of them.
  void StartLiteral() {
    if (literal_ == kNowhere) {
      literal_ = made_.pattern.size();
      literal_size_ = 0;
    }
    ++literal_size_;
    StartCharacter();
  }
  void EndLiteral() {
    if (literal_ == kNowhere) return;
    if (literal_size_ > kMostLiteral) {
      made_.longest_literal = std::max(made_.longest_literal, literal_size_);
      Before(literal_);
    }
    literal_ = kNowhere;
  }

  void Escape() {
    const char escaped = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    constexpr std::string_view kClasses = "pPwWsSdDhHbBAzZGKNOR";
    if ((escaped >= '1' && escaped <= '9') || escaped == 'k' || escaped == 'X' || escaped == 'y' ||
        escaped == 'Y') {
      // The text of a group, or of a cluster of characters.
      EndLiteral();
      const bool group = IsDigit(escaped) || escaped == 'k';
      made_.reads_far = made_.reads_far || group;
      made_.reads_clusters = made_.reads_clusters || !group;
      Emit();
      // \12 may be \1 and a 2, which is what is repeated then.
      atom_ = IsDigit(escaped) ? kNowhere : made_.pattern.size();
      CopyEscape();
      pending_ = true;
    } else if (escaped == 'g') {
      ++made_.calls;
      EndLiteral();
      StartCharacter();
      // What the group repeats is not known here.
      atom_repeats_ = true;
      far_look_behind_ = far_look_behind_ || look_behinds_ > 0;
      CopyEscape();
      pending_ = true;
    } else if (escaped == 'R' && look_behinds_ == 0) {
      StartAtom();
      made_.pattern += kLineEnd;
      at_ += 2;
    } else if (kClasses.find(escaped) != kNowhere) {
      StartAtom();
      CopyEscape();
    } else {
      StartLiteral();
      CopyEscape();
    }
  }

  // An escape with all that belongs to it: \p{L}, \x{20}, \x20, \u0020, \040, \k<name>, \C-a.
  void CopyEscape() {
    const char escaped = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    if (escaped == 'c' || Next(3) == "\\C-" || Next(3) == "\\M-") {
      Copy(escaped == 'c' ? 2 : 3);
      if (Next(1) == "\\") return CopyEscape();
      return Copy(at_ < pattern_.size() ? CharLength(pattern_[at_]) : 0);
    }
    if ((escaped == 'p' || escaped == 'P') && CopyWord()) return;
    Copy(1);
    Copy(at_ < pattern_.size() ? CharLength(pattern_[at_]) : 0);
    constexpr std::string_view kWithBraces = "pPxo";
    if (kWithBraces.find(escaped) != kNowhere && Next(1) == "{") return CopyThrough("}", 0);
    if ((escaped == 'k' || escaped == 'g') && Next(1) == "<") return CopyThrough(">", 0);
    if ((escaped == 'k' || escaped == 'g') && Next(1) == "'") return CopyThrough("'", 1);
    const size_t most_digits = escaped == 'x' ? 2 : escaped == 'u' ? 4 : 0;
    for (size_t i = 0; i < most_digits && at_ < pattern_.size() && IsHexDigit(pattern_[at_]); ++i) {
      Copy(1);
    }
    while (IsDigit(escaped) && at_ < pattern_.size() && IsDigit(pattern_[at_])) Copy(1);
  }

  // Of \p{Word} and the like.
  bool CopyWord() {
    const std::string_view rest = pattern_.substr(at_);
    const size_t close = rest.find('}');
    if (rest.substr(2, 1) != "{" || close == kNowhere) return false;
    std::string_view name = rest.substr(3, close - 3);
    const bool inverted = name.starts_with('^');
    if (inverted) name.remove_prefix(1);
    if (!NamesWord(name) || modes_.ascii_words) return false;
    const bool negated = inverted != (rest[1] == 'P');
    made_.pattern += negated ? "[^\\p{Word}" : "[\\p{Word}";
    made_.pattern += kMoreWord;
    made_.pattern += ']';
    at_ += close + 1;
    return true;
  }

  // [...], with the classes in it. A bracket that closes is a member at the start.
  void Class() {
    size_t depth = 0;
    bool at_start = false;
    do {
      const char c = pattern_[at_];
      if (c == '[' && PosixClassLength() > 0) {
        CopyPosixClass();
      } else if (c == '[') {
        ++depth;
        Copy(1);
        if (Next(1) == "^") Copy(1);
        at_start = true;
        continue;
      } else if (c == ']') {
        if (!at_start) --depth;
        Copy(1);
      } else if (c == '\\') {
        CopyEscape();
      } else {
        Copy(1);
      }
      at_start = false;
    } while (depth > 0 && at_ < pattern_.size());
  }
  void CopyPosixClass() {
    const size_t length = PosixClassLength();
    const bool negated = Next(length) == "[:^punct:]";
    if (!negated && Next(length) != "[:punct:]") return Copy(length);
    at_ += length;
    made_.pattern += negated ? "[^[:punct:]" : "[[:punct:]";
    made_.pattern += modes_.ascii_brackets ? kAsciiSymbols : kSymbols;
    made_.pattern += ']';
  }
  // Of [:alpha:] or [:^alpha:] in a class.
  size_t PosixClassLength() const {
    if (Next(2) != "[:") return 0;
    size_t end = at_ + 2;
    if (pattern_.substr(end, 1) == "^") ++end;
    while (end < pattern_.size() && pattern_[end] >= 'a' && pattern_[end] <= 'z') ++end;
    return pattern_.substr(end, 2) == ":]" ? end + 2 - at_ : 0;
  }

  void OpenGroup() {
    EndLiteral();
    const size_t begin = made_.pattern.size();
    GroupKind kind = GroupKind::kPlain;
    Modes modes = modes_;
    const char third = Next(3).size() == 3 ? pattern_[at_ + 2] : '\0';
    if (Next(2) == "(*" || Next(3) == "(?{") return Callout();
    if (Next(2) != "(?") {
      Copy(1);
    } else if (Next(4) == "(?<=" || Next(4) == "(?<!") {
      kind = GroupKind::kLookBehind;
      ++look_behinds_;
      Copy(4);
    } else if (third == '<') {
      CopyThrough(">", 0);
    } else if (third == '\'') {
      CopyThrough("'", 3);
    } else if (third == '(') {  // a condition, which may be the number or name of a group
      Copy(2);
      constexpr std::string_view kStarts = "<'+-";
      const char start = Next(2).size() == 2 ? pattern_[at_ + 1] : '\0';
      if (IsDigit(start) || kStarts.find(start) != kNowhere) CopyThrough(")", 0);
    } else if (third == '=' || third == '!' || third == '~' || third == '>' || third == ':') {
      if (third == '=' || third == '!') kind = GroupKind::kLookAhead;
      if (third == '>') kind = GroupKind::kAtomic;
      if (third == '~') kind = GroupKind::kAbsent;
      Copy(third == '~' && Next(4) == "(?~|" ? 4 : 3);
      if (third == '~' && Next(1) != ")") pending_ = true;  // it is tried at each character
    } else if (!Options(&modes)) {  // they hold for the rest of the group around them
      modes_ = modes;
      atom_ = kNowhere;
      return;
    }
    groups_.push_back({kind, begin, modes_, repeats_, characters_});
    modes_ = modes;
    atom_ = kNowhere;
  }
  // The pattern's own: (*NAME{arguments}), or (?{contents}) with any number of braces.
  void Callout() {
    while (at_ < pattern_.size() && pattern_[at_] != '{' && pattern_[at_] != ')') Copy(1);
    size_t braces = 0;
    while (Next(1) == "{") {
      ++braces;
      Copy(1);
    }
    if (braces > 0) CopyThrough(std::string(braces, '}'), 0);
    CopyThrough(")", 0);
    atom_ = kNowhere;
  }
  // (?i) or (?i-x: . Whether a group is opened.
  bool Options(Modes* modes) {
    bool on = true;
    size_t length = 2;
    for (; at_ + length < pattern_.size(); ++length) {
      const char c = pattern_[at_ + length];
      if (c == ')' || c == ':') break;
      if (c == '-') on = false;
      if (c == 'x') modes->extended = on;
      if (c == 'P') modes->ascii_brackets = on;
      if (c == 'P' || c == 'W') modes->ascii_words = on;
    }
    const bool opens = Next(length + 1).ends_with(':');
    Copy(length + 1);
    return opens;
  }

  void CloseGroup() {
    EndLiteral();
    if (groups_.empty()) return Copy(1);
    const Group group = groups_.back();
    groups_.pop_back();
    modes_ = group.outside;
    atom_ = group.begin;
    atom_characters_ = characters_ - group.characters_before;
    atom_repeats_ = repeats_ > group.repeats_before;
    const bool looks = group.kind == GroupKind::kLookAhead || group.kind == GroupKind::kLookBehind;
    // What else repeats last in a group is counted after it: a callout would hide from Oniguruma
    // that (?:a??)* is a repeat of a repeat, which it reads as a*.
    if (pending_ && looks) Emit();
    Copy(1);
    if (group.kind == GroupKind::kAbsent) {  // each turn of which looks through Oniguruma's stack
      made_.reads_far = true;
      pending_ = true;
    }
    if (group.kind == GroupKind::kLookBehind) {
      if (--look_behinds_ > 0 || !far_look_behind_) return;
      far_look_behind_ = false;
      made_.reads_far = true;
      Before(atom_);
    } else if (group.kind != GroupKind::kPlain && repeats_ > group.repeats_before) {
      Before(atom_);
    }
  }

  const std::string_view pattern_;
  size_t at_ = 0;
  Modes modes_;
  std::vector<Group> groups_;  // that are open
  int look_behinds_ = 0;       // of these
  bool far_look_behind_ = false;
  size_t repeats_ = 0;
  size_t after_quantifier_ = kNowhere;  // where the last one ended
  bool pending_ = false;                // a callout
  size_t atoms_ = 0;                    // since the last one
  size_t characters_ = 0;               // that are to be read in all
  size_t atom_ = kNowhere;      // the last one's place in what is made, where it may be repeated
  size_t atom_characters_ = 0;  // of that
  bool atom_repeats_ = false;   // something in it
  size_t literal_ = kNowhere;   // where that of the last characters began
  size_t literal_size_ = 0;
  CountedPattern made_;
};

}  // namespace

CountedPattern AddCallouts(std::string_view pattern) { return CalloutWriter(pattern).Run(); }

}  // namespace beamline::text
