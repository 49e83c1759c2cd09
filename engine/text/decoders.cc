// Long because it contains every decoder of tokenizer.json, each a few lines.
#include "engine/text/decoders.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/utf8.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/literal_replacer.h"
#include "engine/text/regex.h"
#include "engine/text/split_pattern.h"
#include "engine/text/unicode.h"

namespace beamline::text {
namespace {

void ReplaceIn(std::string* text, std::string_view pattern, std::string_view content) {
  for (size_t at = text->find(pattern); at != std::string::npos;
       at = text->find(pattern, at + content.size())) {
    text->replace(at, pattern.size(), content);
  }
}

class JoinStage : public TokenwiseStage<JoinStage> {
 public:
  void MapToken(std::string* token) {
    if (!first_) token->insert(0, 1, ' ');
    first_ = false;
  }

 private:
  bool first_ = true;
};

class FuseStage : public DecodeStage {
 public:
  void Transform(const Fragment& in, bool at_end, Fragment* out) override {
    out->text += in.text;
    if (at_end) out->EndToken();
  }
  std::unique_ptr<DecodeStage> Clone() const override { return std::make_unique<FuseStage>(*this); }
};

class ByteLevelStage : public DecodeStage {
 public:
  void Transform(const Fragment& in, bool at_end, Fragment* out) override {
    size_t begin = 0;
    for (const size_t end : in.ends) {
      token_.append(in.text, begin, end - begin);
      const std::optional<std::string> bytes = BytesOfSpelling(token_);
      pending_ += bytes.has_value() ? *bytes : token_;
      token_.clear();
      begin = end;
    }
    token_.append(in.text, begin);
    DrainLossy(&pending_, at_end, &out->text);
    if (at_end) out->EndToken();
  }
  std::unique_ptr<DecodeStage> Clone() const override {
    return std::make_unique<ByteLevelStage>(*this);
  }

 private:
  std::string token_;
  std::string pending_;  // bytes of an incomplete character
};

class WordPieceStage : public TokenwiseStage<WordPieceStage> {
 public:
  WordPieceStage(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void MapToken(std::string* token) {
    if (!first_) {
      if (token->starts_with(prefix_)) {
        token->erase(0, prefix_.size());
      } else {
        token->insert(0, 1, ' ');
      }
    }
    first_ = false;
    if (cleanup_) CleanUp(token);
  }

 private:
  // Every rule's pattern starts with a space and one of these.
  static bool MayHavePattern(std::string_view token) {
    static constexpr std::string_view kSecond = ".?!,'nd";
    for (size_t at = token.find(' '); at < token.size(); at = token.find(' ', at + 1)) {
      if (at + 1 < token.size() && kSecond.find(token[at + 1]) != kSecond.npos) return true;
    }
    return false;
  }
  static void CleanUp(std::string* token) {
    static constexpr std::array<std::array<std::string_view, 2>, 11> kRules = {{
        {" .", "."},
        {" ?", "?"},
        {" !", "!"},
        {" ,", ","},
        {" ' ", "'"},
        {" n't", "n't"},
        {" 'm", "'m"},
        {" do not", " don't"},
        {" 's", "'s"},
        {" 've", "'ve"},
        {" 're", "'re"},
    }};
    if (!MayHavePattern(*token)) return;
    for (const auto& [pattern, content] : kRules) ReplaceIn(token, pattern, content);
  }

  std::string prefix_;
  bool cleanup_;
  bool first_ = true;
};

class MetaspaceStage : public TokenwiseStage<MetaspaceStage> {
 public:
  MetaspaceStage(std::string replacement, bool strip_first)
      : replacement_(std::move(replacement)), strip_first_(strip_first) {}

  void MapToken(std::string* token) {
    ReplaceIn(token, replacement_, first_ && strip_first_ ? "" : " ");
    first_ = false;
  }

