// A tokenizer of given pieces for tests of decoding: any bytes may be a piece, half characters too.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.h"

namespace beamline {

// Bytes of the UTF-8 character that `text` begins with; 0: its beginning is no character's; more
// than text.size(): it may become one.
inline size_t CharacterBytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (size_t i = 1; i < std::min(length, text.size()); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

inline bool IsWholeCharacters(std::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterBytes(text);
    if (length == 0 || length > text.size()) return false;
    text.remove_prefix(length);
  }
  return true;
}

class ToyTokenizer final : public Tokenizer {
 public:
  ToyTokenizer(std::vector<std::string> pieces, std::set<int32_t> special_ids)
      : pieces_(std::move(pieces)), special_ids_(std::move(special_ids)) {}

  // The longest piece at each place.
  absl::StatusOr<std::vector<Token>> Encode(std::string_view text,
                                            const EncodeTextOptions&) const override {
    std::vector<Token> tokens;
    size_t begin = 0;
    while (begin < text.size()) {
      int32_t best = -1;
      for (int32_t id = 0; id < vocab_size(); ++id) {
        if (!pieces_[id].empty() && text.substr(begin).starts_with(pieces_[id]) &&
            (best < 0 || pieces_[id].size() > pieces_[best].size())) {
          best = id;
        }
      }
      if (best < 0) return absl::InvalidArgumentError("no piece at byte " + std::to_string(begin));
      const size_t end = begin + pieces_[best].size();
      tokens.push_back({best, static_cast<int32_t>(begin), static_cast<int32_t>(end), false});
      begin = end;
    }
    return tokens;
  }

  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids, bool skip) const override {
    const auto detokenizer = StartDecoding(skip);
    std::string text;
    for (const int32_t id : ids) text += detokenizer->Append(id);
    return text + detokenizer->Finish();
  }

  std::unique_ptr<IncrementalDetokenizer> StartDecoding(bool skip) const override {
    return std::make_unique<Detokenizer>(*this, skip);
  }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  std::string TokenText(int32_t id) const override { return pieces_[id]; }
  std::optional<int32_t> TokenId(std::string_view) const override { return std::nullopt; }
  bool IsSpecial(int32_t id) const override { return special_ids_.contains(id); }
  int32_t num_template_tokens() const override { return 0; }
  int64_t model_max_length() const override { return 0; }
  std::string Kind() const override { return "toy"; }

 private:
  class Detokenizer final : public IncrementalDetokenizer {
   public:
    Detokenizer(const ToyTokenizer& tokenizer, bool skip) : tokenizer_(tokenizer), skip_(skip) {}
    std::string Append(int32_t id) override {
      if (skip_ && tokenizer_.IsSpecial(id)) return "";
      held_ += tokenizer_.TokenText(id);
      std::string text;
      while (!held_.empty()) {
        const size_t length = CharacterBytes(held_);
        if (length > held_.size()) break;
        text += length == 0 ? "\uFFFD" : held_.substr(0, length);
        held_.erase(0, std::max<size_t>(length, 1));
      }
      return text;
    }
    std::string Finish() override { return held_.empty() ? "" : "\uFFFD"; }
    std::unique_ptr<IncrementalDetokenizer> Clone() const override {
      return std::make_unique<Detokenizer>(*this);
    }

   private:
    const ToyTokenizer& tokenizer_;
    bool skip_;
    std::string held_;
  };

  std::vector<std::string> pieces_;
  std::set<int32_t> special_ids_;
};

}  // namespace beamline
