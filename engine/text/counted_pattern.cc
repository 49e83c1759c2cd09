// Long because it parses the whole syntax of patterns to find where callouts are allowed.
#include "engine/text/counted_pattern.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "engine/text/unicode.h"

namespace beamline::text {
namespace {

constexpr std::string_view kCallout = "(?{})";
// Maximum read without a callout: characters of a literal, other atoms, and iterations of a loop.
constexpr size_t kMostLiteral = 200;
constexpr size_t kMostAtoms = 64;
constexpr size_t kMostTurns = 100;
constexpr size_t kNowhere = std::string::npos;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

struct Quantifier {
  size_t length = 0;  // in bytes; 0: no quantifier
  bool repeats = false;
  size_t least = 0;      // minimum iterations
  bool is_open = false;  // may iterate far more often than the minimum
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

// Characters that the reference's Oniguruma (6.9.10) includes in two classes, but older versions do
// not: symbols in [[:punct:]], and superscripts and fractions of Latin-1 in \p{Word}.
constexpr std::string_view kSymbols = "\\p{S}";
constexpr std::string_view kAsciiSymbols = "$+<=>\\^`|~";
// Older versions also do not repeat a \R of one character. In a look-behind it always counts as
// two.
constexpr std::string_view kLineEnd = "(?>\\r\\n|[\\n-\\r\\x{85}\\x{2028}\\x{2029}])";
constexpr std::string_view kMoreWord = "\\u00B2\\u00B3\\u00B9\\u00BC-\\u00BE";

// Whether `name` is "word", compared as Oniguruma compares property names.
bool NamesWord(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != ' ' && c != '_' && c != '-') letters += static_cast<char>(c | 0x20);
  }
  return letters == "word";
}

// Options that apply to the rest of a group.
struct Modes {
  bool extended = false;        // white space is ignored
  bool ascii_brackets = false;  // [:alpha:] and the like match only ASCII
  bool ascii_words = false;     // \p{Word} matches only ASCII
};

enum class GroupKind : uint8_t { kPlain, kAtomic, kLookAhead, kLookBehind, kAbsent };

struct Group {
  GroupKind kind;
  size_t begin;  // index in the output
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
      // Only here: a callout before a quantifier would itself be repeated.
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
  // Inserts `text` into the output at `place`.
  void Insert(size_t place, std::string_view text) {
    made_.pattern.insert(place, text);
    if (atom_ != kNowhere && atom_ >= place) atom_ += text.size();
  }

  // Inserts a callout into the output at `place`.
  void Before(size_t place) {
    if (place == kNowhere || look_behinds_ > 0) return;
    Insert(place, kCallout);
    ++made_.callouts;
  }

  // Copies ignored text: comments, and white space in extended mode.
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
    // What the atom reads in its minimum iterations, without repeats inside it.
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
    // A possessive repeat gives nothing back, so Oniguruma would count no retries.
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

  // Starts an atom that reads at most one character and is not part of a literal.
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
  // Starts a character of a literal. Literals contain no callouts: ignoring case, one character may
  // match several of them.
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
      // Text of a group, or of a cluster of characters.
      EndLiteral();
      const bool group = IsDigit(escaped) || escaped == 'k';
      made_.reads_far = made_.reads_far || group;
      made_.reads_clusters = made_.reads_clusters || !group;
      Emit();
      // \12 may be \1 followed by 2; then only the 2 is repeated.
      atom_ = IsDigit(escaped) ? kNowhere : made_.pattern.size();
      CopyEscape();
      pending_ = true;
    } else if (escaped == 'g') {
      ++made_.calls;
      EndLiteral();
      StartCharacter();
      // It is not known here what the group repeats.
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

  // Copies a complete escape: \p{L}, \x{20}, \x20, \u0020, \040, \k<name>, \C-a.
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

  // Copies \p{Word} and the like.
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

  // Copies [...] with nested classes. A closing bracket at the start is a member.
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
  // Length of [:alpha:] or [:^alpha:] in a class; 0: none.
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
      if (third == '~' && Next(1) != ")") pending_ = true;  // tried at each character
    } else if (!Options(&modes)) {  // they apply to the rest of the enclosing group
      modes_ = modes;
      atom_ = kNowhere;
      return;
    }
    groups_.push_back({kind, begin, modes_, repeats_, characters_});
    modes_ = modes;
    atom_ = kNowhere;
  }
  // Copies a callout of the pattern itself: (*NAME{arguments}), or (?{contents}) with any number of
  // braces.
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
  // (?i) or (?i-x: . Returns whether a group is opened.
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
    // Other repeats at the end of a group are counted after it. A callout inside would hide from
    // Oniguruma that (?:a??)* is a nested repeat, which it simplifies to a*.
    if (pending_ && looks) Emit();
    Copy(1);
    if (group.kind == GroupKind::kAbsent) {  // each iteration searches Oniguruma's stack
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
  std::vector<Group> groups_;  // open groups
  int look_behinds_ = 0;       // number of open look-behinds
  bool far_look_behind_ = false;
  size_t repeats_ = 0;
  size_t after_quantifier_ = kNowhere;  // where the last quantifier ended
  bool pending_ = false;                // a callout is due
  size_t atoms_ = 0;                    // atoms since the last callout
  size_t characters_ = 0;               // characters read in total
  size_t atom_ = kNowhere;      // position of the last atom in the output, if it may be repeated
  size_t atom_characters_ = 0;  // characters read by the last atom
  bool atom_repeats_ = false;   // the last atom contains a repeat
  size_t literal_ = kNowhere;   // position where the current literal starts
  size_t literal_size_ = 0;
  CountedPattern made_;
};

}  // namespace

CountedPattern AddCallouts(std::string_view pattern) { return CalloutWriter(pattern).Run(); }

}  // namespace beamline::text
