#include "engine/text/normalizers.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/precompiled_charsmap.h"
#include "engine/text/regex.h"
#include "engine/text/split_pattern.h"
#include "engine/text/unicode.h"
#include "engine/text/unicode_normalizers.h"

namespace beamline::text {
namespace {

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> steps)
      : steps_(std::move(steps)) {}
  absl::Status Normalize(AlignedText* text) const override {
    for (const auto& step : steps_) {
      if (text->has_outgrown()) break;
      BEAMLINE_RETURN_IF_ERROR(text->CountPass());
      BEAMLINE_RETURN_IF_ERROR(step->Normalize(text));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

  absl::Status Normalize(AlignedText* text) const override {
    const std::string& view = text->text();
    size_t begin = 0, end = view.size();
    while (left_ && begin < end) {
      size_t next = begin;
      if (!IsWhitespace(ReadChar(view, &next))) break;
      begin = next;
    }
    while (right_ && begin < end) {
      size_t last;
      if (!IsWhitespace(ReadCharBefore(view, end, &last))) break;
      end = last;
    }
    if (begin > 0 || end < view.size()) {
      text->Rewrite([&](AlignedWriter* writer) { text->CopyTo(begin, end, writer); });
    }
    return absl::OkStatus();
  }

 private:
  bool left_;
  bool right_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  absl::Status Normalize(AlignedText* text) const override {
    if (text->text().empty()) return absl::OkStatus();  // patterns do not match empty text
    std::vector<RegexMatch> matches;
    BEAMLINE_RETURN_IF_ERROR(pattern_.FindAll(text->text(), &matches, text->work()));
    if (matches.empty()) return absl::OkStatus();
    text->Rewrite([&](AlignedWriter* writer) {
      size_t copied = 0;
      for (const RegexMatch& match : matches) {
        text->CopyTo(copied, match.begin, writer);
        // As in the reference, the new text has the origin of the last replaced byte.
        const ByteRange source = match.end > 0 ? text->Source(match.end - 1, match.end)
                                               : ByteRange{text->base(), text->base()};
        writer->Append(content_, source);
        copied = match.end;
      }
      text->CopyTo(copied, text->text().size(), writer);
    });
    return absl::OkStatus();
  }

 private:
  Regex pattern_;
  std::string content_;
};

class PrependNormalizer : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  absl::Status Normalize(AlignedText* text) const override {
    Prepend(prefix_, text);
    return absl::OkStatus();
  }

 private:
  std::string prefix_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  absl::Status Normalize(AlignedText* text) const override {
    SpellBytes(text);
    return absl::OkStatus();
  }
};

absl::StatusOr<std::unique_ptr<Normalizer>> MakeSequence(const JsonNode& node) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode list, node.Array("normalizers"));
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (size_t i = 0; i < list.value().size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode element, list.Element(i));
    BEAMLINE_ASSIGN_OR_RETURN(steps.emplace_back(), MakeNormalizer(element));
  }
  return std::make_unique<SequenceNormalizer>(std::move(steps));
}

}  // namespace

void Prepend(std::string_view prefix, AlignedText* text) {
  if (text->text().empty()) return;
  text->Rewrite([&](AlignedWriter* writer) {
    writer->Append(prefix, text->Source(0, CharLength(text->text()[0])));
    text->CopyTo(0, text->text().size(), writer);
  });
}

void SpellBytes(AlignedText* text) {
  const auto& spellings = ByteSpellings();
  text->Rewrite([&](AlignedWriter* writer) {
    for (size_t i = 0; i < text->text().size(); ++i) {
      writer->Append(spellings[static_cast<uint8_t>(text->text()[i])], text->Source(i, i + 1));
    }
  });
}

absl::StatusOr<std::unique_ptr<Normalizer>> MakeNormalizer(const JsonNode& node) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string type, node.Type());
  if (type == "Sequence") return MakeSequence(node);
  if (type == "NFC") return MakeFormNormalizer(NormalizationForm::kNfc);
  if (type == "NFD") return MakeFormNormalizer(NormalizationForm::kNfd);
  if (type == "NFKC") return MakeFormNormalizer(NormalizationForm::kNfkc);
  if (type == "NFKD") return MakeFormNormalizer(NormalizationForm::kNfkd);
  if (type == "Lowercase") return MakeLowercaseNormalizer();
  if (type == "StripAccents") return MakeStripAccentsNormalizer();
  if (type == "Nmt") return MakeNmtNormalizer();
  if (type == "BertNormalizer") return MakeBertNormalizer(node);
  if (type == "Precompiled") return MakePrecompiledNormalizer(node);
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Strip") {
    BEAMLINE_ASSIGN_OR_RETURN(const bool left, node.BoolOr("strip_left", true));
    BEAMLINE_ASSIGN_OR_RETURN(const bool right, node.BoolOr("strip_right", true));
    return std::make_unique<StripNormalizer>(left, right);
  }
  if (type == "Prepend") {
    BEAMLINE_ASSIGN_OR_RETURN(std::string prefix, node.String("prepend"));
    return std::make_unique<PrependNormalizer>(std::move(prefix));
  }
  if (type == "Replace") {
    BEAMLINE_ASSIGN_OR_RETURN(Regex pattern, ReadPattern(node));
    BEAMLINE_ASSIGN_OR_RETURN(std::string content, node.String("content"));
    return std::make_unique<ReplaceNormalizer>(std::move(pattern), std::move(content));
  }
  return node.UnknownType("normalizer", type);
}

}  // namespace beamline::text
