#include "tests/fuzz/checks.h"

#include <cstdio>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/text.h"
#include "base/utf8.h"

namespace beamline {
namespace {

std::string DecodeByToken(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                          bool skip_special_tokens) {
  auto detokenizer = tokenizer.StartDecoding(skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) {
    detokenizer = detokenizer->Clone();
    text += detokenizer->Append(id);
    BEAMLINE_CHECK(IsValidUtf8(text));
  }
  return text + detokenizer->Finish();
}

void CheckDecoding(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (const bool skip : {false, true}) {
    const auto decoded = tokenizer.Decode(ids, skip);
    BEAMLINE_CHECK(decoded.ok());
    BEAMLINE_CHECK(IsValidUtf8(*decoded));
    BEAMLINE_CHECK(DecodeByToken(tokenizer, ids, skip) == *decoded);
  }
}

bool IsOnCharacter(std::string_view text, int32_t offset) {
  const auto at = static_cast<size_t>(offset);
  return at == text.size() || !IsContinuationByte(text[at]);
}

void CheckTokens(const Tokenizer& tokenizer, std::string_view text,
                 const std::vector<Token>& tokens) {
  for (const Token& token : tokens) {
    BEAMLINE_CHECK(token.id >= 0 && token.id < tokenizer.vocab_size());
    BEAMLINE_CHECK(token.begin >= 0 && token.begin <= token.end);
    BEAMLINE_CHECK(static_cast<size_t>(token.end) <= text.size());
    BEAMLINE_CHECK(IsOnCharacter(text, token.begin) && IsOnCharacter(text, token.end));
    BEAMLINE_CHECK(IsValidUtf8(tokenizer.TokenText(token.id)));
  }
}

// But for the offsets of the first one, from which RoBERTa's template trims other spaces than from
// those behind it.
bool SameTokens(const Token* a, const Token* b, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (a[i].id != b[i].id || a[i].special != b[i].special) return false;
    if (i > 0 && (a[i].begin != b[i].begin || a[i].end != b[i].end)) return false;
  }
  return true;
}

// `plain`: the text's own tokens.
void CheckTruncation(const Tokenizer& tokenizer, std::string_view text,
                     const std::vector<Token>& plain) {
  const auto kept = static_cast<int32_t>(plain.size() / 2);
  for (const Truncation side : {Truncation::kLeft, Truncation::kRight}) {
    const auto cut = tokenizer.Encode(
        text, {.add_special_tokens = false, .truncation = side, .max_tokens = kept});
    BEAMLINE_CHECK(cut.ok() && cut->size() == static_cast<size_t>(kept));
    const size_t dropped = side == Truncation::kLeft ? plain.size() - cut->size() : 0;
    BEAMLINE_CHECK(SameTokens(plain.data() + dropped, cut->data(), cut->size()));
  }
}

}  // namespace

void CheckRefusal(const absl::Status& status, std::string_view part) {
  BEAMLINE_CHECK(!status.ok());
  const std::string line = ErrorLine("fuzzer", status);
  const bool of_the_input = absl::IsInvalidArgument(status) || absl::IsNotFound(status) ||
                            absl::IsUnimplemented(status) || absl::IsOutOfRange(status);
  const bool named = line.find(part) != std::string::npos;
  if (!of_the_input || !named)
    std::fprintf(stderr, "%s: %s", status.ToString().c_str(), line.c_str());
  BEAMLINE_CHECK(of_the_input);
  BEAMLINE_CHECK(named);
  BEAMLINE_CHECK(line.size() <= kMaxErrorLineBytes && IsValidUtf8(line));
  BEAMLINE_CHECK(line.find('\n') == line.size() - 1);
}

void CheckTokenizer(const Tokenizer& tokenizer, std::string_view text) {
  const auto plain = tokenizer.Encode(text, {.add_special_tokens = false});
  if (!IsValidUtf8(text)) {
    BEAMLINE_CHECK(absl::IsInvalidArgument(plain.status()));
    return;
  }
  if (!plain.ok()) {
    CheckRefusal(plain.status(), "");
    return;
  }
  CheckTokens(tokenizer, text, *plain);
  CheckTruncation(tokenizer, text, *plain);
  const auto whole = tokenizer.Encode(text, {});
  BEAMLINE_CHECK(whole.ok());
  CheckTokens(tokenizer, text, *whole);
  BEAMLINE_CHECK(whole->size() ==
                 plain->size() + static_cast<size_t>(tokenizer.num_template_tokens()));
  std::vector<int32_t> ids;
  for (const Token& token : *whole) ids.push_back(token.id);
  CheckDecoding(tokenizer, ids);
  const auto target = tokenizer.Encode(text, {.as_target = true});
  BEAMLINE_CHECK(target.ok());
  CheckTokens(tokenizer, text, *target);
}

}  // namespace beamline