 private:
  std::string replacement_;
  bool strip_first_;
  bool first_ = true;
};

// Runs of "<0xE2>" tokens become the characters they spell; a run that is not valid UTF-8 as a
// whole becomes one U+FFFD per byte.
class ByteFallbackStage : public DecodeStage {
 public:
  void Transform(const Fragment& in, bool at_end, Fragment* out) override {
    size_t begin = 0;
    for (const size_t end : in.ends) {
      token_.append(in.text, begin, end - begin);
      begin = end;
      if (const std::optional<uint8_t> byte = ByteOf(token_)) {
        run_.push_back(static_cast<char>(*byte));
        if (!broken_ && CannotBecomeValid()) broken_ = true;
        if (broken_) FlushBroken(out);
      } else {
        EndRun(out);
        out->text += token_;
        out->EndToken();
      }
      token_.clear();
    }
    token_.append(in.text, begin);
    if (at_end) EndRun(out);
  }
  std::unique_ptr<DecodeStage> Clone() const override {
    return std::make_unique<ByteFallbackStage>(*this);
  }

 private:
  static std::optional<uint8_t> ByteOf(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    uint8_t byte = 0;
    for (const char c : token.substr(3, 2)) {
      int digit;
      if (c >= '0' && c <= '9') {
        digit = c - '0';
      } else if (c >= 'A' && c <= 'F') {
        digit = c - 'A' + 10;
      } else if (c >= 'a' && c <= 'f') {
        digit = c - 'a' + 10;
      } else {
        return std::nullopt;
      }
      byte = static_cast<uint8_t>(byte * 16 + digit);
    }
    return byte;
  }

  // Checks the bytes since the last complete character.
  bool CannotBecomeValid() {
    while (checked_ < run_.size()) {
      const Utf8Scan scan = ScanUtf8(std::string_view(run_).substr(checked_));
      if (scan.kind == Utf8Scan::kInvalid) return true;
      if (scan.kind == Utf8Scan::kIncomplete) return false;
      checked_ += scan.length;
    }
    return false;
  }

  void FlushBroken(Fragment* out) {
    for (size_t i = 0; i < run_.size(); ++i) {
      out->text += kReplacementCharacter;
      out->EndToken();
    }
    run_.clear();
  }

  void EndRun(Fragment* out) {
    if (!run_.empty() && checked_ == run_.size()) {
      out->text += run_;
      out->EndToken();
      run_.clear();
    } else {
      FlushBroken(out);
    }
    checked_ = 0;
    broken_ = false;
  }

  std::string token_;
  std::string run_;      // bytes whose text was not emitted yet
  size_t checked_ = 0;   // bytes of run_ that are complete characters
  bool broken_ = false;  // the run has invalid bytes: it becomes U+FFFD completely
};

// Removes up to `start` and `stop` occurrences of a character at the ends of each token. With white
// space as the character and no limits, this is Python's strip.
template <typename IsStripped>
class StripStage : public DecodeStage {
 public:
  StripStage(IsStripped is_stripped, size_t start, size_t stop)
      : is_stripped_(std::move(is_stripped)), start_(start), stop_(stop) {}

  void Transform(const Fragment& in, bool at_end, Fragment* out) override {
    size_t begin = 0;
    for (const size_t end : in.ends) {
      Push(std::string_view(in.text).substr(begin, end - begin), &out->text);
      EndToken(out);
      begin = end;
    }
    Push(std::string_view(in.text).substr(begin), &out->text);
    if (at_end) EndHeld(&out->text);
  }
  std::unique_ptr<DecodeStage> Clone() const override {
    return std::make_unique<StripStage>(*this);
  }

 private:
  void Push(std::string_view text, std::string* out) {
    for (size_t position = 0; position < text.size();) {
      const size_t begin = position;
      const bool stripped = is_stripped_(ReadChar(text, &position));
      const std::string_view character = text.substr(begin, position - begin);
      if (stripped && leading_ && num_stripped_ < start_) {
        ++num_stripped_;
      } else if (stripped && stop_ > 0) {
        leading_ = false;
        held_ += character;
        held_lengths_.push_back(static_cast<uint8_t>(character.size()));
      } else {
        leading_ = false;
        *out += held_;
        held_.clear();
        held_lengths_.clear();
        *out += character;
      }
    }
  }

