#include "engine/text/unicode_normalizers.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "engine/text/unicode.h"

namespace beamline::text {
namespace {

// One character of the normalized text, and how many original characters it replaces; 0 for further
// characters of a decomposition.
struct FormChar {
  char32_t c;
  uint8_t combining_class;
  int32_t consumed;
};

class FormBuilder {
 public:
  explicit FormBuilder(NormalizationForm form)
      : form_(form),
        compatible_(form == NormalizationForm::kNfkc || form == NormalizationForm::kNfkd) {
    UErrorCode error = U_ZERO_ERROR;
    rules_ = compatible_ ? unorm2_getNFKCInstance(&error) : unorm2_getNFCInstance(&error);
  }

  std::vector<FormChar> Build(const std::string& text) {
    for (size_t position = 0; position < text.size();) Decompose(ReadChar(text, &position));
    SortMarks();
    if (form_ == NormalizationForm::kNfc || form_ == NormalizationForm::kNfkc) Compose();
    return std::move(chars_);
  }

 private:
  void Decompose(char32_t c) {
    if (c < 0x80) {
      SortMarks();
      chars_.push_back({c, 0, 1});
      return;
    }
    UChar buffer[32];  // the longest decomposition has 18 UTF-16 units
    UErrorCode error = U_ZERO_ERROR;
    const int32_t length = unorm2_getDecomposition(rules_, static_cast<UChar32>(c), buffer,
                                                   static_cast<int32_t>(std::size(buffer)), &error);
    if (length < 0 || U_FAILURE(error) || !IsNormalized(c)) {
      Push(c, 1);
      return;
    }
    for (int32_t i = 0; i < length;) {
      const bool first = i == 0;
      UChar32 part;
      U16_NEXT(buffer, i, length, part);
      Push(static_cast<char32_t>(part), first ? 1 : 0);
    }
  }

  void Push(char32_t c, int32_t consumed) {
    const uint8_t combining_class = u_getCombiningClass(static_cast<UChar32>(c));
    if (combining_class == 0) SortMarks();
    chars_.push_back({c, combining_class, consumed});
  }

  // Sorts the combining marks since the last base character into canonical order.
  void SortMarks() {
    std::stable_sort(
        chars_.begin() + static_cast<ptrdiff_t>(sorted_), chars_.end(),
        [](const FormChar& a, const FormChar& b) { return a.combining_class < b.combining_class; });
    sorted_ = chars_.size();
  }

  // Unicode 15.0, section 3.11, D117: composes each starter with the marks that are not blocked
  // from it.
  void Compose() {
    std::vector<FormChar> composed;
    composed.reserve(chars_.size());
    ptrdiff_t starter = -1;
    int last_class = -1;  // of the characters kept since the starter; -1 if there are none
    for (const FormChar& next : chars_) {
      if (starter >= 0 && last_class < static_cast<int>(next.combining_class)) {
        FormChar& base = composed[static_cast<size_t>(starter)];
        const UChar32 pair =
            unorm2_composePair(rules_, static_cast<UChar32>(base.c), static_cast<UChar32>(next.c));
        if (pair >= 0 && IsNormalized(static_cast<char32_t>(pair))) {
          base.c = static_cast<char32_t>(pair);
          base.consumed += next.consumed;
          continue;
        }
      }
      if (next.combining_class == 0) {
        starter = static_cast<ptrdiff_t>(composed.size());
        last_class = -1;
      } else {
        last_class = next.combining_class;
      }
      composed.push_back(next);
    }
    chars_ = std::move(composed);
  }

