#include "engine/text/sentencepiece_normalizer.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/utf8.h"
#include "engine/text/aligned_text.h"
#include "fmt/format.h"

namespace beamline::text {

class SentencePieceNormalizer::Run {
 public:
  Run(const SentencePieceNormalizer& rules, std::string_view input, TextWork& work)
      : rules_(rules), rest_(input), most_bytes_(MaxRewrittenBytes(input.size())), work_(work) {}

  absl::StatusOr<Result> Normalize() {
    if (rules_.remove_extra_whitespaces_) SkipLeadingSpaces();
    if (rest_.empty()) return std::move(result_);
    if (rules_.add_dummy_prefix_ && !rules_.whitespace_as_suffix_) Append(" ");
    bool after_space = rules_.remove_extra_whitespaces_;
    while (!rest_.empty()) {
      size_t length = 0;
      std::string_view piece = rules_.NormalizePrefix(rest_, &length, work_);
      if (!work_.Spend(TextWork::kUnitsPerRewrittenByte * (length + piece.size()))) {
        return work_.status();
      }
      if (piece.size() > most_bytes_ - std::min(most_bytes_, result_.text.size())) {
        return absl::InvalidArgumentError(fmt::format(
            "the tokenizer's normalizer makes more than {} bytes of this text", most_bytes_));
      }
      while (after_space && piece.starts_with(' ')) piece.remove_prefix(1);
      if (!piece.empty()) {
        Append(piece);
        after_space = piece.ends_with(' ');
      }
      Consume(length);
      if (!rules_.remove_extra_whitespaces_) after_space = false;
    }
    if (rules_.remove_extra_whitespaces_) DropTrailingSpaces();
    if (rules_.add_dummy_prefix_ && rules_.whitespace_as_suffix_) Append(" ");
    result_.origins.push_back(consumed_);
    return std::move(result_);
  }

 private:
  std::string_view space() const { return rules_.escape_whitespaces_ ? kSpaceMark : " "; }

  void Consume(size_t length) {
    rest_.remove_prefix(length);
    consumed_ += static_cast<int32_t>(length);
  }

  void SkipLeadingSpaces() {
    while (!rest_.empty() && work_.status().ok()) {
      size_t length = 0;
      if (rules_.NormalizePrefix(rest_, &length, work_) != " ") return;
      Consume(length);
    }
  }

  void Append(std::string_view piece) {
    const size_t begin = result_.text.size();
    for (const char c : piece) {
      if (c == ' ') {
        result_.text += space();
      } else {
        result_.text += c;
      }
    }
    result_.origins.insert(result_.origins.end(), result_.text.size() - begin, consumed_);
  }

  void DropTrailingSpaces() {
    while (result_.text.ends_with(space())) {
      const size_t length = result_.text.size() - space().size();
      consumed_ = result_.origins[length];
      result_.text.resize(length);
      result_.origins.resize(length);
    }
  }

  const SentencePieceNormalizer& rules_;
  std::string_view rest_;
  const size_t most_bytes_;
  TextWork& work_;
  int32_t consumed_ = 0;
  Result result_;
};

absl::StatusOr<SentencePieceNormalizer> SentencePieceNormalizer::Create(
    const SentencePieceFile& file) {
  SentencePieceNormalizer normalizer;
  if (!file.character_map.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(normalizer.map_, PrecompiledCharsmap::Parse(file.character_map));
  }
  std::vector<std::pair<std::string_view, int32_t>> user_defined;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    if (piece.type == SentencePieceFile::PieceType::kUserDefined) {
      user_defined.emplace_back(piece.text, 0);
    }
  }
  BEAMLINE_ASSIGN_OR_RETURN(normalizer.user_defined_, ByteTrie::Build(user_defined));
  normalizer.add_dummy_prefix_ = file.add_dummy_prefix;
  normalizer.remove_extra_whitespaces_ = file.remove_extra_whitespaces;
  normalizer.escape_whitespaces_ = file.escape_whitespaces;
  normalizer.whitespace_as_suffix_ = file.whitespace_as_suffix;
  return normalizer;
}

absl::StatusOr<SentencePieceNormalizer::Result> SentencePieceNormalizer::Normalize(
    std::string_view input, TextWork& work) const {
  return Run(*this, input, work).Normalize();
}

std::string_view SentencePieceNormalizer::NormalizePrefix(std::string_view rest, size_t* length,
                                                          TextWork& work) const {
  *length = 0;
  work.Spend(user_defined_.ForEachPrefix(rest, [&](size_t found, int32_t) { *length = found; }));
  if (*length > 0) return rest.substr(0, *length);
  if (map_.has_value()) {
    if (const auto replacement = map_->FindLongest(rest, length, work)) return *replacement;
  }
  *length = CharLength(rest.front());
  return rest.substr(0, *length);
}

}  // namespace beamline::text