  // Drops the last `stop_` of the held characters and keeps those before.
  void EndHeld(std::string* out) {
    size_t kept_bytes = 0;
    const size_t kept = held_lengths_.size() - std::min(held_lengths_.size(), stop_);
    for (size_t i = 0; i < kept; ++i) kept_bytes += held_lengths_[i];
    out->append(held_, 0, kept_bytes);
    held_.clear();
    held_lengths_.clear();
  }

  void EndToken(Fragment* out) {
    EndHeld(&out->text);
    out->EndToken();
    leading_ = true;
    num_stripped_ = 0;
  }

  IsStripped is_stripped_;
  size_t start_;
  size_t stop_;
  bool leading_ = true;      // no character of the token was kept yet
  size_t num_stripped_ = 0;  // at the token's start
  std::string held_;         // characters that may be at the token's end
  std::vector<uint8_t> held_lengths_;
};

class RegexReplaceStage : public TokenwiseStage<RegexReplaceStage> {
 public:
  RegexReplaceStage(std::shared_ptr<const Regex> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  // A token on which the pattern gives up stays unchanged.
  void MapToken(std::string* token) {
    std::vector<RegexMatch> matches;
    if (!pattern_->FindAll(*token, &matches).ok()) return;
    std::string replaced;
    size_t copied = 0;
    for (const RegexMatch& match : matches) {
      replaced.append(*token, copied, match.begin - copied);
      replaced += content_;
      copied = match.end;
    }
    replaced.append(*token, copied);
    *token = std::move(replaced);
  }

 private:
  std::shared_ptr<const Regex> pattern_;
  std::string content_;
};

// The end-of-word mark becomes a space; in the last token it is removed.
class BpeStage : public DecodeStage {
 public:
  explicit BpeStage(std::string suffix) : suffix_(std::move(suffix)) {}

  void Transform(const Fragment& in, bool at_end, Fragment* out) override {
    size_t begin = 0;
    for (const size_t end : in.ends) {
      token_.append(in.text, begin, end - begin);
      begin = end;
      if (has_last_) Emit(" ", out);
      last_ = std::exchange(token_, {});
      has_last_ = true;
    }
    token_.append(in.text, begin);
    if (at_end && has_last_) Emit("", out);
  }
  std::unique_ptr<DecodeStage> Clone() const override { return std::make_unique<BpeStage>(*this); }

 private:
  void Emit(std::string_view word_end, Fragment* out) {
    ReplaceIn(&last_, suffix_, word_end);
    out->text += last_;
    out->EndToken();
    has_last_ = false;
  }

