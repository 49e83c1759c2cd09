#include "engine/text/multilingual_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "engine/text/component_json.h"
#include "engine/text/encode_text.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

struct LanguageClass {
  std::string_view name;
  const char* source;  // default of src_lang
  const char* shape;   // of a code: 'a' is a lower-case letter, 'A' an upper-case one
  bool code_behind = false;
};

constexpr std::array<LanguageClass, 4> kClasses = {{
    {kMBartTokenizer, "en_XX", "aa_AA", true},
    {kMBart50Tokenizer, "en_XX", "aa_AA"},
    {kNllbTokenizer, "eng_Latn", "aaa_Aaaa"},
    {kM2M100Tokenizer, "en", "__aa__"},
}};
// Around the codes of M2M100, which have two or three letters; languages are named without it.
constexpr std::string_view kMarks = "__";

const LanguageClass* Find(std::string_view tokenizer_class) {
  const auto found = std::ranges::find(kClasses, tokenizer_class, &LanguageClass::name);
  return found == kClasses.end() ? nullptr : &*found;
}

bool HasShape(std::string_view token, std::string_view shape) {
  return std::ranges::equal(token, shape, [](char c, char kind) {
    if (kind == 'a') return absl::ascii_islower(static_cast<unsigned char>(c));
    if (kind == 'A') return absl::ascii_isupper(static_cast<unsigned char>(c));
    return c == kind;
  });
}

std::string_view NameOf(std::string_view code) {
  if (!code.starts_with(kMarks)) return code;
  return code.substr(kMarks.size(), code.size() - 2 * kMarks.size());
}

class MultilingualTokenizer : public Tokenizer {
 public:
  struct Parts {
    std::vector<std::pair<std::string, int32_t>> languages;  // sorted by name
    std::string source, target;                              // defaults for texts without a
                                                             // language
    int32_t eos_id = 0;
    bool code_behind = false;
  };

  MultilingualTokenizer(std::unique_ptr<Tokenizer> inner, Parts parts)
      : inner_(std::move(inner)), parts_(std::move(parts)) {}

  absl::StatusOr<std::vector<Token>> Encode(std::string_view text,
                                            const EncodeTextOptions& options) const override {
    BEAMLINE_ASSIGN_OR_RETURN(
        std::vector<Token> tokens,
        inner_->Encode(text, {.add_special_tokens = false, .as_target = options.as_target}));
    Truncate(options, options.add_special_tokens ? num_template_tokens() : 0, &tokens);
    if (!options.add_special_tokens) return tokens;
    const std::string& otherwise = options.as_target ? parts_.target : parts_.source;
    const std::string& language = options.language.empty() ? otherwise : options.language;
    const std::optional<int32_t> code = LanguageId(language);
    if (!code.has_value()) {
      return absl::InvalidArgumentError(fmt::format("no language \"{}\"", language));
    }
    if (parts_.code_behind) {
      const std::array<int32_t, 2> suffix = {parts_.eos_id, *code};
      AddTemplate({}, suffix, text.size(), &tokens);
    } else {
      AddTemplate({&*code, 1}, {&parts_.eos_id, 1}, text.size(), &tokens);
    }
    return tokens;
  }
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids,
                                     bool skip_special_tokens) const override {
    return inner_->Decode(ids, skip_special_tokens);
  }
  std::unique_ptr<IncrementalDetokenizer> StartDecoding(bool skip_special_tokens) const override {
    return inner_->StartDecoding(skip_special_tokens);
  }

  int32_t vocab_size() const override { return inner_->vocab_size(); }
  int32_t source_vocab_size() const override { return inner_->source_vocab_size(); }
  std::optional<int32_t> target_vocab_size() const override { return inner_->target_vocab_size(); }
  std::string TokenText(int32_t id) const override { return inner_->TokenText(id); }
  std::optional<int32_t> TokenId(std::string_view token_text) const override {
    return inner_->TokenId(token_text);
  }
  bool IsSpecial(int32_t id) const override { return inner_->IsSpecial(id); }
  int32_t num_template_tokens() const override { return 2; }
  int64_t model_max_length() const override { return inner_->model_max_length(); }
  std::string Kind() const override { return inner_->Kind(); }

  std::vector<std::string> languages() const override {
    std::vector<std::string> names;
    for (const auto& [name, id] : parts_.languages) names.push_back(name);
    return names;
  }
  std::optional<int32_t> LanguageId(std::string_view language) const override {
    const auto found = std::ranges::lower_bound(parts_.languages, language, {},
                                                &std::pair<std::string, int32_t>::first);
    if (found == parts_.languages.end() || found->first != language) return std::nullopt;
    return found->second;
  }

 private:
  const std::unique_ptr<Tokenizer> inner_;
  const Parts parts_;
};

}  // namespace

bool IsLanguageCode(std::string_view tokenizer_class, std::string_view token) {
  const LanguageClass* const known = Find(tokenizer_class);
  if (known == nullptr) return false;
  return HasShape(token, known->shape) ||
         (known->name == kM2M100Tokenizer && HasShape(token, "__aaa__"));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> AddLanguages(std::string_view tokenizer_class,
                                                        const TokenizerConfig& config,
                                                        std::unique_ptr<Tokenizer> inner) {
  const LanguageClass* const known = Find(tokenizer_class);
  if (known == nullptr) return inner;
  MultilingualTokenizer::Parts parts;
  for (int32_t id = 0; id < inner->vocab_size(); ++id) {
    const std::string token = inner->TokenText(id);
    if (!IsLanguageCode(tokenizer_class, token) || inner->TokenId(token) != id) continue;
    parts.languages.emplace_back(NameOf(token), id);
  }
  std::ranges::sort(parts.languages);
  const JsonNode root(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(parts.source, root.StringOr("src_lang", known->source));
  BEAMLINE_ASSIGN_OR_RETURN(parts.target, root.StringOr("tgt_lang", parts.source));
  BEAMLINE_ASSIGN_OR_RETURN(const bool legacy, root.BoolOr("legacy_behaviour", false));
  parts.code_behind = known->code_behind || (known->name == kNllbTokenizer && legacy);
  const std::string eos = config.Role("eos_token", "</s>");
  const std::optional<int32_t> eos_id = inner->TokenId(eos);
  if (!eos_id.has_value()) {
    return JsonNode(config.json, config.PlaceOf("eos_token"))
        .Error(fmt::format("the end token \"{}\" is not in the vocabulary", eos));
  }
  parts.eos_id = *eos_id;
  const std::pair<const char*, std::string> roles[] = {{"src_lang", parts.source},
                                                       {"tgt_lang", parts.target}};
  auto made = std::make_unique<MultilingualTokenizer>(std::move(inner), std::move(parts));
  for (const auto& [key, language] : roles) {
    if (made->LanguageId(language).has_value()) continue;
    return root.Error(fmt::format("\"{}\" is \"{}\", a language that the vocabulary does not have",
                                  key, language));
  }
  return made;
}

}  // namespace beamline::text