  NormalizationForm form_;
  bool compatible_;
  const UNormalizer2* rules_ = nullptr;
  std::vector<FormChar> chars_;
  size_t sorted_ = 0;
};

bool IsCjkIdeograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class BertNormalizer : public Normalizer {
 public:
  BertNormalizer(bool clean_text, bool handle_chinese_chars, bool strip_accents, bool lowercase)
      : clean_text_(clean_text),
        handle_chinese_chars_(handle_chinese_chars),
        strip_accents_(strip_accents),
        lowercase_(lowercase) {}

  absl::Status Normalize(AlignedText* text) const override {
    const bool ascii = IsAscii(text->text());
    if (clean_text_) {
      text->RewriteChars([](char32_t c, ByteRange source, AlignedWriter* writer) {
        const bool kept_control = c == U'\t' || c == U'\n' || c == U'\r';
        if (c == 0 || c == 0xFFFD || (IsControl(c) && !kept_control)) return;
        writer->Append(IsWhitespace(c) ? U' ' : c, source);
      });
    }
    if (handle_chinese_chars_ && !ascii) {
      text->RewriteChars([](char32_t c, ByteRange source, AlignedWriter* writer) {
        const bool ideograph = IsCjkIdeograph(c);
        if (ideograph) writer->Append(U' ', source);
        writer->Append(c, source);
        if (ideograph) writer->Append(U' ', source);
      });
    }
    if (strip_accents_ && !ascii) {
      NormalizeUnicode(NormalizationForm::kNfd, text);
      RemoveChars(IsNonspacingMark, text);
    }
    if (lowercase_) Lowercase(text);
    return absl::OkStatus();
  }

 private:
  bool clean_text_;
  bool handle_chinese_chars_;
  bool strip_accents_;
  bool lowercase_;
};

// A normalizer without settings.
template <auto kFunction>
class FunctionNormalizer : public Normalizer {
 public:
  absl::Status Normalize(AlignedText* text) const override {
    kFunction(text);
    return absl::OkStatus();
  }
};

template <NormalizationForm kForm>
void NormalizeForm(AlignedText* text) {
  NormalizeUnicode(kForm, text);
}

void StripAccents(AlignedText* text) {
  if (!IsAscii(text->text())) RemoveChars(IsMark, text);
}

void NormalizeNmt(AlignedText* text) {
  text->RewriteChars([](char32_t c, ByteRange source, AlignedWriter* writer) {
    const bool removed = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
                         c == 0x7F || c == 0x8F || c == 0x9F;
    if (removed) return;
    const bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    writer->Append(space ? U' ' : c, source);
  });
}

}  // namespace

void NormalizeUnicode(NormalizationForm form, AlignedText* text) {
  if (IsAscii(text->text())) return;
  std::vector<CharChange> changes;
  for (const FormChar& out : FormBuilder(form).Build(text->text())) {
    changes.push_back({out.c, 1 - out.consumed});
  }
  text->Transform(changes);
}

void Lowercase(AlignedText* text) {
  text->RewriteChars([](char32_t c, ByteRange source, AlignedWriter* writer) {
    char32_t lower[2];
    int count;
    ToLower(c, lower, &count);
    for (int i = 0; i < count; ++i) writer->Append(lower[i], source);
  });
}

std::unique_ptr<Normalizer> MakeFormNormalizer(NormalizationForm form) {
  switch (form) {
    case NormalizationForm::kNfc:
      return std::make_unique<FunctionNormalizer<NormalizeForm<NormalizationForm::kNfc>>>();
    case NormalizationForm::kNfd:
      return std::make_unique<FunctionNormalizer<NormalizeForm<NormalizationForm::kNfd>>>();
    case NormalizationForm::kNfkc:
      return std::make_unique<FunctionNormalizer<NormalizeForm<NormalizationForm::kNfkc>>>();
    case NormalizationForm::kNfkd:
      return std::make_unique<FunctionNormalizer<NormalizeForm<NormalizationForm::kNfkd>>>();
  }
  return nullptr;
}

std::unique_ptr<Normalizer> MakeLowercaseNormalizer() {
  return std::make_unique<FunctionNormalizer<Lowercase>>();
}
std::unique_ptr<Normalizer> MakeStripAccentsNormalizer() {
  return std::make_unique<FunctionNormalizer<StripAccents>>();
}
std::unique_ptr<Normalizer> MakeNmtNormalizer() {
  return std::make_unique<FunctionNormalizer<NormalizeNmt>>();
}

absl::StatusOr<std::unique_ptr<Normalizer>> MakeBertNormalizer(const JsonNode& node) {
  BEAMLINE_ASSIGN_OR_RETURN(const bool clean_text, node.BoolOr("clean_text", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool chinese, node.BoolOr("handle_chinese_chars", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool lowercase, node.BoolOr("lowercase", true));
  // As in the original BERT: accents are stripped if the text is lowercased, unless the file says
  // otherwise.
  BEAMLINE_ASSIGN_OR_RETURN(const bool strip_accents, node.BoolOr("strip_accents", lowercase));
  return std::make_unique<BertNormalizer>(clean_text, chinese, strip_accents, lowercase);
}

}  // namespace beamline::text