  std::string suffix_;
  std::string token_;
  std::string last_;
  bool has_last_ = false;
};

absl::Status AddStrip(const JsonNode& node, DecodeChain* chain) {
  constexpr int64_t kMaxStripped = 1 << 20;
  BEAMLINE_ASSIGN_OR_RETURN(const std::string content, node.Character("content"));
  BEAMLINE_ASSIGN_OR_RETURN(const int64_t start, node.Int("start", 0, kMaxStripped));
  BEAMLINE_ASSIGN_OR_RETURN(const int64_t stop, node.Int("stop", 0, kMaxStripped));
  size_t position = 0;
  const char32_t character = ReadChar(content, &position);
  const auto is_character = [character](char32_t c) { return c == character; };
  chain->Add(std::make_unique<StripStage<decltype(is_character)>>(
      is_character, static_cast<size_t>(start), static_cast<size_t>(stop)));
  return absl::OkStatus();
}

absl::Status AddReplace(const JsonNode& node, DecodeChain* chain) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode pattern, node.Object("pattern"));
  BEAMLINE_ASSIGN_OR_RETURN(std::string content, node.String("content"));
  if (pattern.Has("String")) {
    BEAMLINE_ASSIGN_OR_RETURN(std::string literal, pattern.String("String"));
    if (!literal.empty()) {
      std::vector<LiteralReplacer> replacers;
      replacers.emplace_back(std::move(literal), std::move(content));
      chain->Add(std::make_unique<ReplaceAllStage>(std::move(replacers)));
      return absl::OkStatus();
    }
  }
  BEAMLINE_ASSIGN_OR_RETURN(Regex regex, ReadPattern(node));
  chain->Add(std::make_unique<RegexReplaceStage>(std::make_shared<const Regex>(std::move(regex)),
                                                 std::move(content)));
  return absl::OkStatus();
}

absl::Status AddMetaspace(const JsonNode& node, DecodeChain* chain) {
  BEAMLINE_ASSIGN_OR_RETURN(std::string replacement, node.Character("replacement"));
  BEAMLINE_ASSIGN_OR_RETURN(const bool add_prefix_space, node.BoolOr("add_prefix_space", true));
  BEAMLINE_ASSIGN_OR_RETURN(const std::string scheme,
                            node.StringOr("prepend_scheme", add_prefix_space ? "always" : "never"));
  chain->Add(std::make_unique<MetaspaceStage>(std::move(replacement), scheme != "never"));
  return absl::OkStatus();
}

absl::Status AddSequence(const JsonNode& node, DecodeChain* chain) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode list, node.Array("decoders"));
  for (size_t i = 0; i < list.value().size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode element, list.Element(i));
    BEAMLINE_RETURN_IF_ERROR(AddDecoder(element, chain));
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<DecodeStage> MakeJoinStage() { return std::make_unique<JoinStage>(); }
std::unique_ptr<DecodeStage> MakeFuseStage() { return std::make_unique<FuseStage>(); }
std::unique_ptr<DecodeStage> MakeByteLevelStage() { return std::make_unique<ByteLevelStage>(); }
std::unique_ptr<DecodeStage> MakeWordPieceStage(std::string prefix, bool cleanup) {
  return std::make_unique<WordPieceStage>(std::move(prefix), cleanup);
}
std::unique_ptr<DecodeStage> MakeStripWhitespaceStage() {
  // str.isspace is also true for the information separators U+001C to U+001F.
  const auto is_space = [](char32_t c) { return IsWhitespace(c) || (c >= 0x1C && c <= 0x1F); };
  return std::make_unique<StripStage<decltype(is_space)>>(is_space, SIZE_MAX, SIZE_MAX);
}

absl::Status AddDecoder(const JsonNode& node, DecodeChain* chain) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string type, node.Type());
  if (type == "Sequence") return AddSequence(node, chain);
  if (type == "Strip") return AddStrip(node, chain);
  if (type == "Replace") return AddReplace(node, chain);
  if (type == "Metaspace") return AddMetaspace(node, chain);
  if (type == "ByteLevel") {
    chain->Add(MakeByteLevelStage());
  } else if (type == "ByteFallback") {
    chain->Add(std::make_unique<ByteFallbackStage>());
  } else if (type == "Fuse") {
    chain->Add(MakeFuseStage());
  } else if (type == "WordPiece") {
    BEAMLINE_ASSIGN_OR_RETURN(std::string prefix, node.StringOr("prefix", "##"));
    BEAMLINE_ASSIGN_OR_RETURN(const bool cleanup, node.BoolOr("cleanup", true));
    chain->Add(MakeWordPieceStage(std::move(prefix), cleanup));
  } else if (type == "BPEDecoder") {
    BEAMLINE_ASSIGN_OR_RETURN(std::string suffix, node.StringOr("suffix", "</w>"));
    if (suffix.empty()) return node.Error("\"suffix\" is empty");
    chain->Add(std::make_unique<BpeStage>(std::move(suffix)));
  } else {
    return node.UnknownType("decoder", type);
  }
  return absl::OkStatus();
}

}  // namespace beamline::text
