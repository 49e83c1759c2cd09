// Checks and tokenizing that all requests share. Errors are of base/field_error.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/loading/loaded_model.h"

namespace beamline {

// Whose ids a prompt holds: a translator's decoder may have a vocabulary of its own.
enum class PromptSide : uint8_t { kInput, kTarget };

// Bytes of text to be tokenized.
size_t TextBytes(const Prompt& prompt);
size_t TextBytes(const std::vector<Prompt>& prompts);

// What can be seen of a prompt before it is tokenized: ids in range, not empty unless that may be.
// A text may always be empty where the tokenizer's template makes tokens of it.
absl::Status CheckPrompt(std::string_view field, const Prompt& prompt, PromptSide side,
                         bool may_be_empty, const ModelFacts& model);
// "target_language is 'xx'; accepted: de, en". An empty one is none. Errors name some of the
// languages that are nearest in spelling where there are many.
absl::Status CheckLanguage(std::string_view field, std::string_view language,
                           const ModelFacts& model);
// "inputs[2] has no tokens; accepted: at least 1".
absl::Status NoTokens(std::string_view field);
// How many logits of a step one request may take at most that wants those of many tokens at once.
int32_t MaxStepShare(const ModelFacts& model);
// How many of these count as one of the sequences that run at once: a step has room for both.
int32_t StepTokensPerRow(const ModelFacts& model);
// "model is 'embed-en', which only encodes; Generate accepts the others".
absl::Status WrongTask(const ModelFacts& model, std::string_view rpc, std::string_view what);

// OK of a model that generates, else WrongTask.
absl::Status CheckGenerates(const ModelFacts& model, std::string_view rpc);
// "inputs[2] has 600 tokens; accepted: at most 512", where `length` is text, and what is `hint` is
// behind it.
absl::Status TooLong(std::string_view field, std::string_view length, int32_t limit,
                     std::string_view hint, const ModelFacts& model);

Truncation ToTruncation(EncodeTruncation truncate);

// A prompt's ids, of the target's side with options.as_target; more than `limit` of them are an
// error that ends with `hint`, unless the options truncate.
absl::StatusOr<TokenIds> TokenizePrompt(std::string_view field, const Prompt& prompt,
                                        const EncodeTextOptions& options, int32_t limit,
                                        std::string_view hint, const ModelFacts& model);
// An encoder's input, text or ids, cut to the model's longest one where `truncate` says so. At
// least one id.
absl::StatusOr<TokenIds> TokenizeWithin(std::string_view field, Prompt&& prompt,
                                        EncodeTruncation truncate, std::string_view hint,
                                        const ModelFacts& model);
// The tokens of a text that is an input of its own, `field`; otherwise as TokenizeWithin.
absl::StatusOr<std::vector<InputToken>> TokenizeText(std::string_view field,
                                                     const std::string& text,
                                                     EncodeTruncation truncate,
                                                     const ModelFacts& model);
// An error where so many bytes of text have more tokens than an input may have, whatever they are.
absl::Status CheckBytesFit(std::string_view field, size_t bytes, const ModelFacts& model);
// Bytes begin .. end - 1 of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};
// A text around a part of it, `field`, from which tokens are cut where `truncate` says so. Of
// special tokens that the text has itself at its beginning or end the template adds no second ones.
// At least one id.
absl::StatusOr<TokenIds> TokenizeAround(std::string_view field, const std::string& text,
                                        TextRange part, EncodeTruncation truncate,
                                        const ModelFacts& model);
// A text of two that are one input, without special tokens. `field` is that of the text itself.
absl::StatusOr<TokenIds> TokenizePart(std::string_view field, const std::string& text,
                                      Truncation truncation, const ModelFacts& model);
// The prompt of a request, a text in this language (empty: the tokenizer's own); an empty text
// stands for the model's begin token.
absl::StatusOr<TokenIds> TokenizeInput(const Prompt& prompt, std::string_view language,
                                       const ModelFacts& model);

}  // namespace beamline
