// Text under normalization; every byte knows the bytes of the original text that it came from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/utf8.h"
#include "engine/text/text_work.h"

namespace beamline::text {

// [begin, end) in bytes of the original text.
struct ByteRange {
  int32_t begin = 0;
  int32_t end = 0;
};

// Widens the bytes begin .. end of `text` to whole characters. REQUIRES: begin < end.
inline ByteRange WholeCharacters(std::string_view text, size_t begin, size_t end) {
  while (begin > 0 && IsContinuationByte(text[begin])) --begin;
  while (end < text.size() && IsContinuationByte(text[end])) ++end;
  return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
}

// Maximum size that a text of `bytes` bytes may reach: twice the growth of the worst Unicode
// normalization. A tokenizer.json may request any growth ("a" by a megabyte, or by "aa" sixty times
// in a row).
inline size_t MaxRewrittenBytes(size_t bytes) {
  constexpr size_t kFloor = size_t{16} << 20;
  return std::min<size_t>(std::max(kFloor, 32 * bytes), std::numeric_limits<int32_t>::max());
}

// Appends text together with its origin. If an append exceeds `max_bytes`, it and all later ones do
// nothing, and full() is true.
class AlignedWriter {
 public:
  AlignedWriter(std::string* text, std::vector<ByteRange>* sources, size_t max_bytes)
      : text_(text), sources_(sources), max_bytes_(max_bytes) {}

  bool full() const { return full_; }

  void Append(char32_t c, ByteRange source) {
    if (!HasRoomFor(4)) return;
    AppendUtf8(c, text_);
    sources_->resize(text_->size(), source);
  }
  void Append(std::string_view text, ByteRange source) {
    if (!HasRoomFor(text.size())) return;
    text_->append(text);
    sources_->resize(text_->size(), source);
  }
  // REQUIRES: `sources` has one origin for each byte of text.
  void Append(std::string_view text, const ByteRange* sources) {
    if (!HasRoomFor(text.size())) return;
    text_->append(text);
    sources_->insert(sources_->end(), sources, sources + text.size());
  }

 private:
  bool HasRoomFor(size_t bytes) {
    full_ = full_ || bytes > max_bytes_ - text_->size();
    return !full_;
  }

  std::string* text_;
  std::vector<ByteRange>* sources_;
  const size_t max_bytes_;
  bool full_ = false;
};

// One character of the new text in a Transform. change 0: it replaces one old character. Negative:
// it also replaces this many of the following characters. 1: it is inserted and replaces nothing.
struct CharChange {
  char32_t c = 0;
  int32_t change = 0;
};

// One segment of the original text. Has no table of origins until something is rewritten.
class AlignedText {
 public:
  // Sets a segment of the original text that starts at byte `base`.
  void Assign(std::string_view text, int32_t base) {
    text_ = text;
    base_ = base;
    identity_ = true;
    has_outgrown_ = false;
    max_bytes_ = MaxRewrittenBytes(text.size());
  }
  // Sets a segment of text that was rewritten before. REQUIRES: sources[i] is the origin of
  // text[i].
  void Assign(std::string_view text, const ByteRange* sources) {
    text_ = text;
    sources_.assign(sources, sources + text.size());
    base_ = text.empty() ? 0 : sources[0].begin;
    identity_ = false;
    has_outgrown_ = false;
    max_bytes_ = MaxRewrittenBytes(text.size());
  }

  // Counts the work spent on this text; null: not counted. Assign keeps it.
  void set_work(TextWork* work) { work_ = work; }
  TextWork* work() const { return work_; }
  // Counts one pass over the text, with a small constant for empty text. Returns the work's status.
  absl::Status CountPass() const {
    constexpr size_t kUnitsPerPass = 64;
    if (work_ == nullptr) return absl::OkStatus();
    work_->Spend(kUnitsPerPass + TextWork::kUnitsPerRewrittenByte * text_.size());
    return work_->status();
  }

  const std::string& text() const { return text_; }
  // First byte of the segment in the original text.
  int32_t base() const { return base_; }
  // Whether rewriting exceeded MaxRewrittenBytes. The text is then truncated and must not be
  // tokenized.
  bool has_outgrown() const { return has_outgrown_; }

  // Origin of the bytes [begin, end) of text(). REQUIRES: begin < end.
  ByteRange Source(size_t begin, size_t end) const {
    if (identity_) {
      const ByteRange range = WholeCharacters(text_, begin, end);
      return {base_ + range.begin, base_ + range.end};
    }
    return {sources_[begin].begin, sources_[end - 1].end};
  }

  // Replaces the text by what write(AlignedWriter*) appends; write may read the old text meanwhile.
  template <typename Write>
  void Rewrite(Write write) {
    spare_text_.clear();
    spare_sources_.clear();
    AlignedWriter writer(&spare_text_, &spare_sources_, max_bytes_);
    write(&writer);
    has_outgrown_ = has_outgrown_ || writer.full();
    text_.swap(spare_text_);
    sources_.swap(spare_sources_);
    identity_ = false;
  }

  // Rewrites character by character: write(character, its origin, AlignedWriter*).
  template <typename Write>
  void RewriteChars(Write write) {
    Rewrite([&](AlignedWriter* writer) {
      for (size_t position = 0; position < text_.size();) {
        const size_t begin = position;
        const char32_t c = ReadChar(text_, &position);
        write(c, Source(begin, position), writer);
      }
    });
  }

  // Replaces the text by these characters, with the origins of Hugging Face's NormalizedString: a
  // character has the origin of the first one that it replaces; an inserted one has the origin of
  // the byte before it.
  void Transform(std::span<const CharChange> chars) {
    Rewrite([&](AlignedWriter* writer) {
      size_t position = 0;
      for (const CharChange& out : chars) {
        const size_t at = std::min(out.change > 0 ? position - 1 : position, text_.size() - 1);
        const bool none = out.change > 0 && position == 0;
        writer->Append(out.c, none ? ByteRange{base_, base_} : Source(at, at + 1));
        for (int32_t i = out.change; i <= 0 && position < text_.size(); ++i) {
          position += CharLength(text_[position]);
        }
      }
    });
  }

  // Copies the bytes [begin, end) with their origins. REQUIRES: both are character boundaries.
  void CopyTo(size_t begin, size_t end, AlignedWriter* writer) const {
    const std::string_view text = text_;
    if (!identity_) {
      writer->Append(text.substr(begin, end - begin), sources_.data() + begin);
      return;
    }
    for (size_t i = begin; i < end;) {
      const auto length = static_cast<int32_t>(CharLength(text[i]));
      const auto source = base_ + static_cast<int32_t>(i);
      writer->Append(text.substr(i, length), ByteRange{source, source + length});
      i += length;
    }
  }

 private:
  std::string text_;
  std::vector<ByteRange> sources_;
  int32_t base_ = 0;
  bool identity_ = true;
  bool has_outgrown_ = false;
  size_t max_bytes_ = 0;
  TextWork* work_ = nullptr;
  std::string spare_text_;
  std::vector<ByteRange> spare_sources_;
};

}  // namespace beamline::text
